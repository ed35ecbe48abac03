package plan

import (
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

// Strategy is one way to move a layout, or a list of descriptors: a row of data that the compiler of jobs reads.
type Strategy struct {
	Shape, Name string
	Operation   Operation

	Local    Side // what the initiator's requests name
	Remote   Side // what the peer's memory or receives are
	Cut      Cut
	Merge    bool // pieces that follow each other at both ends are one
	Pack     bool // the initiator packs before it posts
	Unpack   bool // the receiver of the data unpacks when a message has arrived
	Reversed bool // the server initiates
	Bound    bool // the data has no gaps from the start: the bound of the shape
}

// Shapes are the shapes of the experiment in order.
func Shapes() []string { return []string{"gather", "scatter", "both"} }

// Shapes of a list of descriptors: the client writes it, or reads it.
const (
	WritesList = "write"
	ReadsList  = "read"
)

// strategies are all rows. Of two with one name, a list whose remote side is one range has the first.
func strategies() []Strategy {
	return []Strategy{
		// Scatter/gather lists, WRITE (G-WR); pack, then WRITE; by segments (BC-SPUP); a WRITE per block (Multi-W).
		{Shape: "gather", Name: "gather-write", Operation: Write, Local: Strided},
		{Shape: "gather", Name: "pack", Operation: Write, Pack: true},
		{Shape: "gather", Name: "pack-pipelined", Operation: Write, Pack: true, Cut: Segments},
		{Shape: "gather", Name: "multi-wr", Operation: Write, Local: Strided, Cut: Blocks},
		{Shape: "gather", Name: contiguous, Operation: Write, Bound: true},

		// READ into scatter/gather lists (S-RD, P-RRS); READ, then unpack; a READ per block.
		{Shape: "scatter", Name: "scatter-read", Operation: Read, Local: Strided},
		{Shape: "scatter", Name: "read-unpack", Operation: Read, Unpack: true},
		{Shape: "scatter", Name: "multi-wr", Operation: Read, Local: Strided, Cut: Blocks},
		{Shape: "scatter", Name: contiguous, Operation: Read, Bound: true},

		// SEND of lists into scattered receives (GSSR, SGRS); pack, SEND, unpack; a WRITE per block (Multi-W).
		{Shape: "both", Name: "gather-send", Operation: Send, Local: Strided, Remote: Strided},
		{Shape: "both", Name: "pack-send-unpack", Operation: Send, Pack: true, Unpack: true},
		{Shape: "both", Name: "multi-wr", Operation: Write, Local: Strided, Remote: Strided, Cut: Blocks},
		{Shape: "both", Name: contiguous, Operation: Send, Bound: true},

		// Four roads of a list that the client writes. The copy ends in place where the remote side is one range, else the
		// peer unpacks.
		{Shape: WritesList, Name: "lists", Operation: Write, Local: Strided, Remote: Strided, Merge: true},
		{Shape: WritesList, Name: "coalesce", Operation: Write, Local: Strided, Remote: Strided, Cut: Blocks, Merge: true},
		{Shape: WritesList, Name: "multi-wr", Operation: Write, Local: Strided, Remote: Strided, Cut: Blocks},
		{Shape: WritesList, Name: "pack", Operation: Write, Remote: Strided, Pack: true, Cut: Segments},
		{Shape: WritesList, Name: "pack", Operation: Send, Pack: true, Unpack: true, Cut: Segments},
		{Shape: WritesList, Name: contiguous, Operation: Write, Local: Strided, Remote: Strided, Merge: true, Bound: true},

		// And that it reads. Where the server must pack, it sends.
		{Shape: ReadsList, Name: "lists", Operation: Read, Local: Strided, Remote: Strided, Merge: true},
		{Shape: ReadsList, Name: "coalesce", Operation: Read, Local: Strided, Remote: Strided, Cut: Blocks, Merge: true},
		{Shape: ReadsList, Name: "multi-wr", Operation: Read, Local: Strided, Remote: Strided, Cut: Blocks},
		{Shape: ReadsList, Name: "pack", Operation: Read, Remote: Strided, Unpack: true, Cut: Segments},
		{Shape: ReadsList, Name: "pack", Operation: Send, Pack: true, Unpack: true, Cut: Segments, Reversed: true},
		{Shape: ReadsList, Name: contiguous, Operation: Read, Local: Strided, Remote: Strided, Merge: true, Bound: true},
	}
}

// contiguous is the bound of every shape.
const contiguous = "contiguous"

// Strategies are all ways of a shape to reach the same end state. The device's own comes first, the bound last.
func Strategies(shape string) []Strategy {
	return slices.DeleteFunc(strategies(), func(s Strategy) bool { return s.Shape != shape })
}

// Load is what a strategy makes of a layout, or of a list over all queue pairs, on a device.
type Load struct {
	WRs          int // work requests per message, receives not counted
	SGEs         int // entries of their lists
	RecvWRs      int // receives per message
	RecvSGEs     int // entries of their lists
	SendSGEs     int // entries of the longest list
	RecvListSGEs int
	SegmentBytes int64
	Cut          pattern.Cut
}

// defaultSegment is how much is packed at a time: so much that a work request costs little beside it.
const defaultSegment = 16 << 10

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

// cutOf is how a strategy cuts: at the device's entries and, for a layout that one list does not hold, at the bytes
// that the plan says. Blocks that are longer than that, SENDs, whose receives the peer cuts, and chains that the
// send queue would not hold are left alone.
func cutOf(s Strategy, t *pattern.Transfer, lim verbs.Limits, n *Noncontig) pattern.Cut {
	c := pattern.Cut{Entries: 1, Merge: s.Merge, Spread: s.Operation == Send}
	if s.Cut == Blocks {
		return c
	}
	c.Entries = maxList(s, lim)
	if n.MaxSGE > 0 {
		c.Entries = min(c.Entries, n.MaxSGE)
	}
	pieces, bytes := t.Local.Blocks(), int64(n.ListBytes)
	oneList := pieces <= int64(c.Entries) || pieces > maxRingSGEs
	if s.Operation == Send || bytes <= 0 || oneList || t.Local.MeanBlockBytes() > float64(bytes) {
		return c
	}
	short := c
	short.Bytes = bytes
	if n.Descriptors != nil {
		if 2*t.Local.MeanBlockBytes() > float64(bytes) { // lists of one entry would be no lists
			return c
		}
		return short
	}
	if most := lim.MaxQPWR; most > 0 && t.Count(short, most/max(n.Window, 1)).Requests*max(n.Window, 1) > most {
		return c
	}
	return short
}
