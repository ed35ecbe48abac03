package output

import (
	"io"
	"os"
)

// Streams are what a command reads and writes: results go to Out, everything else to Err.
type Streams struct {
	Out io.Writer
	Err io.Writer
	// ErrTerminal tells that Err is a terminal: progress is shown.
	ErrTerminal bool
	// OutTerminal tells that Out is a terminal: a person reads along.
	OutTerminal bool
}

// StandardStreams are the process's own.
func StandardStreams() Streams {
	return Streams{Out: os.Stdout, Err: os.Stderr, ErrTerminal: isTerminal(os.Stderr), OutTerminal: isTerminal(os.Stdout)}
}

// isTerminal tells whether f is a character device that is not /dev/null.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
