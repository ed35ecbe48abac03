//go:build linux && cgo

package truth_test

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/report/noncontig"
)

// point is a device of known cost, and a list whose threshold follows from it by hand. The device is so slow that the
// time of the CPU, which copies a segment, is not felt.
type point struct {
	request, entry, byte float64 // ns
	pieces               int
	entries, segment     int // of a list; what is packed at a time
	direction            string
}

// Twelve points. Those of reads have lists of 8 entries, as the device has.
func points() []point {
	return []point{
		{100e3, 2e3, 0, 64, 16, 16 << 10, "write"},
		{100e3, 5e3, 0, 64, 16, 16 << 10, "write"},
		{100e3, 20e3, 0, 64, 16, 64 << 10, "write"},
		{50e3, 10e3, 0.1, 64, 16, 32 << 10, "write"},
		{200e3, 10e3, 0.05, 64, 8, 32 << 10, "write"},
		{200e3, 20e3, 0, 128, 16, 32 << 10, "write"},
		{80e3, 8e3, 0.1, 128, 4, 16 << 10, "write"},
		{150e3, 3e3, 0, 256, 16, 64 << 10, "write"},
		{100e3, 5e3, 0, 64, 8, 16 << 10, "read"},
		{100e3, 20e3, 0.05, 64, 8, 32 << 10, "read"},
		{200e3, 5e3, 0, 128, 4, 16 << 10, "read"},
		{60e3, 6e3, 0.1, 128, 8, 64 << 10, "read"},
	}
}

// threshold is the mean length from which lists are faster: packing then takes more segments than lists cost.
func (p *point) threshold() float64 {
	requests := (p.pieces + p.entries - 1) / p.entries
	lists := p.request*float64(requests) + p.entry*float64(p.pieces)
	segments := int(lists / (p.request + p.entry)) // that are not slower
	return float64(segments) * float64(p.segment) / float64(p.pieces)
}

// ns is what the device takes for a list by a road.
func (p *point) ns(c *noncontig.Cell, f *noncontig.Figure) float64 {
	return p.request*float64(f.WRs) + p.entry*float64(f.SGEs) + p.byte*float64(c.Bytes)
}

// TestThreshold looks for the threshold of lists at planted points, and holds it and every winner
// to arithmetic. 'make test' tries one.
func TestThreshold(t *testing.T) {
	b := built(t)
	all := points()
	if !testrun.Whole() {
		all = all[:1]
	} else {
		all = append(all, all[:8]...) // 20 in all
	}
	var rows bytes.Buffer
	fmt.Fprintf(&rows, "%8s %6s %7s %6s %8s %8s %-5s  %9s %9s  %19s  %s\n", "request", "entry", "byte", "pieces",
		"entries", "segment", "", "true B", "told B", "interval", "winners")
	within, cells, right := 0, 0, 0
	for _, p := range all {
		for attempt := 1; ; attempt++ { // a busy machine leaves winners open
			o, text := p.find(t, b)
			open := o.code != 0 || o.right < o.cells && o.wrong == "" || !o.within
			if open && attempt < tries && testrun.Whole() {
				continue
			}
			if o.code != 0 || o.wrong != "" || o.right < o.cells && testrun.Whole() {
				t.Errorf("%+v: exit code %d, %d of %d winners are right; %s\n%s", p, o.code, o.right, o.cells, o.wrong, text)
			}
			if o.within {
				within++
			}
			cells, right = cells+o.cells, right+o.right
			fmt.Fprintf(&rows, "%8g %6g %7g %6d %8d %8d %-5s  %9.0f %9.0f  %19s  %d of %d\n",
				p.request, p.entry, p.byte, p.pieces, p.entries, p.segment, p.direction, p.threshold(), o.told, o.interval,
				o.right, o.cells)
			break
		}
	}
	fmt.Fprintf(&rows, "%d of %d thresholds lie in their interval; %d of %d winners with a margin above 5 %% are right\n",
		within, len(all), right, cells)
	if t.Log("\n" + rows.String()); within*20 < len(all)*19 {
		t.Errorf("%d of %d thresholds lie in their interval", within, len(all))
	}
	if *table != "" {
		if err := os.WriteFile(filepath.Join(filepath.Dir(*table), "threshold.txt"), rows.Bytes(), 0o600); err != nil {
			t.Error(err)
		}
	}
}

// outcome is what the program told of a point.
type outcome struct {
	code         int
	told         float64
	interval     string
	within       bool // the true threshold is in the interval
	cells, right int  // with a margin above 5 %; whose winner is right
	wrong        string
}

func (p *point) find(t *testing.T, b bench) (o outcome, text string) {
	t.Helper()
	r := b.measure(t, &claim{
		planted: fmt.Sprintf("REQUEST_NS=%g ENTRY_NS=%g BYTE_NS=%g", p.request, p.entry, p.byte),
		run: fmt.Sprintf("gobw noncontig --preset iov-256 --nums %d --max-sge %d --segment %d --direction %s --runs 12 -D "+
			"2ms --verify none",
			p.pieces, p.entries, p.segment, p.direction),
	})
	o = outcome{code: r.code, interval: "none"}
	if r.Noncontig == nil {
		return o, r.text
	}
	if found := r.Noncontig.Crossovers; len(found) > 0 {
		x := found[0] // the list itself has none
		o.told, o.interval = x.BlockBytes, fmt.Sprintf("%.0f to %.0f", x.Low, x.High)
		o.within = x.Low <= p.threshold() && p.threshold() <= x.High
	}
	for i := range r.Noncontig.Cells {
		c := &r.Noncontig.Cells[i]
		best, margin := p.fastest(c)
		if margin < 1.05 {
			continue
		}
		o.cells++
		switch c.Winner {
		case best:
			o.right++
		case "": // cannot tell
		default:
			o.wrong += fmt.Sprintf("pieces of %d B: told %s, %s is faster; ", c.BlockBytes, c.Winner, best)
		}
	}
	return o, r.text
}

// fastest is the road that takes the least time, and how many times as long the next takes.
func (p *point) fastest(c *noncontig.Cell) (name string, margin float64) {
	all := slices.DeleteFunc(slices.Clone(c.Strategies),
		func(f noncontig.Figure) bool { return f.Strategy == noncontig.Contiguous })
	slices.SortFunc(all, func(a, b noncontig.Figure) int { return cmp.Compare(p.ns(c, &a), p.ns(c, &b)) })
	return all[0].Strategy, p.ns(c, &all[1]) / p.ns(c, &all[0])
}
