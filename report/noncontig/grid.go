package noncontig

import (
	"cmp"
	"slices"

	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// Grid is the outcome of the non-contiguous experiment: what was measured, and what follows from it.
type Grid struct {
	Setup  Setup     `json:"setup"`
	List   *List     `json:"list,omitempty"`   // of descriptors, in place of layouts
	Absent []Absence `json:"absent,omitempty"` // strategies that need not be measured
	Points []Point   `json:"points"`

	// The rest is computed by [Grid.Analyze] from the points alone, again where a document is read.
	Cells      []Cell      `json:"cells,omitempty"`
	Crossovers []Crossover `json:"crossovers,omitempty"`
	Summary    []string    `json:"summary,omitempty"`
}

// Setup is what all points of a grid share.
type Setup struct {
	Device         string `json:"device"`
	Transport      string `json:"transport"`
	Cache          string `json:"cache"` // "hot" or "cold"
	FootprintBytes int64  `json:"footprint_bytes"`
	LLCBytes       int64  `json:"llc_bytes"` // last-level cache of the client
	Window         int    `json:"window"`    // messages in flight
	MaxSGE         int    `json:"max_sge"`
	MaxSGERead     int    `json:"max_sge_read"`
	// where chains of lists are cut, if not at the device's entries
	ListBytes string `json:"list_bytes,omitempty"`
	// what pack-pipelined packs at a time; documents without it: 16 KiB
	SegmentBytes int64   `json:"segment_bytes,omitempty"`
	Runs         int     `json:"runs"`
	MinSeconds   float64 `json:"min_seconds"` // per point, strategy and run
	Kernel       string  `json:"kernel"`      // what packs: "go/avx512"
	Verify       string  `json:"verify"`
	Priority     string  `json:"priority,omitempty"` // "realtime": this end ran before all others
	// both ends sleep on completion events; CPU is then that of the processes
	Events bool `json:"events,omitempty"`
	QPs    int  `json:"qps,omitempty"` // queue pairs; 0: one
}

// List is what is known of a list of descriptors.
type List struct {
	Name            string    `json:"name"`   // of its file, or of a preset
	Digest          string    `json:"sha256"` // of its lines, as offsets
	Pieces          int       `json:"pieces"`
	Bytes           int       `json:"bytes"`
	LocalSpanBytes  int       `json:"local_span_bytes"` // from the first byte to the last
	RemoteSpanBytes int       `json:"remote_span_bytes"`
	LocalRuns       int       `json:"local_runs"` // of neighbours that touch at the client
	RemoteRuns      int       `json:"remote_runs"`
	Runs            int       `json:"runs"` // that touch at both ends
	Lengths         []Lengths `json:"lengths"`
}

// Lengths are pieces whose length is less than twice the least.
type Lengths struct {
	FromBytes int64 `json:"from_bytes"`
	Pieces    int   `json:"pieces"`
}

// Absence is why a strategy was not measured.
type Absence struct {
	Shape    string `json:"shape"`
	Strategy string `json:"strategy"`
	Reason   string `json:"reason"`
}

// Point is one layout moved by one strategy, in all its runs.
type Point struct {
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
	PeerUnpacks bool   `json:"peer_unpacks,omitempty"` // of a list that is packed: the receiving end copies, too

	Runs []Run `json:"runs"`
}

// Segment is what pack-pipelined packs at a time, in bytes.
func (s *Setup) Segment() int64 { return cmp.Or(s.SegmentBytes, 16<<10) }

// Run is one measurement of a point.
type Run struct {
	Round            int      `json:"round,omitempty"` // from 1: what has the same was measured back to back
	Messages         uint64   `json:"messages"`        // or lists
	Seconds          float64  `json:"seconds"`
	GoodputBitsPerS  float64  `json:"goodput_bits_per_s"`
	P50Ns            float64  `json:"p50_ns"`
	P99Ns            *float64 `json:"p99_ns,omitempty"`
	CPUNsPerByte     float64  `json:"cpu_ns_per_byte"`
	PeerCPUNsPerByte float64  `json:"peer_cpu_ns_per_byte,omitzero"` // 0: the peer has no part in it
	// of a list: from its first post to its last completion
	ListNs   float64  `json:"list_ns,omitempty"`
	PostNs   float64  `json:"post_ns,omitempty"` // that the CPU took to pack and post it
	Warnings []string `json:"warnings,omitempty"`
}

// Key names a series of points that differ in block size alone.
type Key struct {
	Shape     string `json:"shape"`
	SizeBytes int64  `json:"size_bytes,omitempty"` // of a message; 0: the number of blocks is held
	Count     int64  `json:"count,omitempty"`      // of blocks; 0: the size is held
	Stride    string `json:"stride"`
}

// What names the messages of the series: "64 KiB messages", "256 blocks".
func (k Key) What() string {
	if k.Count > 0 {
		return plain.Plural(int(k.Count), map[bool]string{true: "piece", false: "block"}[k.Stride == Scaled])
	}
	return plain.Bytes(float64(k.SizeBytes)) + " messages"
}

// Cell is the verdict on one layout: which strategy moves it fastest.
type Cell struct {
	Key
	BlockBytes int64    `json:"block_bytes"`
	Blocks     int64    `json:"blocks"`
	Bytes      int64    `json:"bytes"` // of a message
	Layout     string   `json:"layout"`
	Strategies []Figure `json:"strategies"`
	// Winner is better than every other strategy by the verdicts. Contiguous does not take part.
	Winner string `json:"winner,omitempty"`
	// Question is the device's own way against the pack kernel; nil where one of them is missing.
	Question *Judgement `json:"question,omitempty"`
	// Impossible says which strategy is faster than contiguous, which cannot be; empty: none is.
	Impossible string `json:"impossible,omitempty"`

	judged []*Judgement // each two of its strategies
}

// Figure is one strategy within a cell: medians over the runs.
type Figure struct {
	Strategy         string        `json:"strategy"`
	Goodput          stats.Summary `json:"goodput_bits_per_s"`
	Goodputs         []float64     `json:"-"` // of the runs, in bits/s
	P50Ns            float64       `json:"p50_ns"`
	CPUNsPerByte     float64       `json:"cpu_ns_per_byte"`
	PeerCPUNsPerByte float64       `json:"peer_cpu_ns_per_byte"`
	WRs              int           `json:"wrs"`
	SGEs             int           `json:"sges"`
	ListNs           float64       `json:"list_ns,omitempty"`
	PostNs           float64       `json:"post_ns,omitempty"`

	point *Point
}

// AsGiven is the stride of layouts that were given one by one: they are no series of block sizes.
const AsGiven = "as given"

// Scaled is the stride of a list whose pieces were scaled to another mean length.
const Scaled = "scaled"

// Contiguous is the bound of every shape: the same bytes without gaps. It does not compete.
const Contiguous = "contiguous"

// Pipelined packs and sends a message in segments.
const Pipelined = "pack-pipelined"

// shape has a course's name beside its own, the device's own way of it, and the copy by the CPU.
type shape struct{ name, course, device, cpu string }

func shapes() []shape {
	return []shape{
		{"gather", "G-WR", "gather-write", "pack"},
		{"scatter", "S-RD", "scatter-read", "read-unpack"},
		{"both", "GSSR", "gather-send", "pack-send-unpack"},
		{"write", "", "lists", "pack"},
		{"read", "", "lists", "pack"},
	}
}

// Sides are the two strategies of a cell that the question is about: the device's own scatter/gather list, and the copy
// by the CPU. Where the device has no list for a list of descriptors, its own way is the next that it has.
func (c *Cell) Sides() (device, cpu string) {
	s := shapes()[max(shapeRank(c.Shape), 0)]
	device = s.device
	if c.Listed() {
		for _, name := range []string{"multi-wr", "coalesce", "lists"} {
			if c.Find(name) != nil {
				device = name
			}
		}
	}
	return device, s.cpu
}

// Listed tells whether the cell is of a list of descriptors.
func (c *Cell) Listed() bool { return c.Shape == "write" || c.Shape == "read" }

func (p *Point) key() Key {
	if p.Held == "num" {
		return Key{Shape: p.Shape, Count: p.Blocks, Stride: p.Stride}
	}
	return Key{Shape: p.Shape, SizeBytes: p.SizeBytes, Stride: p.Stride}
}

func (p *Point) figure() Figure {
	goodputs := plain.Each(p.Runs, func(r Run) float64 { return r.GoodputBitsPerS })
	median := func(f func(Run) float64) float64 { return stats.Median(plain.Each(p.Runs, f)) }
	return Figure{
		Strategy: p.Strategy, WRs: p.WRs, SGEs: p.SGEs, Goodputs: goodputs,
		Goodput: stats.Summarize(goodputs, stats.DefaultConfidence), point: p,
		P50Ns:            median(func(r Run) float64 { return r.P50Ns }),
		CPUNsPerByte:     median(func(r Run) float64 { return r.CPUNsPerByte }),
		PeerCPUNsPerByte: median(func(r Run) float64 { return r.PeerCPUNsPerByte }),
		ListNs:           median(func(r Run) float64 { return r.ListNs }),
		PostNs:           median(func(r Run) float64 { return r.PostNs }),
	}
}

// Analyze computes cells, crossovers and the summary from the points. It is deterministic.
func (n *Grid) Analyze() {
	n.Cells = n.cells()
	n.verdicts()
	n.Crossovers = nil
	for _, series := range n.Series() {
		if x := crossover(series[0].Key, judged(series)); x != nil {
			n.Crossovers = append(n.Crossovers, *x)
		}
	}
	n.Summary = n.summary()
}

// Series are the cells that differ in block size alone.
func (n *Grid) Series() [][]Cell {
	return plain.Grouped(n.Cells, func(c Cell) Key { return c.Key })
}

// cells groups the points by layout, in the order shape, message size, stride as asked, block size.
func (n *Grid) cells() []Cell {
	type place struct {
		Key
		layout string
	}
	var measured []*Point
	var strides []string
	for i := range n.Points {
		if p := &n.Points[i]; len(p.Runs) > 0 {
			measured, strides = append(measured, p), plain.AddNew(strides, p.Stride)
		}
	}
	var out []Cell
	for _, points := range plain.Grouped(measured, func(p *Point) place { return place{p.key(), p.Layout} }) {
		p := points[0]
		c := Cell{Key: p.key(), BlockBytes: p.BlockBytes, Blocks: p.Blocks, Bytes: p.SizeBytes, Layout: p.Layout}
		c.Strategies = plain.Each(points, (*Point).figure)
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b Cell) int {
		return cmp.Or(
			cmp.Compare(shapeRank(a.Shape), shapeRank(b.Shape)),
			cmp.Compare(a.Count, b.Count), cmp.Compare(a.SizeBytes, b.SizeBytes), // a list before what it was scaled to
			cmp.Compare(slices.Index(strides, a.Stride), slices.Index(strides, b.Stride)),
			cmp.Compare(a.BlockBytes, b.BlockBytes))
	})
	return out
}

func shapeRank(s string) int {
	return slices.IndexFunc(shapes(), func(of shape) bool { return of.name == s })
}

// Find the figures of a strategy; nil where it was not measured.
func (c *Cell) Find(strategy string) *Figure {
	for i := range c.Strategies {
		if c.Strategies[i].Strategy == strategy {
			return &c.Strategies[i]
		}
	}
	return nil
}

// ShapeName is a shape with the course's name for it: "gather (G-WR)".
func ShapeName(shape string) string {
	if i := shapeRank(shape); i >= 0 && shapes()[i].course != "" {
		return shape + " (" + shapes()[i].course + ")"
	}
	return shape
}

// CourseNames are the shapes by the names that a course on RDMA gives them.
func CourseNames() map[string]string {
	out := map[string]string{}
	for _, s := range shapes() {
		if s.course != "" {
			out[s.course] = s.name
		}
	}
	return out
}

// CrossoverOf a series; nil where it has none.
func (n *Grid) CrossoverOf(k Key) *Crossover {
	if i := slices.IndexFunc(n.Crossovers, func(x Crossover) bool { return x.Key == k }); i >= 0 {
		return &n.Crossovers[i]
	}
	return nil
}

// name of the cell within its series: its block size, or its layout.
func (c *Cell) name() string {
	if c.Stride == AsGiven {
		return c.Layout
	}
	return plain.Bytes(float64(c.BlockBytes))
}

// judged are the cells of a series that were compared.
func judged(series []Cell) []Cell {
	return slices.DeleteFunc(slices.Clone(series),
		func(c Cell) bool { return c.Question == nil || c.Question.Speedup <= 0 })
}
