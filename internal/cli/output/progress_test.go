package output

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/bench/drive"
)

// TestProgressSaysWhatIsMeasured holds the line of a latency test, of a bandwidth test, and the time left.
func TestProgressSaysWhatIsMeasured(t *testing.T) {
	var out bytes.Buffer
	bar := NewProgress(Streams{Err: &out, ErrTerminal: true}, false)
	show := func(p drive.Progress) string {
		out.Reset()
		bar.Show(p)
		return strings.TrimSpace(out.String())
	}
	if got, want := show(drive.Progress{Size: 2, Sizes: 1, Runs: 1, Of: 0.5, MedianNs: 6700}),
		"2 B  p50 6.70 us  50 %"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	narrow := NewProgress(Streams{Err: sized{&out, 20}, ErrTerminal: true}, false)
	out.Reset()
	narrow.Write("[7/24320] 1h14m left, scatter")
	if got, want := out.String(), "\r[7/24320] 1h14m lef"; got != want {
		t.Errorf("20 columns: got %q, want %q", got, want)
	}
	bar.started = time.Now().Add(-30 * time.Second)
	p := drive.Progress{Size: 4096, Sizes: 4, SizeIndex: 1, Run: 2, Runs: 5, Of: 0.25, BitsPerS: 36.5e9}
	if got, want := show(p), "[2/4] 4 KiB  36.50 Gb/s  run 2/5  25 %  1m30s left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
