package noncontig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/noncontig"
	"github.com/gobw/gobw/report/plain"
)

// list is a list of descriptors to move.
type list struct {
	*bench.List
	name, shape string
	about       *noncontig.List // what the document keeps; it takes a while to count, and no server waits yet
}

// preset is a list that is made here: so many pieces, each a row of strided memory at the client.
type preset struct {
	length, count int64
	stride        string
	paged         bool // pieces lie in any order, at both ends
	words         string
}

func presets() map[string]preset {
	return map[string]preset{
		"kv-rows":   {576, 8192, "8x", false, "rows of 576 B"},
		"kv-blocks": {16 << 10, 1024, "1x", true, "pages of 16 KiB in any order"},
		"iov-256":   {1 << 10, 256, "2x", false, "256 × 1 KiB"},
	}
}

func presetText() string {
	all := presets()
	return strings.Join(plain.Each(slices.Sorted(maps.Keys(all)),
		func(name string) string { return name + " (" + all[name].words + ")" }), ", ")
}

// list reads --descriptors, or makes the list of --preset; nil: neither was asked for.
func (f *Flags) list(c *Config) (*list, error) {
	if f.descriptors+f.preset == "" {
		return nil, nil //nolint:nilnil // a grid
	}
	shape := map[string]string{"write": plan.WritesList, "read": plan.ReadsList}[f.direction]
	if shape == "" {
		return nil, fmt.Errorf("--direction %q: want write or read", f.direction)
	}
	if !f.set.Changed("tx-depth") {
		c.Window = 1
	}
	if !f.set.Changed("segment") {
		c.Segment = 64 << 10
	}
	flag, name := "--descriptors "+f.descriptors, filepath.Base(f.descriptors)
	if f.preset != "" {
		flag, name = "--preset "+f.preset, f.preset
	}
	l, whole := &list{name: name, shape: shape}, gridLayout{}
	in, err := f.text()
	var descriptors *pattern.Descriptors
	if err == nil {
		descriptors, err = pattern.ReadDescriptors(in, pattern.DescriptorOptions{})
		_ = in.Close()
	}
	if err == nil {
		l.List, err = bench.NewList(descriptors)
	}
	if err == nil {
		whole, err = l.scaled(0)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	c.Layouts, l.about = []gridLayout{whole}, l.describe(&whole)
	return l, nil
}

// text is that of the list.
func (f *Flags) text() (io.ReadCloser, error) {
	switch {
	case f.preset != "":
		text, err := f.presetList()
		return io.NopCloser(strings.NewReader(text)), err
	case f.ReadFile != nil:
		b, err := f.ReadFile(f.descriptors, report.MostBytes)
		return io.NopCloser(bytes.NewReader(b)), err
	default:
		return os.Open(f.descriptors)
	}
}

// presetList is the text of a preset.
func (f *Flags) presetList() (string, error) {
	p, known := presets()[f.preset]
	if !known {
		return "", fmt.Errorf("want one of %s", presetText())
	}
	if f.set.Changed("nums") {
		if len(f.nums) > 1 {
			return "", errors.New("--nums: want one number of pieces")
		}
		p.count = append(f.nums, p.count)[0] // what was typed may be no number
	}
	if f.set.Changed("strides") {
		p.stride = f.strides
	}
	stride, err := parseStride(p.stride, p.length)
	if err != nil {
		return "", err
	}
	switch {
	case p.count > pattern.MaxPieces:
		return "", fmt.Errorf("--nums %d: at most %d pieces", p.count, pattern.MaxPieces)
	case stride > pattern.MaxSpan/p.count:
		return "",
			fmt.Errorf("%d pieces, %d bytes apart, span more than %d bytes: use a smaller --nums or --strides", p.count,
				stride, pattern.MaxSpan)
	}
	if !p.paged {
		return fmt.Sprintf("0,0,%d,%d,%d,%[1]d\n", p.length, p.count, stride), nil
	}
	var text strings.Builder // the page tables of two hosts: the same for everybody
	r := rand.New(rand.NewPCG(1, uint64(p.count)))
	local, remote := r.Perm(int(p.count)), r.Perm(int(p.count))
	for i := range local {
		fmt.Fprintf(&text, "%d,%d,%d\n", int64(local[i])*stride, int64(remote[i])*stride, p.length)
	}
	return text.String(), nil
}

// scaled is the list with pieces of a mean length; 0: as it is.
func (l *list) scaled(mean int) (g gridLayout, err error) {
	g = gridLayout{Stride: noncontig.AsGiven, Held: "total", Mean: mean, called: l.name}
	if mean > 0 {
		g.Stride, g.Held, g.called = noncontig.Scaled, "num", fmt.Sprintf("%s, %d B a piece", l.name, mean)
	}
	if g.list, g.transfer, err = l.Describe(l.shape == plan.ReadsList, mean); err == nil {
		g.Layout = g.transfer.Local
	}
	return g, err
}

// describe is what the document keeps of the list.
func (l *list) describe(g *gridLayout) *noncontig.List {
	t, d := g.transfer, g.list
	runs := func(t *pattern.Transfer) int {
		return t.Count(pattern.Cut{Merge: true, Entries: 1}, math.MaxInt).Requests
	}
	local, remote := pattern.Transfer{Local: t.Local, Remote: t.Local}, pattern.Transfer{Local: t.Remote, Remote: t.Remote}
	out := &noncontig.List{
		Name: l.name, Digest: d.Digest, Pieces: d.Pieces, Bytes: d.Bytes, LocalSpanBytes: d.LocalBytes,
		RemoteSpanBytes: d.RemoteBytes,
		LocalRuns:       runs(&local), RemoteRuns: runs(&remote), Runs: runs(t),
	}
	counts := map[int64]int{}
	for it := t.Local.Iterate(); ; {
		b, more := it.Next()
		if !more {
			break
		}
		counts[1<<(bits.Len64(uint64(b.Length))-1)]++
	}
	for _, least := range slices.Sorted(maps.Keys(counts)) {
		out.Lengths = append(out.Lengths, noncontig.Lengths{FromBytes: least, Pieces: counts[least]})
	}
	return out
}

// absent says why a road of a list need not be measured, as another is the same; empty: it is a road of its own.
func absent(settled *plan.Settled) string {
	if settled == nil || !settled.Point.Listed() {
		return ""
	}
	p := settled.Point
	switch s := p.Strategy; {
	case s.Name == "coalesce" && p.Load.WRs >= int(p.Transfer.Local.Blocks()):
		return "no neighbours touch at both ends: the same as multi-wr"
	case s.Name != "lists" || p.Load.SendSGEs > 1:
		return ""
	case p.Load.Cut.Entries == 1:
		return "a list has one entry here: the same as coalesce"
	case s.Shape == plan.WritesList:
		return "a WRITE has no list at its target, and no neighbours touch there: the same as coalesce"
	default:
		return "a READ has no list at its source, and no neighbours touch there: the same as coalesce"
	}
}

// ladder are the mean lengths at which a threshold is looked for first.
func ladder(l *pattern.Layout) []int {
	most := max(l.Size(), 64<<20) / l.Blocks()
	var out []int
	for mean := int64(64); mean <= min(most, 32<<10); mean *= 2 {
		out = append(out, int(mean))
	}
	return out
}

// between are mean lengths inside of a threshold's interval, which is then narrower.
func between(low, high float64) (out []int) {
	for _, share := range []float64{0.25, 0.5, 0.75} {
		mean := int(low*math.Pow(high/low, share)/8+0.5) * 8
		if float64(mean) > low && float64(mean) < high {
			out = plain.AddNew(out, mean)
		}
	}
	return out
}
