// Package output is where results go: streams, formats, files, progress.
package output

import (
	"encoding/json"
	"io"
	"os"
	"strconv"
)

// Streams are what a command reads and writes: results go to Out, everything else to Err.
type Streams struct {
	Out io.Writer
	Err io.Writer
	// ErrTerminal tells that Err is a terminal: progress is shown.
	ErrTerminal bool
}

// ProgressVariable is the environment variable by which another program asks for the line of progress where no terminal is.
const ProgressVariable = "GOBW_PROGRESS"

// StandardStreams are the process's own.
func StandardStreams() Streams {
	return Streams{Out: sized{os.Stdout, columnsOf(os.Stdout)}, Err: sized{os.Stderr, terminalColumns(os.Stderr)}, ErrTerminal: isTerminal(os.Stderr) || os.Getenv(ProgressVariable) != ""}
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

// sized is a stream that tells tables how wide they may be.
type sized struct {
	io.Writer
	columns int
}

// Columns the stream shows; 0: unknown.
func (s sized) Columns() int { return s.columns }

// quietly is a stream that asks for no notes.
type quietly struct{ io.Writer }

func (quietly) WithoutNotes() {}

// Columns the stream shows; 0: unknown.
func (q quietly) Columns() int {
	if s, is := q.Writer.(sized); is {
		return s.columns
	}
	return 0
}

// columnsOf is the width of a terminal, or what COLUMNS says; 0: unknown.
func columnsOf(f *os.File) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 && n <= 1000 {
		return n
	}
	return terminalColumns(f)
}

// JSON prints what is no result as JSON for people and programs.
func JSON(out Streams, v any) error {
	e := json.NewEncoder(out.Out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
