package verbs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestEveryStatusIsExplained(t *testing.T) {
	for s := Success; s <= GeneralError; s++ {
		if s.String() == "" || s.Meaning() == "" {
			t.Errorf("status %d has no name or no meaning", uint32(s))
		}
	}
	for s, want := range map[Status]string{3: "Status(3)", 57: "Status(57)"} {
		if got := s.String(); got != want {
			t.Errorf("unknown status prints %q, want %q", got, want)
		}
	}
}

func TestCompletionErrorNamesCauseAndRemedy(t *testing.T) {
	err := fmt.Errorf("run: %w", &CompletionError{
		Device: "roce0", Completion: Completion{ID: 7, Status: RetryExceeded, QPN: 0x12}, Sent: 128, Done: 3,
	})
	if !errors.Is(err, RetryExceeded) {
		t.Error("errors.Is does not see the status")
	}
	for _, want := range []string{"roce0 qp 0x12", "RETRY_EXC_ERR (status 12)", "128 posted, 3 completed"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not contain %q", err, want)
		}
	}
	if r := RemedyOf(err); !strings.Contains(r, "Try: ping") {
		t.Errorf("remedy %q does not say what to do next", r)
	}
}

func TestEveryEventThatEndsATestIsExplained(t *testing.T) {
	for e := EventCQError; e <= EventWorkQueueFatal; e++ {
		if e.EndsTest() && (e.Meaning() == "" || e.Remedy() == "") {
			t.Errorf("%v ends a test and has no meaning or no remedy", e)
		}
	}
}
