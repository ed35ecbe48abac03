package output

import (
	"fmt"
	"time"

	"github.com/gobw/gobw/internal/bench/drive"
	"github.com/gobw/gobw/report/plain"
)

// Progress is one line on a terminal, on standard error, that is replaced again and again. Without a terminal only
// [Progress.Tell] prints it. Nobody waits for the terminal: see [Console].
type Progress struct {
	console *Console
	on      bool
	quiet   bool
	started time.Time // of what is shown
	told    time.Time // the last line without a terminal
}

// NewProgress makes the line; it shows nothing where quiet or no terminal.
func NewProgress(out Streams, quiet bool) *Progress {
	return &Progress{console: consoleOf(out.Err), on: out.ErrTerminal && !quiet, quiet: quiet}
}

// Write replaces the line by a text.
func (b *Progress) Write(line string) { b.write(func() string { return line }) }

func (b *Progress) write(line func() string) {
	if b.on {
		b.console.Line(line)
	}
}

// Show replaces the line. The measuring thread only hands over the value.
func (b *Progress) Show(p drive.Progress) { b.write(func() string { return b.line(p) }) }

func (b *Progress) line(p drive.Progress) string {
	if b.started.IsZero() {
		b.started = time.Now()
	}
	line := plain.Bytes(float64(p.Size))
	switch {
	case p.MedianNs > 0:
		line += "  p50 " + plain.WithUnit(p.MedianNs/1e9, plain.Seconds)
	case p.BitsPerS > 0:
		line += "  " + plain.WithUnit(p.BitsPerS, plain.BitsPerS)
	}
	if p.Sizes > 1 {
		line = fmt.Sprintf("[%d/%d] %s", p.SizeIndex+1, p.Sizes, line)
	}
	line += plain.When(p.Runs > 1 && !p.Warmup, "  run %d/%d", p.Run, p.Runs)
	if p.Warmup {
		line += "  warming up"
	} else {
		line += fmt.Sprintf("  %.0f %%", p.Of*100)
	}
	if left := timeLeft(time.Since(b.started), p.Of); left > 0 {
		line += fmt.Sprintf("  %v left", left.Round(time.Second))
	}
	return line
}

// On tells whether anybody sees the line.
func (b *Progress) On() bool { return b.on }

// timeLeft is by the pace so far; 0 while that says little.
func timeLeft(elapsed time.Duration, share float64) time.Duration {
	if elapsed < 2*time.Second || share < 0.02 {
		return 0
	}
	return time.Duration(float64(elapsed) * (1 - share) / share)
}

// between is the least time between two lines where there is no terminal.
const between = 10 * time.Second

// Tell writes the line, and prints it now and then where there is no terminal.
func (b *Progress) Tell(line string) {
	if b.Write(line); !b.on && !b.quiet && time.Since(b.told) >= between {
		b.told = time.Now()
		b.Note(line)
	}
}

// Note prints above the line what should be read at once.
func (b *Progress) Note(text string) { fmt.Fprintln(b.console, text) }

// Clear removes the line.
func (b *Progress) Clear() { b.Write("") }
