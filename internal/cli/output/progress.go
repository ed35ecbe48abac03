package output

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gobw/gobw/internal/bench/drive"
	"github.com/gobw/gobw/report/plain"
)

// Write replaces the line by a text, as much of it as fits: a line that the terminal breaks could not be replaced.
func (b *Progress) Write(line string) {
	if !b.on {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s, known := b.out.Err.(sized); known && s.columns > 0 {
		line = line[:min(len(line), s.columns-1)]
	}
	pad := max(b.width-len(line), 0)
	b.width = len(line)
	fmt.Fprintf(b.out.Err, "\r%s%s", line, strings.Repeat(" ", pad))
}

// Progress is one line on a terminal's stderr that is written over and over. Elsewhere only [Progress.Tell] shows it.
type Progress struct {
	out     Streams
	on      bool
	quiet   bool
	started time.Time // of what is shown
	told    time.Time // the last line without a terminal

	mu    sync.Mutex
	width int // of the line that is shown
}

// NewProgress makes the line; it shows nothing where quiet or no terminal.
func NewProgress(out Streams, quiet bool) *Progress {
	return &Progress{out: out, on: out.ErrTerminal && !quiet, quiet: quiet}
}

// Show writes the line anew.
func (b *Progress) Show(p drive.Progress) {
	if !b.on {
		return
	}
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
	b.Write(line)
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
func (b *Progress) Note(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clear()
	fmt.Fprintln(b.out.Err, text)
}

// Clear removes the line.
func (b *Progress) Clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clear()
}

func (b *Progress) clear() {
	if b.on && b.width > 0 {
		fmt.Fprintf(b.out.Err, "\r%s\r", strings.Repeat(" ", b.width))
		b.width = 0
	}
}
