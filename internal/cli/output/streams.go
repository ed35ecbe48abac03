// Package output is where results go: streams, formats, files, progress.
package output

import (
	"encoding/json"
	"io"
	"os"
	"strconv"

	"golang.org/x/term"
)

// Streams are what a command reads and writes: results go to Out, everything else to Err.
type Streams struct {
	Out io.Writer
	Err io.Writer
	// ErrTerminal tells that Err is a terminal: progress is shown.
	ErrTerminal bool
}

// ProgressVariable is the environment variable by which another program asks for the line of progress where no terminal
// is.
const ProgressVariable = "GOBW_PROGRESS"

// StandardStreams are the process's own.
func StandardStreams() Streams {
	err := int(os.Stderr.Fd())
	columns, _, _ := term.GetSize(err) // 0: it is no terminal
	return Streams{
		Out: sized{os.Stdout, columnsOf(os.Stdout)}, Err: sized{os.Stderr, columns},
		ErrTerminal: term.IsTerminal(err) || os.Getenv(ProgressVariable) != "",
	}
}

// WithConsole are the streams with a console for Err. Close it at the end.
func (s Streams) WithConsole() (Streams, *Console) {
	c := NewConsole(s.Err)
	s.Err = c
	return s, c
}

// Flush waits until everything is written to Err, so that what is printed to Out comes after it.
func (s Streams) Flush() {
	if c, is := s.Err.(*Console); is {
		c.Flush()
	}
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
func (q quietly) Columns() int { return columnsIn(q.Writer) }

// columnsIn is how many columns a stream shows; 0: unknown.
func columnsIn(w io.Writer) int {
	if s, is := w.(interface{ Columns() int }); is {
		return s.Columns()
	}
	return 0
}

// columnsOf is the width of a terminal, or what COLUMNS says; 0: unknown.
func columnsOf(f *os.File) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 && n <= 1000 {
		return n
	}
	columns, _, _ := term.GetSize(int(f.Fd()))
	return columns
}

// JSON prints indented JSON, for what is no result.
func JSON(out Streams, v any) error {
	e := json.NewEncoder(out.Out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
