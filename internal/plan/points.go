package plan

import (
	"fmt"

	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/verbs"
)

// Point is one point of the non-contiguous experiment, with its memory laid out at this end.
//
// An end whose data is strided has places, one layout each, that messages walk in turn; packed data has slots, as many as
// messages can be in flight. Message k uses place k mod Places and slot k mod slots. What the initiator names lies in its
// send buffer, what the peer reaches or receives in the receive buffer; each has its places first, then its slots.
type Point struct {
	Strategy Strategy
	Layout   pattern.Layout
	Load     Load

	Window   int
	Place    Steps // in either buffer
	SendSlot Steps // in the send buffer, behind its places
	RecvSlot Steps // in the receive buffer, likewise
}

const (
	maxPlaces    = 1 << 15
	maxRingSGEs  = 1 << 22
	noncontigPad = 64 // after the last place and slot: a guard
	// SlotLead is before each slot: room for the UD header, and a guard.
	SlotLead = 64
)

// Places is how many layouts a footprint holds: as many as may be in flight or posted at once, or a multiple.
func Places(l pattern.Layout, footprint int64, window int) int {
	pitch := int64(align(uint64(l.Extent()), 64))
	unit := int64(2 * window) // twice the window of receives is posted, each with a place and a slot of its own
	n := max(min(footprint/pitch, maxPlaces, maxRingSGEs/l.Blocks()), unit)
	return int(n / unit * unit)
}

// cut tells whether a footprint is too large for as many places as a ring has.
func (p *Point) cut(footprint int) bool {
	unit := 2 * p.Window * p.Place.Stride // which is rounded to
	return footprint > unit && p.Place.Places*p.Place.Stride <= footprint-unit
}

// parsePoint reads the layout and the strategy of n.
func parsePoint(n *Noncontig) (Strategy, pattern.Layout, error) {
	l, err := pattern.Parse(n.Layout, pattern.ParseOptions{})
	if err != nil {
		return Strategy{}, l, err
	}
	s, err := StrategyNamed(n.Shape, n.Strategy)
	return s, l, err
}

// choosePoint makes the spec what its point of the experiment needs.
func (s *Settled) choosePoint(wrong *Faults) {
	n := s.spec.Noncontig
	strategy, l, err := parsePoint(n)
	if err != nil {
		wrong.Note(err)
		return
	}
	before := len(*wrong)
	checkNumbers(pointTable, &s.spec, wrong)
	if len(*wrong) > before {
		return
	}
	if l.Size() > MaxMessage || product(uint64(2*max(n.Window, 1)), uint64(l.Extent())) > mostBytes {
		wrong.Add("layout %s: %d bytes over %d are more than a message or a memory holds", l, l.Size(), l.Extent())
		return
	}
	s.point = &Point{Strategy: strategy, Layout: l, Window: max(n.Window, 1), Load: LoadOf(strategy, l, s.limits.Device.Limits, n)}
	p := &s.spec
	if p.Operation != "" && p.Operation != strategy.Operation || p.Bidirectional || p.QPs > 1 || p.Kind == Latency ||
		len(p.Sizes) > 1 || len(p.Sizes) == 1 && int64(p.Sizes[0]) != l.Size() || p.SRQ || p.AllSizes || p.WriteImm || p.SendImm {
		wrong.Add("non-contiguous plan: one queue pair, one direction, operation %s and size %d are needed", strategy.Operation, l.Size())
	}
	p.Operation, p.Kind = strategy.Operation, Bandwidth
	p.Sizes, p.TxDepth, p.CQMod, p.CPU = []int{int(l.Size())}, s.point.Window, 1, true
	p.RxDepth, p.QPs = 0, 1
}

// layOutPoint computes the geometry of the point once the device is known.
func (s *Settled) layOutPoint() (send, recv uint64) {
	p, n := s.point, s.spec.Noncontig
	line := uint64(max(s.line, 64))
	p.Place = Steps{Stride: int(align(uint64(p.Layout.Extent()), line)), Places: Places(p.Layout, int64(n.Footprint), p.Window)}
	sending, receiving := p.Window, p.Window
	if s.row.NeedsReceive() {
		receiving = 2 * p.Window
	}
	if p.Strategy.Bound { // it walks as much memory as the others do, so that the cache state is the same
		sending = p.Place.Places
	}
	layOut := func(strided bool, slots int) (slot Steps, bytes uint64) { //nolint:revive // what the end's data is
		slot = Steps{Start: SlotLead, Stride: int(align(uint64(p.Layout.Size())+SlotLead, line)), Places: slots}
		if strided {
			slot.Start += int(product(uint64(p.Place.Places), uint64(p.Place.Stride)))
		}
		return slot, align(sum(uint64(slot.Start), product(uint64(slots), uint64(slot.Stride)), noncontigPad), 64)
	}
	p.SendSlot, send = layOut(!p.Strategy.Bound, sending)
	p.RecvSlot, recv = layOut(p.Strategy.Shape == "both" && !p.Strategy.Bound, receiving)
	return send, recv
}

// queues of the point.
func (p *Point) queues(t verbs.Transport) Queues {
	q := Queues{
		SendWRs: p.Window * p.Load.WRs, RecvWRs: max(2*p.Window*p.Load.RecvWRs, 1),
		SendSGEs: p.Load.SendSGEs, RecvSGEs: max(p.Load.RecvListSGEs, 1),
	}
	if t == verbs.UD && p.Strategy.Remote == Strided {
		q.RecvSGEs++
	}
	return q
}

// rings are how many messages a point's ring has, and how many receives.
func (p *Point) rings(s *Settled) (messages, receives int) {
	if s.Sends() {
		messages = p.Place.Places
	}
	if s.Receives() {
		receives = p.Place.Places
		if p.Strategy.Bound {
			receives = p.RecvSlot.Places
		}
		receives *= p.Load.RecvWRs
	}
	return messages, receives
}

// requestBytes is what the rings of a point hold.
func (p *Point) requestBytes(messages, receives int) uint64 {
	message := sum(ringBytes(p.Load.WRs, 0), product(2*16, uint64(p.Load.SGEs)))
	entries := uint64(receives) / uint64(max(p.Load.RecvWRs, 1)) * uint64(p.Load.RecvSGEs)
	return sum(product(uint64(messages), message), product(uint64(receives), receiveBytes(0)), product(16, entries))
}

// Refusal is why a point of a grid cannot be measured: the reason, alike for many points, and what is so at this one.
type Refusal struct{ Detail, Reason string }

func (r *Refusal) Error() string { return r.Detail + ": " + r.Reason }

// refusals are what a device cannot do of a point, each a [Refusal] with the nearest thing that would work. mtuBytes is the
// path's; 0: unknown.
func refusals(p *Spec, point *Point, lim verbs.Limits, mtuBytes int) []error {
	var errs []error
	bad := func(reason, detail string, args ...any) {
		errs = append(errs, &Refusal{Reason: reason, Detail: fmt.Sprintf(detail, args...)})
	}
	s, l, load, window, transport := point.Strategy, point.Layout, point.Load, point.Window, p.Transport
	if row := RowOf(s.Operation); !row.Supports(transport) {
		bad(fmt.Sprintf("%v does not have %v: use RC", transport, s.Operation), "%s", s.Name)
	}
	most := int64(MaxMessage)
	if lim.MaxMessageBytes > 0 {
		most = min(most, int64(min(lim.MaxMessageBytes, MaxMessage)))
	}
	if l.Size() > most {
		bad(fmt.Sprintf("a message is at most %d bytes", most), "%d bytes", l.Size())
	}
	if transport == verbs.UD && mtuBytes > 0 && l.Size() > int64(mtuBytes) {
		bad(fmt.Sprintf("a UD message is at most the MTU of %d bytes: use --connection RC or smaller messages", mtuBytes), "%d bytes", l.Size())
	}
	width := maxList(s, lim)
	fits := width
	if transport == verbs.UD && s.Remote == Strided {
		fits-- // the entry of the header
	}
	if transport != verbs.RC && load.RecvWRs > 1 {
		bad(fmt.Sprintf("%v may lose one of several SENDs of a message: use at most %d blocks, or -c RC", transport, fits),
			"%d blocks in %d SENDs", l.Blocks(), load.RecvWRs)
	} else if l.Blocks() > int64(fits) && fits < width {
		bad(fmt.Sprintf("a UD receive needs one list entry for the 40-byte header, and the device allows %d entries: use at most %d blocks", width, fits),
			"%d blocks", l.Blocks())
	}
	most = int64(lim.MaxQPWR)
	if most <= 0 {
		most = maxRequests
	}
	reason := fmt.Sprintf("the send queue has %d work requests", most)
	switch wrs := int64(load.WRs); {
	case wrs > most:
		bad(reason, "%d blocks need %d a message, use at most %d blocks", l.Blocks(), wrs, l.Blocks()/wrs*max(most/int64(max(window, 1)), 1))
	case int64(window) > most/wrs:
		bad(reason, "%d blocks with %d messages in flight need %d, use -t %d", l.Blocks(), window, int64(window)*wrs, most/wrs)
	}
	if recvs := int64(max(load.RecvWRs, 1)); int64(2*window) > most/recvs && load.RecvWRs > 0 {
		bad(fmt.Sprintf("the receive queue has %d work requests", most), "%d messages in flight need %d, use -t %d", window, int64(2*window)*recvs, max(most/(2*recvs), 1))
	}
	return errs
}
