package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
)

// Lost words an error of the connection; a context that ended goes before it.
func Lost(ctx context.Context, phase string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", phase, context.Cause(ctx))
	}
	return &LostError{Phase: phase, Cause: WhyLost(err)}
}

// WhyLost words an error of a connection.
func WhyLost(err error) error {
	timeout, is := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ErrClosed
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return errReset
	case is && timeout.Timeout():
		return ErrSilent
	}
	return err
}

// ErrPeerLost says that the peer went away or fell silent. Errors that match it are [*LostError]: they carry the phase
// and the cause.
var ErrPeerLost = errors.New("peer lost")

// ErrBusy says that the server is serving another client. The [*PeerError] that matches it says since when.
var ErrBusy = errors.New("server busy")

// ErrCorrupt matches every error that says that data did not arrive as it was sent.
var ErrCorrupt = errors.New("data corrupt")

// PeerError is what the other end said went wrong.
type PeerError struct {
	Message string // the peer's own words
	Busy    bool   // the peer serves another client
	Refused bool   // the test had not begun
	Cause   Cause  // what happened there
	Fix     string // what to do about it, or empty
}

// Error shows the peer's words as what they are: somebody else's.
func (e *PeerError) Error() string {
	switch {
	case e.Busy:
		return "the server is busy: " + Quoted(e.Message)
	case e.Refused && e.Cause != Stopped:
		return "the server refuses: " + Quoted(e.Message)
	}
	return "peer said: " + Quoted(e.Message)
}

// Remedy says how to wait for a server that serves others, or what the peer advises.
func (e *PeerError) Remedy() string {
	switch {
	case e.Busy:
		return "wait for it: --wait 5m"
	case e.Fix != "":
		return "the peer advises, for its end: " + Quoted(e.Fix)
	}
	return ""
}

// Is matches [ErrBusy], [ErrPeerLost] where the peer was the one to give up, and
// [ErrCorrupt] where it received wrong data.
func (e *PeerError) Is(target error) bool {
	return target == ErrBusy && e.Busy || target == ErrPeerLost && e.Cause == PeerGone ||
		target == ErrCorrupt && e.Cause == DataCorrupt
}

// maxWords bounds what is kept of the peer's words, in bytes.
const maxWords = 2000

// Bounded cuts a text that the peer wrote, or is to read, to a length that a person reads.
func Bounded(text string) string {
	if len(text) <= maxWords {
		return text
	}
	return strings.ToValidUTF8(text[:maxWords], "") + " ..."
}

// Quoted shows a text of the peer's on one line in quotation marks.
func Quoted(text string) string {
	lines := strings.FieldsFunc(Bounded(text), func(c rune) bool { return c == '\n' || c == '\r' })
	return strconv.Quote(strings.Join(lines, "; "))
}

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

// Why a peer was lost.
var (
	ErrClosed = errors.New("the connection was closed by the peer")
	errReset  = errors.New("the connection was reset by the peer")
	ErrSilent = errors.New("it was silent")
)

// FormatError is a peer that does not keep to the dialect.
type FormatError struct{ Err error }

// Malformed is a [*FormatError] in words.
func Malformed(format string, args ...any) error { return &FormatError{fmt.Errorf(format, args...)} }

func (e *FormatError) Error() string {
	return "the peer does not keep to the protocol: " + e.Err.Error()
}

func (e *FormatError) Unwrap() error { return e.Err }

// Remedy says what ends that misunderstand each other mostly are.
func (e *FormatError) Remedy() string {
	return "use the same version of gobw at both ends: type 'gobw version' on each"
}

// VersionError is a peer with which no greeting comes about: almost always another version of this program.
type VersionError struct {
	Peer net.Addr
	Own  string // this program and its version
	Err  error
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%v runs another version of gobw, or is not gobw; here is %s (%v)", e.Peer, e.Own, e.Err)
}

func (e *VersionError) Unwrap() error { return e.Err }
