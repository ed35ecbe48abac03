package verbs

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// Error is a verb that failed: what, where, why and what to do.
type Error struct {
	Verb   string // "modify queue pair to RTR"
	Device string // "mlx5_0"
	QP     uint32 // 0: no queue pair involved
	Err    error  // errno, Status, ErrUnsupported, a *TransitionError, ...
	Fix    string // "ping the peer; if it answers, raise the timeout"
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Verb)
	if e.Device != "" {
		b.WriteString(": " + e.Device)
	}
	if e.QP != 0 {
		fmt.Fprintf(&b, " qp %#x", e.QP)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Remedy says what to do, or is empty.
func (e *Error) Remedy() string { return e.Fix }

// CompletionError is a work request that completed with an error.
type CompletionError struct {
	Device     string
	Completion Completion
	Sent, Done uint64 // requests posted and completed on the job's lanes when it happened
}

func (e *CompletionError) Error() string {
	c := &e.Completion
	return fmt.Sprintf("%s qp %#x: work request %d completed with %v, vendor error %#x (%d posted, %d completed)",
		cmp.Or(e.Device, "device"), c.QPN, c.ID, c.Status.Error(), c.VendorError, e.Sent, e.Done)
}

// Unwrap returns the status, so that errors.Is(err, verbs.RetryExceeded) works.
func (e *CompletionError) Unwrap() error { return e.Completion.Status }

// Remedy names the usual causes and what to try.
func (e *CompletionError) Remedy() string {
	s := e.Completion.Status
	var parts []string
	if causes := s.Causes(); len(causes) > 0 {
		parts = append(parts, "likely: "+strings.Join(causes, "; or "))
	}
	if r := s.Remedy(); r != "" {
		parts = append(parts, "Try: "+r)
	}
	return strings.Join(parts, ". ")
}

// RemedyOf finds the first remedy in an error's chain, or "".
func RemedyOf(err error) string {
	if r, has := err.(interface{ Remedy() string }); has && r.Remedy() != "" { //nolint:errorlint // each link is asked
		return r.Remedy()
	}
	switch e := err.(type) { //nolint:errorlint // likewise
	case interface{ Unwrap() error }:
		return RemedyOf(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			if r := RemedyOf(part); r != "" {
				return r
			}
		}
	}
	return ""
}

// ErrBusy says that other handles depend on this one: "busy: 2 queue pairs open".
var ErrBusy = errors.New("busy")

// ErrUnsupported says that the device or the provider does not have what was asked. Errors that wrap it name it.
var ErrUnsupported = errors.New("not supported")

// ErrClosed says that the handle was closed.
var ErrClosed = errors.New("closed")

// ErrQueueFull says that a send, receive or shared receive queue has no free slot. Slots of unsignaled requests come
// back only when a later signaled completion is polled.
var ErrQueueFull = errors.New("queue full: poll completions (signal every n-th request) before posting more")
