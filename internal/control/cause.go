package control

import (
	"context"
	"errors"

	"github.com/gobw/gobw/verbs"
)

// Cause is why a test ended: what happened, whichever end saw it. It crosses the
// wire, so that both ends come to the same.
type Cause string

// Causes.
const (
	SetupFailed Cause = "set-up failed" // device, port, permission, memory
	PeerGone    Cause = "peer lost"
	DataCorrupt Cause = "data corrupt"
	Stopped     Cause = "stopped" // by a person or a supervisor
	TestFailed  Cause = "test failed"
)

// ErrStopped is what an end tells its peer when a person or a supervisor ends it.
var ErrStopped = errors.New("stopped by Ctrl-C or a signal")

// CauseOf is the cause of an error; of nil it is empty.
func CauseOf(err error) Cause {
	var peer *PeerError
	var verb *verbs.Error
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrCorrupt):
		return DataCorrupt
	case errors.As(err, &peer):
		return peer.cause()
	case errors.Is(err, ErrPeerLost):
		return PeerGone
	case errors.Is(err, context.Canceled), errors.Is(err, ErrStopped):
		return Stopped
	case errors.As(err, &verb) && verb.Verb != "measure":
		return SetupFailed
	}
	return TestFailed
}

// cause is what happened at the peer. One that refuses a test has not begun it; one that is stopped does not refuse.
func (e *PeerError) cause() Cause {
	switch {
	case e.Cause == PeerGone, e.Cause == Stopped:
		return e.Cause
	case e.Busy, e.Refused:
		return SetupFailed
	case e.Cause == "":
		return TestFailed
	}
	return e.Cause
}
