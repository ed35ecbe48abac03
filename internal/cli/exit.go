package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/verbs"
)

// Exit codes, the same in every command.
const (
	exitPassed      = 0
	exitMissed      = 1 // an expectation missed; doctor: findings
	exitUsage       = 2
	exitSetup       = 3 // device, port, permission, memory
	exitPeerLost    = 4
	exitCorrupt     = 5
	exitFailed      = 6 // a completion with error, the device lost, a disk full, an internal fault
	exitInterrupted = 130
	exitTerminated  = 143
)

// usageError is a command line that asks for something impossible.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// setupError is a test that could not start.
type setupError struct{ error }

func (e setupError) Unwrap() error { return e.error }

// missedError is an expectation that was missed; what was missed has been printed already.
type missedError struct{ what string }

func (e missedError) Error() string { return e.what }

// silentError carries an exit code without a message: the command has said everything.
type silentError struct{ code int }

func (e silentError) Error() string { return fmt.Sprintf("exit status %d", e.code) }

// signalError is a signal that ended the command.
type signalError struct{ signal os.Signal }

func (e signalError) Error() string {
	switch e.signal {
	case syscall.SIGINT:
		return "interrupted (SIGINT)"
	case syscall.SIGTERM:
		return "interrupted (SIGTERM)"
	}
	return "interrupted by " + e.signal.String()
}

// Is lets bench tell the peer that a user did it.
func (e signalError) Is(target error) bool { return target == context.Canceled }

// exitCode is the process's status for an error.
func exitCode(err error) int {
	var usage usageError
	var setup setupError
	var missed missedError
	var silent silentError
	var sig signalError
	var peer *control.PeerError
	switch {
	case err == nil:
		return exitPassed
	case errors.As(err, &silent):
		return silent.code
	case errors.As(err, &sig):
		if sig.signal == syscall.SIGTERM {
			return exitTerminated
		}
		return exitInterrupted
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, bench.ErrCorrupt):
		return exitCorrupt
	case errors.As(err, &peer) && (peer.Refused || peer.Busy):
		return exitSetup
	case errors.Is(err, control.ErrPeerLost), peer != nil:
		return exitPeerLost
	case errors.As(err, &missed):
		return exitMissed
	case errors.As(err, &setup):
		return exitSetup
	default:
		return exitFailed
	}
}

// complain writes an error for a person: what happened, then what to do on a line of its own.
func complain(w io.Writer, tool string, err error) {
	var silent silentError
	if err == nil || errors.As(err, &silent) {
		return
	}
	for _, e := range eachOf(err) {
		fmt.Fprintf(w, "%s: %v\n", tool, e)
	}
	if fix := verbs.RemedyOf(err); fix != "" {
		fmt.Fprintf(w, "%s: %s\n", tool, fix)
	}
}

// eachOf takes an error apart that was joined, also inside one of ours.
func eachOf(err error) []error {
	switch e := err.(type) { //nolint:errorlint // only the outermost layers are taken apart
	case usageError:
		return eachOf(e.error)
	case setupError:
		return eachOf(e.error)
	case interface{ Unwrap() []error }:
		parts := e.Unwrap()
		if errors.Join(parts...).Error() != err.Error() { // one sentence that wraps several
			break
		}
		var out []error
		for _, part := range parts {
			out = append(out, eachOf(part)...)
		}
		return out
	}
	return []error{err}
}
