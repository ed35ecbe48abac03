package verbs_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gobw/gobw/verbs"
)

// TestRemedyOf looks behind errors that have no remedy of their own.
func TestRemedyOf(t *testing.T) {
	cause := &verbs.Error{Verb: "bind", Err: errors.New("address in use"), Fix: "stop the other one"}
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"none", errors.New("no"), ""},
		{"its own", cause, "stop the other one"},
		{"of the cause", &verbs.Error{Verb: "modify queue pair", Err: cause}, "stop the other one"},
		{"of one of several", fmt.Errorf("test: %w", errors.Join(errors.New("first"), cause)), "stop the other one"},
		{"nothing wrong", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := verbs.RemedyOf(tt.err); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
