// Package exit is how a command ends: exit codes, the errors that lead to them, and what is printed of an error.
package exit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/verbs"
)

// Exit codes, the same in every command.
const (
	Passed      = 0
	Missed      = 1 // an expectation missed; doctor: findings
	Usage       = 2
	Setup       = 3 // device, port, permission, memory
	PeerLost    = 4
	Corrupt     = 5
	Failed      = 6 // a completion with error, the device lost, a disk full, an internal fault
	Undecided   = 7 // no expectation missed, but of one it cannot be told whether it holds
	Interrupted = 130
	Terminated  = 143
)

// Error is an error with its exit code. Err is nil if the command has printed everything.
type Error struct {
	Code int
	Err  error
}

func (e Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return e.Err.Error()
}

func (e Error) Unwrap() error { return e.Err }

// Is finds the errors of a code: see [Has].
func (e Error) Is(target error) bool { return target == Error{Code: e.Code} }

// With gives an error an exit code; nil stays nil.
func With(code int, err error) error {
	if err == nil {
		return nil
	}
	return Error{code, err}
}

// Has tells whether an error, or one of those that it joins, was given an exit code.
func Has(err error, code int) bool { return errors.Is(err, Error{Code: code}) }

// SignalError is a signal that ended the command.
type SignalError struct{ Signal os.Signal }

func (e SignalError) Error() string {
	switch e.Signal {
	case syscall.SIGINT:
		return "interrupted (SIGINT)"
	case syscall.SIGTERM:
		return "interrupted (SIGTERM)"
	case syscall.SIGHUP:
		return "interrupted (SIGHUP): the terminal was closed"
	}
	return "interrupted by " + e.Signal.String()
}

// Is makes a signal look like a cancelled context, by which bench tells the peer that a user stopped the test.
func (e SignalError) Is(target error) bool { return target == context.Canceled }

// Code is the exit status for an error. The cause decides, not which end saw it.
func Code(err error) int {
	cause := control.CauseOf(err)
	var sig SignalError
	var given Error
	var peer *control.PeerError
	switch {
	case err == nil:
		return Passed
	case errors.As(err, &sig):
		if n, is := sig.Signal.(syscall.Signal); is {
			return 128 + int(n)
		}
		return Interrupted
	case Has(err, Usage):
		return Usage
	case cause == control.DataCorrupt:
		return Corrupt
	case cause == control.SetupFailed && errors.As(err, &peer) && (peer.Refused || peer.Busy):
		return Setup
	case Has(err, PeerLost):
		return PeerLost
	case cause == control.SetupFailed, Has(err, Setup): // also of a peer that went away before there was a session
		return Setup
	case cause == control.PeerGone, cause == control.Stopped && errors.As(err, &peer):
		return PeerLost
	case Has(err, Missed):
		return Missed
	case errors.As(err, &given): // undecided, or the code of another program
		return given.Code
	}
	return Failed
}

// Cause is an error's exit code in a word.
func Cause(err error) string {
	switch code := Code(err); code {
	case Usage:
		return "usage"
	case Setup:
		return string(control.SetupFailed)
	case PeerLost:
		return string(control.PeerGone)
	case Corrupt:
		return string(control.DataCorrupt)
	default:
		return string(map[bool]control.Cause{false: control.TestFailed, true: control.Stopped}[code > 128])
	}
}

// Complain writes an error for a person: what happened, then what to do on a line of its own.
func Complain(w io.Writer, tool string, err error) {
	var given Error
	if err == nil || errors.As(err, &given) && given.Err == nil {
		return
	}
	told := map[string]bool{} // a flag may be refused where it is read and where the test is settled
	for _, e := range EachOf(err) {
		if text := e.Error(); !told[text] {
			told[text] = true
			tell(w, tool+": "+plain.Terminal(text))
		}
	}
	if fixes := Remedies(err); len(fixes) > 0 {
		tell(w, tool+": "+plain.Terminal(strings.Join(fixes, "; ")))
	}
}

// tell writes lines; those that are wider than a terminal are wrapped.
func tell(w io.Writer, text string) {
	s, known := w.(interface{ Columns() int })
	for line := range strings.SplitSeq(text, "\n") {
		if known && s.Columns() > 0 && len([]rune(line)) > s.Columns() {
			line = strings.Join(plain.Wrap(line, s.Columns()), "\n")
		}
		fmt.Fprintln(w, line)
	}
}

// Remedies are what to do about an error.
func Remedies(err error) []string {
	return slices.DeleteFunc([]string{verbs.RemedyOf(err), flagsFor(err)}, func(s string) bool { return s == "" })
}

// flagsFor names the flags and commands that carry out the remedy of an error; empty: there are none.
func flagsFor(err error) string {
	if !errors.As(err, new(*verbs.Error)) && !errors.As(err, new(*verbs.CompletionError)) {
		return ""
	}
	for _, row := range []struct {
		flags  string
		causes []error
	}{
		{"see --size (-s)", []error{verbs.LocalLengthError, verbs.RemoteInvalidRequestError, verbs.RemoteAccessError}},
		{
			"see --qp-timeout (-u), --gid-index (-x), --mtu (-m); 'gobw doctor HOST' looks at the path",
			[]error{verbs.RetryExceeded},
		},
		{"see --rx-depth (-r), --iters (-n)", []error{verbs.RNRRetryExceeded}},
		{"see --gid-index (-x)", []error{syscall.ETIMEDOUT, syscall.ENETUNREACH, syscall.EHOSTUNREACH}},
		{
			"'gobw devices DEVICE' shows the limits",
			[]error{syscall.EINVAL, syscall.ENOMEM, syscall.EOPNOTSUPP, syscall.ENOSYS},
		},
	} {
		for _, cause := range row.causes {
			if errors.Is(err, cause) {
				return row.flags
			}
		}
	}
	return ""
}

// EachOf splits a joined error, also if an [Error] wraps it.
func EachOf(err error) []error {
	switch e := err.(type) { //nolint:errorlint // only the outermost layers are taken apart
	case Error:
		return EachOf(e.Err)
	case interface{ Unwrap() []error }:
		parts := e.Unwrap()
		if errors.Join(parts...).Error() != err.Error() { // one sentence that wraps several
			break
		}
		var out []error
		for _, part := range parts {
			out = append(out, EachOf(part)...)
		}
		return out
	}
	return []error{err}
}
