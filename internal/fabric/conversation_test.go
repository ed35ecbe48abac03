package fabric

import (
	"errors"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/control"
)

// TestAnAgentThatEndsIsTold: why an agent is gone is said in the words of who looks at it.
func TestAnAgentThatEndsIsTold(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&control.LostError{Cause: control.ErrClosed}, "its process has ended"},
		{&control.LostError{Cause: control.ErrSilent}, "its host no longer answers"},
		{&control.PeerError{Message: "it was stopped there: interrupted"}, "it was stopped there: interrupted"},
		{errors.New("a message of 9 bytes"), "a message of 9 bytes"},
	} {
		if got := Ended(tt.err).Error(); !strings.Contains(got, tt.want) {
			t.Errorf("%v: %s, want %s", tt.err, got, tt.want)
		}
	}
}
