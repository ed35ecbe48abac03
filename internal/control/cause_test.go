package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/gobw/gobw/verbs"
)

// TestCauseIsWhatHappened: both ends come to the same cause, the one that saw it and the one that was told.
func TestCauseIsWhatHappened(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want Cause
	}{
		{&verbs.CompletionError{Completion: verbs.Completion{Status: verbs.RetryExceeded}}, TestFailed},
		{&verbs.Error{Verb: "measure", Err: errors.New("nothing moved")}, TestFailed},
		{&verbs.Error{Verb: "create queue pair", Err: syscall.ENOMEM}, SetupFailed},
		{&LostError{Phase: "measuring", Cause: ErrClosed}, PeerGone},
		{fmt.Errorf("measuring: %w", context.Canceled), Stopped},
		{ErrStopped, Stopped},
		{errors.New("the device is gone"), TestFailed},
	} {
		here := CauseOf(fmt.Errorf("size 64: %w", tt.err))
		there := CauseOf(fmt.Errorf("size 64: %w", &PeerError{Message: tt.err.Error(), Cause: here}))
		if here != tt.want || there != tt.want {
			t.Errorf("%v: %q at this end and %q at the other, want %q", tt.err, here, there, tt.want)
		}
	}
	if got := CauseOf(&PeerError{Refused: true, Cause: TestFailed}); got != SetupFailed {
		t.Errorf("a test that was refused: %q", got)
	}
	stopped := &PeerError{Refused: true, Cause: Stopped, Message: "stopped"} // before the test had begun
	if got := CauseOf(stopped); got != Stopped || strings.Contains(stopped.Error(), "refuses") {
		t.Errorf("a server that was stopped: %q, %v", got, stopped)
	}
}
