package plan

import (
	"fmt"
	"slices"

	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/verbs"
)

// Side is how one end of a message lies in memory.
type Side uint8

// Sides.
const (
	Packed  Side = iota // contiguous
	Strided             // in the blocks of the layout
)

// Cut is how a message becomes work requests.
type Cut uint8

// Cuts.
const (
	Lists    Cut = iota // as few as the device's scatter/gather lists allow
	Blocks              // one per block
	Segments            // one per segment, packed while the one before is on its way
)

// Strategy is one way to move a layout: a row of data that the compiler of jobs reads.
type Strategy struct {
	Shape, Name string
	Operation   Operation

	Local  Side // what the initiator's requests name
	Remote Side // what the peer's memory or receives are
	Cut    Cut
	Pack   bool // the initiator packs before it posts
	Unpack bool // the receiver of the data unpacks when a message has arrived
	Bound  bool // the data has no gaps from the start: the bound of the shape
}

// Shapes are the shapes of the experiment in order.
func Shapes() []string { return []string{"gather", "scatter", "both"} }

// Strategies are all ways of a shape to reach the same end state. The device's own comes first, the bound last.
func Strategies(shape string) []Strategy {
	return slices.DeleteFunc([]Strategy{
		{Shape: "gather", Name: "gather-write", Operation: Write, Local: Strided},              // scatter/gather lists, WRITE (G-WR)
		{Shape: "gather", Name: "pack", Operation: Write, Pack: true},                          // pack, then WRITE
		{Shape: "gather", Name: "pack-pipelined", Operation: Write, Pack: true, Cut: Segments}, // pack and WRITE by segments (BC-SPUP)
		{Shape: "gather", Name: "multi-wr", Operation: Write, Local: Strided, Cut: Blocks},     // a WRITE per block (Multi-W)
		{Shape: "gather", Name: "contiguous", Operation: Write, Bound: true},                   // no gaps: the bound

		{Shape: "scatter", Name: "scatter-read", Operation: Read, Local: Strided},          // READ into scatter/gather lists (S-RD, P-RRS)
		{Shape: "scatter", Name: "read-unpack", Operation: Read, Unpack: true},             // READ, then unpack
		{Shape: "scatter", Name: "multi-wr", Operation: Read, Local: Strided, Cut: Blocks}, // a READ per block
		{Shape: "scatter", Name: "contiguous", Operation: Read, Bound: true},               // no gaps: the bound

		{Shape: "both", Name: "gather-send", Operation: Send, Local: Strided, Remote: Strided},            // SEND of lists into scattered receives (GSSR, SGRS)
		{Shape: "both", Name: "pack-send-unpack", Operation: Send, Pack: true, Unpack: true},              // pack, SEND, unpack
		{Shape: "both", Name: "multi-wr", Operation: Write, Local: Strided, Remote: Strided, Cut: Blocks}, // a WRITE per block (Multi-W)
		{Shape: "both", Name: "contiguous", Operation: Send, Bound: true},                                 // no gaps: the bound
	}, func(s Strategy) bool { return s.Shape != shape })
}

// StrategyNamed finds a row.
func StrategyNamed(shape, name string) (Strategy, error) {
	for _, s := range Strategies(shape) {
		if s.Name == name {
			return s, nil
		}
	}
	return Strategy{}, fmt.Errorf("the shape %q has no strategy %q", shape, name)
}

// Load is what a strategy makes of a layout on a device.
type Load struct {
	WRs          int // work requests per message, receives not counted
	SGEs         int // entries of their lists
	RecvWRs      int // receives per message
	RecvSGEs     int // entries of their lists
	SendSGEs     int // entries of the longest list
	RecvListSGEs int
	SegmentBytes int64
	Lists        pattern.ListLimits
}

// defaultSegment is the payload that pack-pipelined packs at a time: large enough that a work request costs little beside it.
const defaultSegment = 16 << 10

// LoadOf counts requests and entries of the strategy that n names.
func LoadOf(s Strategy, l pattern.Layout, lim verbs.Limits, n *Noncontig) Load {
	entries := int(l.Blocks())
	x := Load{WRs: 1, SGEs: 1, SendSGEs: 1, SegmentBytes: int64(n.Segment), Lists: listLimits(s, l, lim, n)}
	width := min(entries, x.Lists.Entries)
	lists := func() int { return int(l.Lists(x.Lists)) }
	if n.Segment == 0 {
		x.SegmentBytes = defaultSegment
	}
	switch {
	case s.Cut == Blocks:
		x.WRs, x.SGEs = entries, entries
	case s.Cut == Segments:
		x.WRs = int(min(l.SegmentCount(max(x.SegmentBytes, 1)), maxRequests+1))
		x.SGEs = x.WRs
	case s.Local == Strided:
		x.WRs, x.SGEs, x.SendSGEs = lists(), entries, width
	}
	if s.Operation == Send {
		x.RecvWRs, x.RecvSGEs, x.RecvListSGEs = 1, 1, 1
		if s.Remote == Strided {
			x.RecvWRs, x.RecvSGEs, x.RecvListSGEs = lists(), entries, width
		}
	}
	return x
}

// maxRequests is more work requests than the send queue of any device holds.
const maxRequests = 1 << 16

// maxList is the longest list that a strategy may use.
func maxList(s Strategy, lim verbs.Limits) int {
	width := max(lim.MaxSGE, 1)
	if s.Operation == Read && lim.MaxSGERead > 0 {
		width = min(width, lim.MaxSGERead)
	}
	return width
}

// listLimits bounds the lists of a strategy: by the device's entries and, for a layout that one list does not hold, by the
// bytes at which the plan cuts. Blocks that are longer than that, SENDs, whose receives the peer cuts, and chains that the send
// queue would not hold are left alone.
func listLimits(s Strategy, l pattern.Layout, lim verbs.Limits, n *Noncontig) pattern.ListLimits {
	m := pattern.ListLimits{Entries: maxList(s, lim)}
	if s.Operation == Send || n.ListBytes <= 0 || l.Blocks() <= int64(m.Entries) || l.Blocks() > maxRingSGEs || l.MeanBlockBytes() > float64(n.ListBytes) {
		return m
	}
	short := pattern.ListLimits{Entries: m.Entries, Bytes: int64(n.ListBytes)}
	if most := int64(lim.MaxQPWR); most > 0 && l.Lists(short)*int64(max(n.Window, 1)) > most {
		return m
	}
	return short
}
