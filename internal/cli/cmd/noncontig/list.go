package noncontig

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
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
	lengths     pattern.Transfer // as it is
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
	for _, name := range []string{"direction", "threshold"} {
		if f.descriptors+f.preset == "" && f.set.Changed(name) {
			return nil, fmt.Errorf("--%s: it is for --descriptors or --preset", name)
		}
	}
	switch {
	case f.descriptors+f.preset == "":
		return nil, nil //nolint:nilnil // a grid
	case f.descriptors != "" && f.preset != "":
		return nil, errors.New("--descriptors and --preset exclude each other: give one")
	}
	for _, name := range []string{"shape", "blocks", "size", "layout", "nums", "strides"} {
		if f.set.Changed(name) && (f.preset == "" || name != "nums" && name != "strides") {
			return nil, fmt.Errorf("--%s: a list of descriptors says itself what is moved: leave it out", name)
		}
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
	descriptors, err := f.read()
	if f.preset != "" {
		flag, name = "--preset "+f.preset, f.preset
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	l := &list{name: name, shape: shape}
	if l.List, err = bench.NewList(descriptors); err != nil {
		return nil, err
	}
	_, t, err := l.Describe(shape == plan.ReadsList, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	l.lengths = *t
	c.Layouts = []gridLayout{{Stride: noncontig.AsGiven, Held: "total"}}
	return l, nil
}

func (f *Flags) read() (*pattern.Descriptors, error) {
	if f.preset != "" {
		text, err := f.presetList()
		if err != nil {
			return nil, err
		}
		return pattern.ReadDescriptors(strings.NewReader(text), pattern.DescriptorOptions{})
	}
	if f.ReadFile != nil {
		b, err := f.ReadFile(f.descriptors, report.MostBytes)
		if err != nil {
			return nil, err
		}
		return pattern.ReadDescriptors(bytes.NewReader(b), pattern.DescriptorOptions{})
	}
	file, err := os.Open(f.descriptors)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return pattern.ReadDescriptors(file, pattern.DescriptorOptions{})
}

// presetList is the text of a preset.
func (f *Flags) presetList() (string, error) {
	p, known := presets()[f.preset]
	if !known {
		return "", fmt.Errorf("want one of %s", presetText())
	}
	if f.set.Changed("nums") {
		if len(f.nums) != 1 {
			return "", errors.New("--nums: want one number of pieces")
		}
		p.count = f.nums[0]
	}
	if f.set.Changed("strides") {
		p.stride = f.strides
	}
	stride, err := parseStride(p.stride, p.length)
	if err != nil {
		return "", err
	}
	if p.count > pattern.MaxPieces {
		return "", fmt.Errorf("--nums %d: at most %d pieces", p.count, pattern.MaxPieces)
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

// text names the list, or what it is when scaled.
func (l *list) text(mean int) string {
	return l.name + plain.When(mean > 0, ", %d B a piece", mean)
}

// describe is what the document keeps of the list.
func (l *list) describe(d *plan.Descriptors) *noncontig.List {
	t := &l.lengths
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
		least := int64(1)
		for 2*least <= b.Length {
			least *= 2
		}
		counts[least]++
	}
	for _, least := range slices.Sorted(maps.Keys(counts)) {
		out.Lengths = append(out.Lengths, noncontig.Lengths{FromBytes: least, Pieces: counts[least]})
	}
	return out
}

// absent says why a road need not be measured, as another is the same; empty: it is a road of its own.
func (l *list) absent(p *plan.Point) string {
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
func (l *list) ladder() []int {
	most := max(l.lengths.Local.Size(), 64<<20) / l.lengths.Local.Blocks()
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
