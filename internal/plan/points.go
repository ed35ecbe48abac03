package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/verbs"
)

// Point is one point of the non-contiguous experiment, with its memory laid out at this end: a layout, or a list of
// descriptors.
//
// An end whose data is strided has places, one layout or list each, that messages walk in turn; packed data has slots,
// as many as messages can be in flight. What the initiator names lies in its send buffer, what the peer reaches or
// receives in the receive buffer; each has its places first, then its slots.
//
// A layout is one message, and each queue pair has layouts of its own: message k uses place k mod Places and slot k
// mod slots. A list is dealt out to the queue pairs, which share its memory; what one of them moves of it is as
// many messages as its send queue needs.
type Point struct {
	Strategy Strategy
	Layout   pattern.Layout   // none: a list
	Transfer pattern.Transfer // as the initiator names it; of a list that this end does not know yet nothing
	Load     Load

	Window   int // messages in flight
	InFlight int // layouts or lists in flight
	Messages int // of a queue pair, for a layout or list
	Near     Ground
	Far      Ground // of the target

	list *Descriptors
	qps  int
	each int // requests of the queue pair that has most of them
}

// Ground is how data lies in the memory of one end.
type Ground struct {
	Place Steps
	Slot  Steps // behind the places; of a list, for each queue pair
}

const (
	maxPlaces    = 1 << 15
	maxRingSGEs  = 1 << 22
	noncontigPad = 64 // after the last place and slot: a guard
	// SlotLead is before each slot: room for the UD header, and a guard.
	SlotLead = 64

	listDepth      = 1024 // requests of a list that a queue pair has posted at once, at most
	listMessages   = 4    // messages in flight of a list that its send queue does not hold
	packedMessages = 8    // of one that is packed
)

// Descriptors names a list that the client has, and says what the server needs for it. The list itself comes once both
// have agreed on a test.
type Descriptors struct {
	Digest      string `json:"digest"`       // of the text
	PackedBytes int    `json:"packed_bytes"` // as the list crosses the wire
	Pieces      int    `json:"pieces"`
	Bytes       int    `json:"bytes"`
	LocalBytes  int    `json:"local_bytes"`
	RemoteBytes int    `json:"remote_bytes"`
	Mean        int    `json:"mean,omitempty"` // that the list is scaled to; 0: as it is
}

// Describe is a list as a plan names it; mean as in [Descriptors].
func Describe(digest string, packed int, t *pattern.Transfer, mean int) *Descriptors {
	return &Descriptors{
		Digest: digest, PackedBytes: packed, Pieces: int(t.Local.Blocks()), Bytes: int(t.Local.Size()),
		LocalBytes: int(t.Local.Extent()), RemoteBytes: int(t.Remote.Extent()), Mean: mean,
	}
}

// Listed tells whether the point moves a list.
func (p *Point) Listed() bool { return p.list != nil }

// Share is what queue pair q moves.
func (p *Point) Share(q int) pattern.Transfer {
	if !p.Listed() {
		return p.Transfer
	}
	return p.Transfer.Share(q, p.qps)
}

// Staged tells whether the initiator's requests name slots and not the data itself.
func (p *Point) Staged() bool { return p.Strategy.Pack || p.Strategy.Unpack }

// FarStrided tells whether the target's data lies in places: else in slots.
func (p *Point) FarStrided() bool {
	return p.Listed() || p.Strategy.Shape == "both" && !p.Strategy.Bound
}

// Segments is how a queue pair's part of a list is packed: message k ends at byte Segments(bytes, k).
func (p *Point) Segments(bytes int64, k int) int64 { return bytes * int64(k+1) / int64(p.Messages) }

// Places is how many layouts a footprint holds: as many as may be in flight or posted at once, or a multiple.
func Places(l pattern.Layout, footprint int64, window int) int {
	pitch := int64(align(uint64(l.Extent()), 64))
	unit := int64(2 * window) // twice the window of receives is posted, each with a place and a slot of its own
	n := max(min(footprint/pitch, maxPlaces, maxRingSGEs/l.Blocks()), unit)
	return int(n / unit * unit)
}

// cut tells whether a footprint is too large for as many places as a ring has.
func (p *Point) cut(footprint int) bool {
	place := p.Near.Place
	unit := 2 * p.Window * place.Stride // which is rounded to
	return !p.Listed() && footprint > unit && place.Places*place.Stride <= footprint-unit
}

// choosePoint makes the spec what its point of the experiment needs, and tells whether there is one.
func (s *Settled) choosePoint(wrong *Faults) bool {
	n := s.Spec.Noncontig
	before := len(*wrong)
	checkNumbers(pointTable, &s.Spec, wrong)
	if n.Descriptors != nil {
		checkNumbers(listTable, &s.Spec, wrong)
		wrong.If(n.Layout != "", "layout %s: a list of descriptors has none", shorten(n.Layout))
		wrong.If(n.Footprint > pattern.MaxSpan, "footprint %d: want at most %d for a list", n.Footprint, pattern.MaxSpan)
	}
	if len(*wrong) > before {
		return false
	}
	rows := slices.DeleteFunc(Strategies(n.Shape), func(r Strategy) bool { return r.Name != n.Strategy })
	if len(rows) > 1 { // of a list, whose operation the plan may know
		rows = slices.DeleteFunc(rows, func(r Strategy) bool {
			return s.Spec.Operation != "" && r.Operation != s.Spec.Operation
		})
	}
	listed := n.Shape == WritesList || n.Shape == ReadsList
	if len(rows) == 0 || listed != (n.Descriptors != nil) {
		wrong.Add("the shape %q has no strategy %q of %s", n.Shape, n.Strategy,
			map[bool]string{true: "a list of descriptors", false: "a layout"}[n.Descriptors != nil])
		return false
	}
	s.Point = &Point{
		Strategy: rows[0], Window: max(n.Window, 1), InFlight: max(n.Window, 1), Messages: 1, list: n.Descriptors,
		qps: max(s.Spec.QPs, 1),
	}
	if listed {
		s.chooseList(rows, wrong)
	} else {
		s.chooseLayout(wrong)
	}
	if len(*wrong) == before && s.Point.Transfer.Local.Blocks() > 0 {
		s.Point.deal(s.limits.Device.Limits, n, wrong)
	}
	if len(*wrong) > before {
		return false
	}
	p, size := &s.Spec, int(s.Point.Transfer.Local.Size())
	if s.Point.Listed() {
		size = n.Descriptors.Bytes
	}
	strategy := s.Point.Strategy
	if p.Operation != "" && p.Operation != strategy.Operation || p.Bidirectional || p.Rails > 1 || p.Threads > 1 ||
		p.Kind == Latency ||
		len(p.Sizes) > 1 || len(p.Sizes) == 1 && p.Sizes[0] != size || p.SRQ || p.AllSizes || p.WriteImm || p.SendImm {
		wrong.Add("non-contiguous plan: one device, one direction, operation %s and size %d are needed",
			strategy.Operation, size)
	}
	p.Operation, p.Kind, p.Reversed = strategy.Operation, Bandwidth, strategy.Reversed
	p.Sizes, p.TxDepth, p.CQMod, p.CPU = []int{size}, s.Point.Window, 1, true
	p.RxDepth, p.QPs = 0, max(p.QPs, 1)
	return true
}

func (s *Settled) chooseLayout(wrong *Faults) {
	n, p := s.Spec.Noncontig, s.Point
	var err error
	if p.Layout, err = pattern.Parse(n.Layout, pattern.ParseOptions{}); err != nil {
		wrong.Note(err)
		return
	}
	l := p.Layout
	if l.Size() > MaxMessage || product(uint64(2*p.Window), uint64(l.Extent())) > mostBytes {
		wrong.Add("layout %s: %d bytes over %d are more than a message or a memory holds", l, l.Size(), l.Extent())
		return
	}
	switch p.Transfer = pattern.Gathered(l); {
	case p.Strategy.Bound:
		p.Transfer = pattern.Range(l.Size(), 1)
	case p.Strategy.Shape == "both":
		p.Transfer.Remote = l
	}
}

// chooseList finds the road of a list. An end that does not know the list yet goes by what the plan says of it.
func (s *Settled) chooseList(rows []Strategy, wrong *Faults) {
	n, p, list := s.Spec.Noncontig, s.Point, s.limits.List
	d, before := n.Descriptors, len(*wrong)
	wrong.If(d.Pieces < p.qps, "--qp (-q) %d: each queue pair needs a piece, and the list has only %d", p.qps, d.Pieces)
	wrong.If(d.Pieces < 1 || d.Bytes < d.Pieces || d.LocalBytes < 1 || d.RemoteBytes < 1,
		"a list of %d descriptors with %d bytes cannot be", d.Pieces, d.Bytes)
	if p.Load = (Load{WRs: 1, SGEs: 1, SendSGEs: 1}); len(*wrong) > before || list == nil {
		return
	}
	t := *list
	if have := *Describe(d.Digest, d.PackedBytes, list, d.Mean); have != *d {
		wrong.Add("the list of descriptors is not the one that the plan names: it has %d pieces with %d bytes", have.Pieces,
			have.Bytes)
		return
	}
	if len(rows) > 1 && !t.Remote.IsRange() {
		p.Strategy = rows[1]
	}
	if p.Strategy.Reversed {
		t = t.Swapped()
	}
	if p.Transfer = t; p.Strategy.Bound {
		p.Transfer = pattern.Range(t.Local.Size(), int64(p.qps))
	}
}

// deal counts the requests of each queue pair, and deals those of a list out to messages. Queue pairs move a layout
// each, and share a list.
func (p *Point) deal(lim verbs.Limits, n *Noncontig, wrong *Faults) {
	x, sharers, counted, most, least := &p.Load, 1, maxRequests, 0, math.MaxInt // requests of a queue pair
	*x = Load{Cut: cutOf(p.Strategy, &p.Transfer, lim, n), SegmentBytes: int64(cmp.Or(n.Segment, defaultSegment))}
	if p.Listed() {
		sharers, counted = p.qps, maxRingSGEs
	}
	if bytes := int64(lim.MaxMessageBytes); p.Listed() && p.Strategy.Bound && bytes > 0 {
		x.Cut.Bytes, x.Cut.Split = bytes, true
	}
	for q := range sharers {
		share := p.Share(q)
		c, bytes := pattern.Load{Requests: 1, Entries: 1, Longest: 1}, share.Local.Size()
		switch {
		case p.Strategy.Cut == Segments && !p.Listed():
			c.Requests = int(min(share.Local.SegmentCount(x.SegmentBytes), maxRequests+1))
			c.Entries = c.Requests
		case p.Strategy.Cut == Segments:
			c.Requests = int((bytes + x.SegmentBytes - 1) / x.SegmentBytes)
			c.Entries = c.Requests
		case !p.Staged():
			c = share.Count(x.Cut, counted)
		}
		x.WRs, x.SGEs, x.SendSGEs = x.WRs+c.Requests, x.SGEs+c.Entries, max(x.SendSGEs, c.Longest)
		if most = max(most, c.Requests); p.Staged() {
			c.Requests = int(bytes) // a message has one at least
		}
		least = min(least, c.Requests)
	}
	if p.each = most; p.Listed() {
		p.inMessages(most, least, lim, wrong)
	}
	if p.Strategy.Operation == Send {
		x.RecvWRs, x.RecvSGEs, x.RecvListSGEs = 1, 1, 1
		if p.Listed() || p.Strategy.Remote == Strided { // cut alike
			x.RecvWRs, x.RecvSGEs, x.RecvListSGEs = x.WRs, x.SGEs, x.SendSGEs
		}
	}
}

// inMessages makes of a queue pair's part of a list as many messages as its send queue
// needs. What is packed is a request each.
func (p *Point) inMessages(most, least int, lim verbs.Limits, wrong *Faults) {
	depth, parts := listDepth, listMessages
	if lim.MaxQPWR > 0 {
		depth = min(depth, lim.MaxQPWR)
	}
	hint := ""
	if p.Staged() {
		p.Messages, parts, hint = min(most, least), packedMessages, ": use a larger --segment"
		p.each, p.Load.WRs, p.Load.SGEs = p.Messages, p.Messages*p.qps, p.Messages*p.qps
	}
	switch {
	case p.Load.WRs > maxRingSGEs:
		wrong.Note(&Refusal{
			Reason: fmt.Sprintf("at most %d requests are prepared%s", maxRingSGEs, hint),
			Detail: fmt.Sprintf("%d requests", p.Load.WRs),
		})
		return
	case p.Staged():
	case most*p.InFlight > depth:
		p.Messages = (most + max(depth/parts, 1) - 1) / max(depth/parts, 1)
	}
	if p.Messages > least {
		wrong.Note(&Refusal{
			Reason: "the queue pairs have shares that are too different: use -q 1",
			Detail: fmt.Sprintf("%d requests on one, %d on another", most, least),
		})
		return
	}
	if p.Window = p.InFlight; p.Messages > 1 {
		p.Window = min(p.Messages*p.InFlight, parts)
	}
}

// Ring is after how many layouts or lists places and slots both begin anew, of
// which any n that follow each other differ.
func (p *Point) Ring(places, n int) int {
	if !p.Listed() {
		return max(places, 1)
	}
	return places * max((n+places*p.Messages-1)/(places*p.Messages), 1)
}

// Apart deals n ring entries out to slots, so that any so many that follow each other,
// around the ring, have different ones.
func Apart(n, differ int) (slot func(i int) int, slots int) {
	blocks := max(n/max(differ, 1), 1) // of consecutive entries, each at least so long
	slot = func(i int) int {
		block := i * blocks / n
		return i - (block*n+blocks-1)/blocks
	}
	return slot, (n + blocks - 1) / blocks
}

// layOutPoint computes the geometry of the point once the device is known. A list has as many places as the footprint
// holds, and slots only for what is packed or unpacked there.
func (s *Settled) layOutPoint() (send, recv uint64) {
	p, n, line := s.Point, s.Spec.Noncontig, uint64(max(s.line, 64))
	near, far, slot, sharers := uint64(p.Layout.Extent()), uint64(p.Layout.Extent()), uint64(p.Layout.Size()), 1
	places, nearSlots, farSlots := 0, p.Window, p.Window
	if s.Row.NeedsReceive() {
		farSlots *= 2
	}
	if p.Listed() {
		near, far, sharers = uint64(n.Descriptors.LocalBytes), uint64(n.Descriptors.RemoteBytes), p.qps
		if p.Strategy.Reversed {
			near, far = far, near
		}
		if p.Strategy.Bound {
			near, far = uint64(n.Descriptors.Bytes), uint64(n.Descriptors.Bytes)
		}
		places = max(n.Footprint/int(align(max(near, far), line)), 1)
		slot = p.longestMessage()
		slots := func(staged bool, n int) int { //nolint:revive // whether the end has slots
			if !staged {
				return 0
			}
			_, slots := Apart(p.Ring(places, n)*p.Messages, n)
			return slots
		}
		nearSlots = slots(p.Strategy.Pack || s.Row.Fetches() && p.Strategy.Unpack, nearSlots)
		farSlots = slots(s.Row.NeedsReceive(), farSlots)
	} else {
		places = Places(p.Layout, int64(n.Footprint), p.Window)
		if p.Strategy.Bound { // it walks as much memory as the others do, so that the cache state is the same
			nearSlots = places
		}
	}
	layOut := func(pitch uint64, strided bool, slots int) (g Ground, bytes uint64) { //nolint:revive // what its data is
		g.Place = Steps{Stride: int(align(pitch, line)), Places: places}
		if strided {
			bytes = product(uint64(places), uint64(g.Place.Stride))
		}
		if slots > 0 {
			g.Slot = Steps{Start: int(bytes) + SlotLead, Stride: int(align(slot+SlotLead, line)), Places: slots}
			bytes = sum(bytes, SlotLead, product(uint64(slots), uint64(g.Slot.Stride), uint64(sharers)))
		}
		return g, align(sum(bytes, noncontigPad), 64)
	}
	p.Near, send = layOut(near, p.Listed() || !p.Strategy.Bound, nearSlots)
	p.Far, recv = layOut(far, p.FarStrided(), farSlots)
	return send, recv
}

// longestMessage is how many bytes a message of a list has at most; 0: the list is not known yet.
func (p *Point) longestMessage() (bytes uint64) {
	for q := range p.qps {
		if p.Transfer.Local.Blocks() > 0 {
			share := p.Share(q)
			bytes = max(bytes, uint64(share.Local.Size()+int64(p.Messages)-1)/uint64(p.Messages))
		}
	}
	return bytes
}

// queuesOf are the queues of the point.
func (p *Point) queuesOf(t verbs.Transport) Queues {
	sends, receives := p.Load.WRs, p.Load.RecvWRs
	if p.Listed() {
		sends, receives = max((p.each+p.Messages-1)/p.Messages, 1), min(receives, 1)
	}
	q := Queues{
		SendWRs: p.Window * sends, RecvWRs: max(2*p.Window*receives, 1),
		SendSGEs: p.Load.SendSGEs, RecvSGEs: max(p.Load.RecvListSGEs, 1),
	}
	if t == verbs.UD && p.Strategy.Remote == Strided {
		q.RecvSGEs++
	}
	return q
}

// rings are how many messages a point's ring has, and how many receives.
func (p *Point) rings(s *Settled) (messages, receives int) {
	places := p.Near.Place.Places
	if s.Sends() {
		messages = p.Ring(places, p.Window) * p.Messages
	}
	switch {
	case !s.Receives():
	case p.Listed():
		receives = p.Ring(places, 2*p.Window) * p.Messages
	case p.Strategy.Bound:
		receives = p.Far.Slot.Places * p.Load.RecvWRs
	default:
		receives = places * p.Load.RecvWRs
	}
	return messages, receives
}

// requestBytes is what the rings of a point hold.
func (p *Point) requestBytes(messages, receives int) uint64 {
	messages = (messages + p.Messages - 1) / p.Messages // a load is that of a whole list
	message := sum(ringBytes(p.Load.WRs, 0), product(2*16, uint64(p.Load.SGEs)))
	entries := uint64(receives) / uint64(max(p.Load.RecvWRs, 1)) * uint64(p.Load.RecvSGEs)
	bytes := sum(product(uint64(messages), message), product(uint64(receives), receiveBytes(0)), product(16, entries))
	if p.Listed() { // the list, and what a kernel reads of it
		bytes = sum(bytes, product(pieceBytes, uint64(p.list.Pieces)), product(3, uint64(p.list.PackedBytes)))
	}
	return bytes
}

// pieceBytes are those that an end holds for a descriptor: both its places, twice, and a kernel's entry.
const pieceBytes = 96

// Refusal is why a point of a grid cannot be measured: the reason, alike for many points, and what is so at this one.
type Refusal struct{ Detail, Reason string }

func (r *Refusal) Error() string { return r.Detail + ": " + r.Reason }

// refusals are what a device cannot do of a point, each a [Refusal] with the nearest thing that would
// work. mtuBytes is the path's; 0: unknown.
func refusals(p *Spec, point *Point, lim verbs.Limits, mtuBytes int) []error {
	var errs []error
	bad := func(reason, detail string, args ...any) {
		errs = append(errs, &Refusal{Reason: reason, Detail: fmt.Sprintf(detail, args...)})
	}
	s, load, window, transport := point.Strategy, point.Load, point.Window, p.Transport
	if point.Listed() {
		if transport != verbs.RC {
			bad("a list of descriptors needs RC", "%v", transport)
		}
		return errs
	}
	l := point.Layout
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
		bad(fmt.Sprintf("a UD message is at most the MTU of %d bytes: use --connection RC or smaller messages", mtuBytes),
			"%d bytes", l.Size())
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
		bad(fmt.Sprintf("a UD receive needs one list entry for the 40-byte header, and the device allows %d entries: "+
			"use at most %d blocks", width, fits),
			"%d blocks", l.Blocks())
	}
	most = int64(lim.MaxQPWR)
	if most <= 0 {
		most = maxRequests
	}
	reason := fmt.Sprintf("the send queue has %d work requests", most)
	switch wrs := int64(load.WRs); {
	case wrs > most:
		bad(reason, "%d blocks need %d a message, use at most %d blocks", l.Blocks(),
			wrs, l.Blocks()/wrs*max(most/int64(max(window, 1)), 1))
	case int64(window) > most/wrs:
		bad(reason, "%d blocks with %d messages in flight need %d, use -t %d", l.Blocks(), window,
			int64(window)*wrs, most/wrs)
	}
	if recvs := int64(max(load.RecvWRs, 1)); int64(2*window) > most/recvs && load.RecvWRs > 0 {
		bad(fmt.Sprintf("the receive queue has %d work requests", most), "%d messages in flight need %d, use -t %d", window,
			int64(2*window)*recvs, max(most/(2*recvs), 1))
	}
	return errs
}
