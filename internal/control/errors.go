package control

import (
	"errors"
	"fmt"
)

// ErrPeerLost says that the peer went away or fell silent. Errors that match it are [*LostError]: they carry the phase
// and the cause.
var ErrPeerLost = errors.New("peer lost")

// ErrBusy says that the server is serving another client. The [*PeerError] that matches it says since when.
var ErrBusy = errors.New("server busy")

// PeerError is what the other end said went wrong.
type PeerError struct {
	Message string // the peer's own words
	Busy    bool   // the peer serves another client
	Refused bool   // the test had not begun
}

func (e *PeerError) Error() string { return "peer said: " + e.Message }

// Is matches [ErrBusy].
func (e *PeerError) Is(target error) bool { return target == ErrBusy && e.Busy }

// LostError is a peer that went away or fell silent.
type LostError struct {
	Phase string // what this end was waiting for: "exchanging addresses"
	Cause error
	Hint  string // the likely reason and what to do, or empty
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("peer lost while %s: %v", e.Phase, e.Cause)
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Is matches [ErrPeerLost].
func (e *LostError) Is(target error) bool { return target == ErrPeerLost }

func (e *LostError) Unwrap() error { return e.Cause }

var (
	errClosed = errors.New("the connection was closed by the peer")
	errReset  = errors.New("the connection was reset by the peer: its process has ended")
	errSilent = errors.New("no sign of life from the peer")
)
