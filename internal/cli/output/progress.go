package output

import (
	"fmt"
	"strings"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/report/plain"
)

// Write replaces the line by a text.
func (b *Progress) Write(line string) {
	if !b.on {
		return
	}
	pad := max(b.width-len(line), 0)
	b.width = len(line)
	fmt.Fprintf(b.out.Err, "\r%s%s", line, strings.Repeat(" ", pad))
}

// Progress is one line on a terminal's stderr that is written over and over. Elsewhere it shows nothing.
type Progress struct {
	out   Streams
	on    bool
	width int
}

// NewProgress makes the line; it shows nothing where quiet or no terminal.
func NewProgress(out Streams, quiet bool) *Progress {
	return &Progress{out: out, on: out.ErrTerminal && !quiet}
}

// Show writes the line anew.
func (b *Progress) Show(p bench.Progress) {
	if !b.on {
		return
	}
	line := fmt.Sprintf("%s %s", plain.Bytes(float64(p.Size)), BandwidthText(p.BitsPerS))
	if p.Sizes > 1 {
		line = fmt.Sprintf("[%d/%d] %s", p.SizeIndex+1, p.Sizes, line)
	}
	line += plain.When(p.Runs > 1 && !p.Warmup, "  run %d/%d", p.Run, p.Runs)
	line += fmt.Sprintf("  %.3g M messages/s", p.MessagesPerS/1e6)
	switch {
	case p.Warmup:
		line += "  warming up"
	case p.Share >= 0:
		line += fmt.Sprintf("  %3.0f %%", p.Share*100)
	}
	b.Write(line)
}

// Clear removes the line.
func (b *Progress) Clear() {
	if b.on && b.width > 0 {
		fmt.Fprintf(b.out.Err, "\r%s\r", strings.Repeat(" ", b.width))
		b.width = 0
	}
}

// BandwidthText is decimal bits per second.
func BandwidthText(bits float64) string {
	switch {
	case bits >= 1e9:
		return fmt.Sprintf("%.2f Gb/s", bits/1e9)
	case bits >= 1e6:
		return fmt.Sprintf("%.1f Mb/s", bits/1e6)
	default:
		return fmt.Sprintf("%.0f kb/s", bits/1e3)
	}
}
