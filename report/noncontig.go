package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Noncontig is the outcome of the non-contiguous experiment: what was measured, and what follows from it.
type Noncontig struct {
	Setup  NoncontigSetup   `json:"setup"`
	Points []NoncontigPoint `json:"points"`
	// Missing names the points that were planned and not measured (an interrupted grid).
	Missing []string `json:"missing,omitempty"`

	// The rest is computed by [Noncontig.Analyze] from the points alone.
	Cells       []NoncontigCell       `json:"cells,omitempty"`
	Crossovers  []NoncontigCrossover  `json:"crossovers,omitempty"`
	Models      []NoncontigModel      `json:"models,omitempty"`
	Predictions []NoncontigPrediction `json:"predictions,omitempty"`
	Summary     []string              `json:"summary,omitempty"`
}

// NoncontigSetup is what all points of a grid share.
type NoncontigSetup struct {
	Device         string  `json:"device"`
	Transport      string  `json:"transport"`
	Cache          string  `json:"cache"` // "hot" or "cold"
	FootprintBytes int64   `json:"footprint_bytes"`
	LLCBytes       int64   `json:"llc_bytes"` // last-level cache of the client
	Window         int     `json:"window"`    // messages in flight
	MaxSGE         int     `json:"max_sge"`
	MaxSGERead     int     `json:"max_sge_read"`
	ListBytes      string  `json:"list_bytes,omitempty"` // where chains of lists are cut, if not at the device's entries
	Runs           int     `json:"runs"`
	MinSeconds     float64 `json:"min_seconds"` // per point, strategy and run
	Kernel         string  `json:"kernel"`      // what packs: "go/avx512"
	Verify         string  `json:"verify"`
	Seed           uint64  `json:"seed"`             // of the order of points
	Events         bool    `json:"events,omitempty"` // both ends sleep on completion events; CPU is then that of the processes
}

// NoncontigPoint is one layout moved by one strategy, in all its runs.
type NoncontigPoint struct {
	Shape       string `json:"shape"` // "gather", "scatter", "both"
	Strategy    string `json:"strategy"`
	Layout      string `json:"layout"`
	BlockBytes  int64  `json:"block_bytes"` // the mean, where blocks differ
	Blocks      int64  `json:"blocks"`
	StrideBytes int64  `json:"stride_bytes"` // 0: no single one
	Stride      string `json:"stride"`       // as asked: "2x" or "4096"
	SizeBytes   int64  `json:"size_bytes"`   // payload of a message
	Held        string `json:"held"`         // what the series holds constant while blocks grow: "total" or "num"
	WRs         int    `json:"wrs"`          // work requests per message, receives not counted
	SGEs        int    `json:"sges"`         // scatter/gather entries per message, both ends
	Verified    string `json:"verified,omitempty"`

	Runs []NoncontigRun `json:"runs"`
}

// NoncontigRun is one measurement of a point.
type NoncontigRun struct {
	Order            int      `json:"order"` // when it was measured, from 0
	Messages         uint64   `json:"messages"`
	Seconds          float64  `json:"seconds"`
	GoodputBitsPerS  float64  `json:"goodput_bits_per_s"`
	P50Ns            float64  `json:"p50_ns"`
	P99Ns            *float64 `json:"p99_ns,omitempty"`
	CPUNsPerByte     float64  `json:"cpu_ns_per_byte"`
	PeerCPUNsPerByte float64  `json:"peer_cpu_ns_per_byte"`
	Warnings         []string `json:"warnings,omitempty"`
}

// NoncontigKey names a series of points that differ in block size alone.
type NoncontigKey struct {
	Shape     string `json:"shape"`
	SizeBytes int64  `json:"size_bytes,omitempty"` // of a message; 0: the number of blocks is held
	Count     int64  `json:"count,omitempty"`      // of blocks; 0: the size is held
	Stride    string `json:"stride"`
}

// what names the messages of the series: "64 KiB messages", "256 blocks".
func (k NoncontigKey) what() string {
	if k.Count > 0 {
		return fmt.Sprintf("%d blocks", k.Count)
	}
	return Bytes(float64(k.SizeBytes)) + " messages"
}

// NoncontigCell is the verdict on one layout: which strategy moves it fastest.
type NoncontigCell struct {
	NoncontigKey
	BlockBytes int64             `json:"block_bytes"`
	Blocks     int64             `json:"blocks"`
	Bytes      int64             `json:"bytes"` // of a message
	Layout     string            `json:"layout"`
	Strategies []NoncontigFigure `json:"strategies"`
	// Winner is empty where the best two cannot be told apart. Contiguous does not take part.
	Winner string  `json:"winner,omitempty"`
	Margin float64 `json:"margin,omitempty"` // the winner's goodput over the runner-up's
	// Speedup is the NIC's own way over the pack kernel's; 0 where one of them is missing.
	Speedup float64 `json:"speedup,omitempty"`
	// Differs tells whether the intervals of these two are apart.
	Differs bool `json:"differs"`
}

// NoncontigFigure is one strategy within a cell: medians over the runs.
type NoncontigFigure struct {
	Strategy         string   `json:"strategy"`
	Goodput          Summary  `json:"goodput_bits_per_s"`
	Low              float64  `json:"low"`  // of the interval; below six runs of the range
	High             float64  `json:"high"` // equal to Low where there is one run
	Ratio            float64  `json:"ratio_to_contiguous,omitempty"`
	P50Ns            float64  `json:"p50_ns"`
	P99Ns            *float64 `json:"p99_ns,omitempty"`
	CPUNsPerByte     float64  `json:"cpu_ns_per_byte"`
	PeerCPUNsPerByte float64  `json:"peer_cpu_ns_per_byte"`
	WRs              int      `json:"wrs"`
	SGEs             int      `json:"sges"`
}

// ContiguousStrategy is the bound of every shape: the same bytes without gaps.
const ContiguousStrategy = "contiguous"

// NoncontigSides are the two strategies of a shape that the question is about: the device's own scatter/gather list, and
// the copy by the CPU.
func NoncontigSides(shape string) (device, cpu string) {
	switch shape {
	case "scatter":
		return "scatter-read", "read-unpack"
	case "both":
		return "gather-send", "pack-send-unpack"
	default:
		return "gather-write", "pack"
	}
}

func (p *NoncontigPoint) key() NoncontigKey {
	if p.Held == "num" {
		return NoncontigKey{Shape: p.Shape, Count: p.Blocks, Stride: p.Stride}
	}
	return NoncontigKey{Shape: p.Shape, SizeBytes: p.SizeBytes, Stride: p.Stride}
}

func (p *NoncontigPoint) goodputs() []float64 {
	return pick(p.Runs, func(r *NoncontigRun) float64 { return r.GoodputBitsPerS })
}

func pick(runs []NoncontigRun, f func(*NoncontigRun) float64) []float64 {
	out := make([]float64, len(runs))
	for i := range runs {
		out[i] = f(&runs[i])
	}
	return out
}

func medianRun(runs []NoncontigRun, f func(*NoncontigRun) float64) float64 {
	return Summarize(pick(runs, f), DefaultConfidence).Median
}

func (p *NoncontigPoint) figure() NoncontigFigure {
	f := NoncontigFigure{
		Strategy: p.Strategy, WRs: p.WRs, SGEs: p.SGEs,
		Goodput:          Summarize(p.goodputs(), DefaultConfidence),
		P50Ns:            medianRun(p.Runs, func(r *NoncontigRun) float64 { return r.P50Ns }),
		CPUNsPerByte:     medianRun(p.Runs, func(r *NoncontigRun) float64 { return r.CPUNsPerByte }),
		PeerCPUNsPerByte: medianRun(p.Runs, func(r *NoncontigRun) float64 { return r.PeerCPUNsPerByte }),
	}
	f.Low, f.High = slices.Min(p.goodputs()), slices.Max(p.goodputs())
	if i := f.Goodput.Interval; i != nil {
		f.Low, f.High = i.Low, i.High
	}
	var p99 []float64
	for i := range p.Runs {
		if v := p.Runs[i].P99Ns; v != nil {
			p99 = append(p99, *v)
		}
	}
	if len(p99) > 0 {
		m := Summarize(p99, DefaultConfidence).Median
		f.P99Ns = &m
	}
	return f
}

// Analyze computes cells, crossovers, models and the summary from the points. It is deterministic.
func (n *Noncontig) Analyze() {
	n.Cells = n.cells()
	n.Crossovers = nil
	for _, k := range n.keys() {
		if c, ok := n.crossover(k); ok {
			n.Crossovers = append(n.Crossovers, c)
		}
	}
	n.Models = n.models()
	n.Summary = n.summary()
}

func (n *Noncontig) keys() []NoncontigKey {
	var out []NoncontigKey
	for i := range n.Cells {
		if k := n.Cells[i].NoncontigKey; !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out
}

// cells groups the points by layout, in the order shape, message size, stride, block size.
func (n *Noncontig) cells() []NoncontigCell {
	var out []NoncontigCell
	for i := range n.Points {
		p := &n.Points[i]
		if len(p.Runs) == 0 {
			continue
		}
		at := slices.IndexFunc(out, func(c NoncontigCell) bool { return c.NoncontigKey == p.key() && c.Layout == p.Layout })
		if at < 0 {
			at = len(out)
			out = append(out, NoncontigCell{NoncontigKey: p.key(), BlockBytes: p.BlockBytes, Blocks: p.Blocks, Bytes: p.SizeBytes, Layout: p.Layout})
		}
		out[at].Strategies = append(out[at].Strategies, p.figure())
	}
	for i := range out {
		out[i].judge()
	}
	slices.SortStableFunc(out, func(a, b NoncontigCell) int {
		return cmp.Or(
			cmp.Compare(shapeRank(a.Shape), shapeRank(b.Shape)), cmp.Compare(a.SizeBytes, b.SizeBytes), cmp.Compare(a.Count, b.Count),
			compareStrides(a.Stride, b.Stride), cmp.Compare(a.BlockBytes, b.BlockBytes))
	})
	return out
}

func shapeRank(s string) int { return slices.Index([]string{"gather", "scatter", "both"}, s) }

// compareStrides orders "2x" before "4x" before "16x", and those before absolute ones.
func compareStrides(a, b string) int {
	return cmp.Or(cmp.Compare(strideRank(a), strideRank(b)), cmp.Compare(a, b))
}

func strideRank(s string) float64 {
	v, unit := 0.0, ""
	_, _ = fmt.Sscanf(s, "%f%s", &v, &unit) // what does not parse ranks first, then by its text
	if unit != "x" {
		v += 1e6
	}
	return v
}

// strategyRank is the order of columns: the device's way, the CPU's ways, one work request per block, the bound.
func strategyRank(s string) int {
	order := []string{
		"gather-write", "scatter-read", "gather-send", "pack", "read-unpack", "pack-send-unpack", "pack-pipelined", "multi-wr", ContiguousStrategy,
	}
	if i := slices.Index(order, s); i >= 0 {
		return i
	}
	return len(order)
}

func (c *NoncontigCell) find(strategy string) *NoncontigFigure {
	for i := range c.Strategies {
		if c.Strategies[i].Strategy == strategy {
			return &c.Strategies[i]
		}
	}
	return nil
}

// judge names the winner: the fastest strategy, if its interval lies above that of the next.
func (c *NoncontigCell) judge() {
	slices.SortFunc(c.Strategies, func(a, b NoncontigFigure) int { return cmp.Compare(strategyRank(a.Strategy), strategyRank(b.Strategy)) })
	if bound := c.find(ContiguousStrategy); bound != nil {
		for i := range c.Strategies {
			c.Strategies[i].Ratio = c.Strategies[i].Goodput.Median / bound.Goodput.Median
		}
	}
	var best, next *NoncontigFigure
	for i := range c.Strategies {
		f := &c.Strategies[i]
		switch {
		case f.Strategy == ContiguousStrategy:
		case best == nil || f.Goodput.Median > best.Goodput.Median:
			best, next = f, best
		case next == nil || f.Goodput.Median > next.Goodput.Median:
			next = f
		}
	}
	if best != nil && next != nil {
		c.Margin = best.Goodput.Median / next.Goodput.Median
		if best.Low > next.High && best.Goodput.N > 1 && next.Goodput.N > 1 { // one run proves nothing
			c.Winner = best.Strategy
		}
	}
	device, cpu := NoncontigSides(c.Shape)
	a, b := c.find(device), c.find(cpu)
	if a != nil && b != nil {
		c.Speedup = a.Goodput.Median / b.Goodput.Median
		c.Differs = (a.Low > b.High || b.Low > a.High) && a.Goodput.N > 1 && b.Goodput.N > 1
	}
}

// summary says the outcome in plain words, one sentence per series of block sizes.
func (n *Noncontig) summary() []string {
	var out []string
	on := ""
	if n.Setup.Device != "" {
		on = "on " + n.Setup.Device + ", "
	}
	for _, k := range n.keys() {
		var cells []NoncontigCell
		for _, c := range n.Cells {
			if c.NoncontigKey == k && c.Speedup > 0 {
				cells = append(cells, c)
			}
		}
		if len(cells) == 0 {
			continue
		}
		where := fmt.Sprintf("%s%s of %s, stride %s: ", on, k.Shape, k.what(), k.Stride)
		out = append(out, where+seriesInWords(k, cells, n.crossoverOf(k)))
	}
	if len(n.Missing) > 0 {
		out = append(out, fmt.Sprintf("%d measurements are missing: the grid was interrupted; with --save, --resume completes it", len(n.Missing)))
	}
	return out
}

func (n *Noncontig) crossoverOf(k NoncontigKey) *NoncontigCrossover {
	for i := range n.Crossovers {
		if n.Crossovers[i].NoncontigKey == k {
			return &n.Crossovers[i]
		}
	}
	return nil
}

// single tells that there is one run of each: nothing can say whether they differ.
func (c *NoncontigCell) single() bool {
	return !slices.ContainsFunc(c.Strategies, func(f NoncontigFigure) bool { return f.Goodput.N > 1 })
}

// seriesInWords sorts the cells of a series, block sizes rising, into those that one side wins clearly and the rest.
func seriesInWords(k NoncontigKey, cells []NoncontigCell, x *NoncontigCrossover) string {
	device, cpu := NoncontigSides(k.Shape)
	var ours, theirs, open []NoncontigCell
	for _, c := range cells {
		switch {
		case !c.Differs:
			open = append(open, c)
		case c.Speedup > 1:
			ours = append(ours, c)
		default:
			theirs = append(theirs, c)
		}
	}
	if f := cells[0].find(device); f != nil && f.Goodput.N == 1 {
		first, last := &cells[0], &cells[len(cells)-1]
		return fmt.Sprintf("one run, no proof: %s made %.2f of %s at %s, %.2f at %s", device, first.Speedup, cpu,
			Bytes(float64(first.BlockBytes)), last.Speedup, Bytes(float64(last.BlockBytes)))
	}
	in := func(chosen []NoncontigCell) string { return blocksInWords(cells, chosen) }
	switch {
	case len(ours) == 0 && len(theirs) == 0:
		return fmt.Sprintf("no difference between %s and %s %s", device, cpu, in(cells))
	case len(ours) > 0 && len(theirs) > 0 && x != nil && x.Clear:
		s := fmt.Sprintf("%s wins from about %s blocks", device, Bytes(x.BlockBytes))
		if x.Low > 0 {
			s += fmt.Sprintf(" (%s to %s)", Bytes(x.Low), Bytes(x.High))
		}
		return fmt.Sprintf("%s, %s; below, %s wins, %s", s, mostInWords(ours), cpu, mostInWords(theirs))
	}
	var parts []string
	if len(ours) > 0 {
		parts = append(parts, fmt.Sprintf("%s wins %s, %s", device, in(ours), mostInWords(ours)))
	}
	if len(theirs) > 0 {
		parts = append(parts, fmt.Sprintf("%s wins %s, %s", cpu, in(theirs), mostInWords(theirs)))
	}
	if len(open) > 0 {
		parts = append(parts, "no difference "+in(open))
	}
	if len(ours) == 0 || len(theirs) == 0 {
		parts = append(parts, "no clear crossover in range")
	}
	return strings.Join(parts, "; ")
}

// blocksInWords is "at 64 B and 256 B to 1 KiB blocks": three neighbours of the series or more become a range.
func blocksInWords(all, chosen []NoncontigCell) string {
	size := func(c *NoncontigCell) string { return Bytes(float64(c.BlockBytes)) }
	index := func(i int) int {
		return slices.IndexFunc(all, func(c NoncontigCell) bool { return c.BlockBytes == chosen[i].BlockBytes })
	}
	var parts []string
	for i := 0; i < len(chosen); {
		end := i
		for end+1 < len(chosen) && index(end+1) == index(end)+1 {
			end++
		}
		if end-i >= 2 {
			parts = append(parts, size(&chosen[i])+" to "+size(&chosen[end]))
		} else {
			for j := i; j <= end; j++ {
				parts = append(parts, size(&chosen[j]))
			}
		}
		i = end + 1
	}
	last := len(parts) - 1
	if last == 0 {
		return "at " + parts[0] + " blocks"
	}
	return "at " + strings.Join(parts[:last], ", ") + " and " + parts[last] + " blocks"
}

// mostInWords is the largest ratio and where it is: "2.1× at 64 B".
func mostInWords(cells []NoncontigCell) string {
	best := slices.MaxFunc(cells, func(a, b NoncontigCell) int {
		return cmp.Compare(math.Abs(math.Log(a.Speedup)), math.Abs(math.Log(b.Speedup)))
	})
	return fmt.Sprintf("%.2g× at %s", max(best.Speedup, 1/best.Speedup), Bytes(float64(best.BlockBytes)))
}

// Bytes writes a size for people: 512 B, 4 KiB, 1.5 MiB.
func Bytes(v float64) string {
	unit := "B"
	for _, u := range []string{"KiB", "MiB", "GiB"} {
		if v < 1024 {
			break
		}
		v /= 1024
		unit = u
	}
	if unit == "B" || v == math.Trunc(v) {
		return fmt.Sprintf("%.0f %s", v, unit)
	}
	return fmt.Sprintf("%.3g %s", v, unit)
}
