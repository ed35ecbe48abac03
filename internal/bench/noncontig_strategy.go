package bench

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/verbs"
)

// side is how one end of a message lies in memory.
type side uint8

const (
	packed  side = iota // contiguous
	strided             // in the blocks of the layout
)

// cut is how a message becomes work requests.
type cut uint8

const (
	lists    cut = iota // as few as the device's scatter/gather lists allow
	blocks              // one per block
	segments            // one per segment, packed while the one before is on its way
)

// Strategy is one way to move a layout: a row of data that the compiler of jobs reads.
type Strategy struct {
	Shape, Name string
	Operation   control.Operation
	Explain     string

	local  side // what the initiator's requests name
	remote side // what the peer's memory or receives are
	cut    cut
	pack   bool // the initiator packs before it posts
	unpack bool // the receiver of the data unpacks when a message has arrived
	bound  bool // the data has no gaps from the start: the bound of the shape
}

// Shapes are the shapes of the experiment in order.
func Shapes() []string { return []string{"gather", "scatter", "both"} }

// Strategies are all ways of a shape to reach the same end state. The device's own comes first, the bound last.
func Strategies(shape string) []Strategy {
	return slices.DeleteFunc([]Strategy{
		{Shape: "gather", Name: "gather-write", Operation: control.Write, local: strided, Explain: "scatter/gather lists, WRITE (G-WR)"},
		{Shape: "gather", Name: "pack", Operation: control.Write, pack: true, Explain: "pack, then WRITE"},
		{Shape: "gather", Name: "pack-pipelined", Operation: control.Write, pack: true, cut: segments, Explain: "pack and WRITE by segments (BC-SPUP)"},
		{Shape: "gather", Name: "multi-wr", Operation: control.Write, local: strided, cut: blocks, Explain: "a WRITE per block (Multi-W)"},
		{Shape: "gather", Name: "contiguous", Operation: control.Write, bound: true, Explain: "no gaps: the bound"},

		{Shape: "scatter", Name: "scatter-read", Operation: control.Read, local: strided, Explain: "READ into scatter/gather lists (S-RD, P-RRS)"},
		{Shape: "scatter", Name: "read-unpack", Operation: control.Read, unpack: true, Explain: "READ, then unpack"},
		{Shape: "scatter", Name: "multi-wr", Operation: control.Read, local: strided, cut: blocks, Explain: "a READ per block"},
		{Shape: "scatter", Name: "contiguous", Operation: control.Read, bound: true, Explain: "no gaps: the bound"},

		{Shape: "both", Name: "gather-send", Operation: control.Send, local: strided, remote: strided, Explain: "SEND of lists into scattered receives (GSSR, SGRS)"},
		{Shape: "both", Name: "pack-send-unpack", Operation: control.Send, pack: true, unpack: true, Explain: "pack, SEND, unpack"},
		{Shape: "both", Name: "multi-wr", Operation: control.Write, local: strided, remote: strided, cut: blocks, Explain: "a WRITE per block (Multi-W)"},
		{Shape: "both", Name: "contiguous", Operation: control.Send, bound: true, Explain: "no gaps: the bound"},
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
	widestSend   int // entries of the longest list
	widestRecv   int
	segmentBytes int64
}

// defaultSegment is the payload that pack-pipelined packs at a time: large enough that a work request costs little beside it.
const defaultSegment = 16 << 10

// LoadOf counts requests and entries of the strategy that n names.
func LoadOf(s Strategy, l pattern.Layout, lim verbs.Limits, n *control.Noncontig) Load {
	entries := int(l.Blocks())
	within := listLimits(s, l, lim, n)
	width := min(entries, within.Entries)
	lists := func() int { return int(l.Lists(within)) }
	x := Load{WRs: 1, SGEs: 1, widestSend: 1, segmentBytes: int64(n.Segment)}
	if n.Segment == 0 {
		x.segmentBytes = defaultSegment
	}
	switch {
	case s.cut == blocks:
		x.WRs, x.SGEs = entries, entries
	case s.cut == segments:
		x.WRs = len(l.Segments(x.segmentBytes))
		x.SGEs = x.WRs
	case s.local == strided:
		x.WRs, x.SGEs, x.widestSend = lists(), entries, width
	}
	if s.Operation == control.Send {
		x.RecvWRs, x.RecvSGEs, x.widestRecv = 1, 1, 1
		if s.remote == strided {
			x.RecvWRs, x.RecvSGEs, x.widestRecv = lists(), entries, width
		}
	}
	return x
}

// maxList is the longest list that a strategy may use.
func maxList(s Strategy, lim verbs.Limits) int {
	width := max(lim.MaxSGE, 1)
	if s.Operation == control.Read && lim.MaxSGERead > 0 {
		width = min(width, lim.MaxSGERead)
	}
	return width
}

// listLimits bounds the lists of a strategy: by the device's entries and, for a layout that one list does not hold, by the
// bytes at which the plan cuts. Blocks that are longer than that, SENDs, whose receives the peer cuts, and chains that the send
// queue would not hold are left alone.
func listLimits(s Strategy, l pattern.Layout, lim verbs.Limits, n *control.Noncontig) pattern.ListLimits {
	m := pattern.ListLimits{Entries: maxList(s, lim)}
	if s.Operation == control.Send || l.Blocks() <= int64(m.Entries) || l.MeanBlockBytes() > float64(n.ListBytes) {
		return m
	}
	short := pattern.ListLimits{Entries: m.Entries, Bytes: int64(n.ListBytes)}
	if most := int64(lim.MaxQPWR); most > 0 && l.Lists(short)*int64(max(n.Window, 1)) > most {
		return m
	}
	return short
}

// ListBytes is where a device had best cut the chains of a strategy's lists: 0 for as few requests as possible.
func ListBytes(s Strategy, lim verbs.Limits, mtu verbs.MTU) int {
	switch s.Operation {
	case control.Write:
		return lim.WriteBatchPackets * mtu.Bytes()
	case control.Read:
		return lim.ReadBatchPackets * mtu.Bytes()
	default:
		return 0
	}
}

// NoncontigPlan is the plan of one measurement of the experiment.
func NoncontigPlan(p control.Plan) (control.Plan, error) {
	n := p.Noncontig
	l, err := pattern.Parse(n.Layout, pattern.ParseOptions{})
	if err != nil {
		return p, err
	}
	s, err := StrategyNamed(n.Shape, n.Strategy)
	if err != nil {
		return p, err
	}
	p.Operation, p.Kind = s.Operation, control.Bandwidth
	p.Sizes, p.TxDepth, p.CQMod, p.CPU = []int{int(l.Size())}, n.Window, 1, true
	p.RxDepth, p.QPs = 0, 1
	return p, nil
}

// Refusal is why a point of a grid cannot be measured: the reason, alike for many points, and what is so at this one.
type Refusal struct{ Detail, Reason string }

func (r *Refusal) Error() string { return r.Detail + ": " + r.Reason }

// CheckNoncontig refuses what a device cannot do, all faults together, each a [Refusal] with the nearest thing that would work.
func CheckNoncontig(p control.Plan, lim verbs.Limits, mtuBytes int) error {
	n := p.Noncontig
	l, err := pattern.Parse(n.Layout, pattern.ParseOptions{})
	if err != nil {
		return err
	}
	s, err := StrategyNamed(n.Shape, n.Strategy)
	if err != nil {
		return err
	}
	var errs []error
	bad := func(reason, detail string, args ...any) {
		errs = append(errs, &Refusal{Reason: reason, Detail: fmt.Sprintf(detail, args...)})
	}
	load := LoadOf(s, l, lim, n)
	if !p.Transport.Supports(Opcode(control.Plan{Operation: s.Operation})) {
		bad(fmt.Sprintf("%v does not have %v: use RC", p.Transport, s.Operation), "%s", s.Name)
	}
	most := int64(maxMessage)
	if lim.MaxMessageBytes > 0 {
		most = min(most, int64(min(lim.MaxMessageBytes, maxMessage)))
	}
	if l.Size() > most {
		bad(fmt.Sprintf("a message is at most %d bytes", most), "%d bytes", l.Size())
	}
	if p.Transport == verbs.UD && mtuBytes > 0 && l.Size() > int64(mtuBytes) {
		bad(fmt.Sprintf("a UD message is at most the MTU of %d bytes: use --connection RC or smaller messages", mtuBytes), "%d bytes", l.Size())
	}
	if width := maxList(s, lim); p.Transport != verbs.RC && load.RecvWRs > 1 {
		bad(fmt.Sprintf("%v may lose one of several SENDs: use at most %d blocks, or RC", p.Transport, width),
			"%d blocks in %d SENDs", l.Blocks(), load.RecvWRs)
	} else if p.Transport == verbs.UD && s.remote == strided && int(l.Blocks())+1 > width {
		bad(fmt.Sprintf("a UD receive has an entry for the 40-byte header, and the device %d: use at most %d blocks", width, width-1),
			"%d blocks", l.Blocks())
	}
	window := max(n.Window, 1)
	if most := lim.MaxQPWR; most > 0 {
		reason := fmt.Sprintf("the send queue has %d work requests", most)
		switch {
		case load.WRs > most:
			bad(reason, "%d blocks need %d a message, use blocks of %d bytes or more for this message size", l.Blocks(), load.WRs, roundUp(int(l.Size())/most+1, 8))
		case window*load.WRs > most:
			bad(reason, "%d blocks with %d messages in flight need %d, use --window %d", l.Blocks(), window, window*load.WRs, most/load.WRs)
		}
		if receives := 2 * window * load.RecvWRs; receives > most {
			bad(fmt.Sprintf("the receive queue has %d work requests", most), "%d messages in flight need %d, use --window %d", window, receives, max(most/(2*max(load.RecvWRs, 1)), 1))
		}
	}
	return errors.Join(errs...)
}
