package bench

import (
	"errors"
	"fmt"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/verbs"
)

// noncontig is the workload of one point of the non-contiguous experiment: one layout, one strategy.
//
// Memory: an end whose data is strided has places, one layout each, that messages walk in turn; packed data has slots,
// as many as messages can be in flight. Message k uses place k mod places and slot k mod slots.
type noncontig struct {
	plan     control.Plan
	strategy Strategy
	layout   pattern.Layout
	segments []pattern.Segment
	limits   verbs.Limits
	load     Load

	window    int
	places    int
	pitch     int // from one place to the next
	slotBytes int // from one slot to the next
	recvSlots int // slots at the receiving end

	kernels *pattern.Kernels
	ring    []verbs.Message
	ringFor uint64 // the peer's address that ring was made for
	recvs   []verbs.ReceiveRequest
	unpacks []verbs.Work
}

const (
	maxPlaces    = 1 << 15
	maxRingSGEs  = 1 << 22
	slotLead     = 64 // before each slot: room for the UD header, and a guard
	noncontigPad = 64 // after the last place and slot: a guard
)

// newNoncontig is the workload of one point of the non-contiguous experiment.
func newNoncontig(p control.Plan, _, line int) (workload, error) {
	n := p.Noncontig
	l, err := pattern.Parse(n.Layout, pattern.ParseOptions{})
	if err != nil {
		return nil, err
	}
	s, err := StrategyNamed(n.Shape, n.Strategy)
	if err != nil {
		return nil, err
	}
	if p.QPs != 1 || len(p.Sizes) != 1 || int64(p.Sizes[0]) != l.Size() || p.Operation != s.Operation || p.Bidirectional {
		return nil, fmt.Errorf("non-contiguous plan: one queue pair, one direction, operation %s and size %d are needed", s.Operation, l.Size())
	}
	w := &noncontig{plan: p, strategy: s, layout: l, window: max(p.TxDepth, 1)}
	w.pitch = roundUp(int(l.Extent()), max(line, 64))
	w.slotBytes = roundUp(int(l.Size())+slotLead, max(line, 64))
	w.places = NoncontigPlaces(l, int64(n.Footprint), w.window)
	w.recvSlots = w.window
	if s.Operation == control.Send {
		w.recvSlots = 2 * w.window
	}
	return w, nil
}

// NoncontigPlaces is how many layouts a footprint holds: as many as may be in flight or posted at once, or a multiple.
func NoncontigPlaces(l pattern.Layout, footprint int64, window int) int {
	pitch := int64(roundUp(int(l.Extent()), 64))
	unit := int64(2 * window) // twice the window of receives is posted, each with a place and a slot of its own
	n := max(min(footprint/pitch, maxPlaces, maxRingSGEs/l.Blocks()), unit)
	return int(n / unit * unit)
}

// The parts of the two buffers. What the initiator names lies in its send buffer, what the peer reaches or receives in
// the receive buffer; each has its places first, then its slots. An end without strided data has no places.
func (w *noncontig) placesBytes() int     { return w.places * w.pitch }
func (w *noncontig) placeAt(k uint64) int { return int(k%uint64(w.places)) * w.pitch }
func (w *noncontig) sendSlotAt(k uint64) int {
	return w.sendPlaces() + slotLead + int(k%uint64(w.sendSlots()))*w.slotBytes
}

func (w *noncontig) recvSlotAt(k uint64) int {
	return w.recvPlaces() + slotLead + int(k%uint64(w.recvSlots))*w.slotBytes
}

// sendSlots: the bound walks as much memory as the others do, so that the cache state is the same.
func (w *noncontig) sendSlots() int {
	if w.strategy.bound {
		return w.places
	}
	return w.window
}

func (w *noncontig) sendPlaces() int {
	if w.strategy.bound {
		return 0
	}
	return w.placesBytes()
}

func (w *noncontig) recvPlaces() int {
	if w.strategy.Shape == "both" && !w.strategy.bound {
		return w.placesBytes()
	}
	return 0
}

func (w *noncontig) demand(lim verbs.Limits) (demand, error) {
	w.limits = lim
	w.load = LoadOf(w.strategy, w.layout, lim, w.plan.Noncontig)
	if err := CheckNoncontig(w.plan, lim, 0); err != nil {
		return demand{}, err
	}
	if w.strategy.cut == segments {
		w.segments = w.layout.Segments(w.load.segmentBytes)
	}
	d := demand{
		sendBytes: w.sendPlaces() + w.sendSlots()*w.slotBytes + slotLead + noncontigPad,
		recvBytes: w.recvPlaces() + w.recvSlots*w.slotBytes + slotLead + noncontigPad,
		sendWRs:   w.window * w.load.WRs, recvWRs: max(2*w.window*w.load.RecvWRs, 1),
		sendSGEs: w.load.widestSend, recvSGEs: max(w.load.widestRecv, 1),
	}
	if w.plan.Transport == verbs.UD && w.strategy.remote == strided {
		d.recvSGEs++
	}
	d.sendBytes, d.recvBytes = roundUp(d.sendBytes, 64), roundUp(d.recvBytes, 64)
	return d, nil
}

// NoncontigBytes is how much memory each end registers for a plan.
func NoncontigBytes(p control.Plan, lim verbs.Limits) (int64, error) {
	w, err := newNoncontig(p, 4096, 64)
	if err != nil {
		return 0, err
	}
	d, err := w.demand(lim)
	return int64(d.sendBytes) + int64(d.recvBytes), err
}

// verifyPlaces is how many messages may be sent before one lies over another.
func (w *noncontig) verifyPlaces() int { return w.window }

func (w *noncontig) receivesPerMessage() uint64 { return uint64(max(w.load.RecvWRs, 1)) }

// receivesPerMessage is 1 but where a message is a chain of SENDs.
func receivesPerMessage(w workload) uint64 {
	if m, ok := w.(interface{ receivesPerMessage() uint64 }); ok {
		return m.receivesPerMessage()
	}
	return 1
}

func (w *noncontig) lane(e *Endpoint, role Role, _, q int, peer control.Address) (verbs.Lane, error) {
	if w.kernels == nil {
		o := pattern.KernelOptions{
			Footprint: int64(w.placesBytes()), PackedFootprint: int64(w.window * w.slotBytes),
		}
		w.kernels = pattern.NewKernels(o)
		e.closers.add(w.kernels)
	}
	var lane verbs.Lane
	if sends(w.plan, role) {
		if w.ring == nil || w.ringFor != peer.Addr {
			var err error
			if w.ring, err = w.makeRing(e, q, peer); err != nil {
				return lane, err
			}
			w.ringFor = peer.Addr
		}
		lane.Ring = w.ring
	}
	if receives(w.plan, role) {
		if w.recvs == nil {
			if err := w.makeReceives(e, q); err != nil {
				return lane, err
			}
		}
		lane.Receives, lane.Unpack = w.recvs, w.unpacks
	}
	return lane, nil
}

// makeRing prepares the initiator's messages, one per place.
func (w *noncontig) makeRing(e *Endpoint, q int, peer control.Address) ([]verbs.Message, error) {
	ring := make([]verbs.Message, w.places)
	for k := range ring {
		m, err := w.message(e, q, uint64(k), peer)
		if err != nil {
			return nil, err
		}
		ring[k] = m
	}
	return ring, nil
}

func (w *noncontig) message(e *Endpoint, q int, k uint64, peer control.Address) (verbs.Message, error) {
	mem, base, lkey := e.sendSlot(q), e.sendAddr(q), e.lkey(q)
	place, slot := w.placeAt(k), w.sendSlotAt(k)
	m := verbs.Message{Bytes: uint64(w.layout.Size())}
	request := func(entries []verbs.SGE, at int64) verbs.SendRequest {
		r := verbs.SendRequest{Opcode: Opcode(w.plan), SGEs: entries}
		switch {
		case w.plan.Operation != control.Send:
			r.RemoteAddr, r.RKey = peer.Addr+uint64(w.remoteAt(k))+uint64(at), peer.RKey
		case w.plan.Transport == verbs.UD:
			r.AH, r.RemoteQPN, r.RemoteQKey = e.handles[q], peer.QPN, e.plan.QKey
		}
		return r
	}
	whole := verbs.SGE{Addr: base + uint64(slot), Length: uint32(w.layout.Size()), LKey: lkey}
	if w.strategy.cut == segments {
		for _, s := range w.segments {
			work, err := w.kernels.Pack(s.Layout, mem[place:], mem[slot+int(s.Packed):])
			if err != nil {
				return m, err
			}
			entry := verbs.SGE{Addr: whole.Addr + uint64(s.Packed), Length: uint32(s.Layout.Size()), LKey: lkey}
			m.Steps = append(m.Steps, verbs.Step{Pack: work, Requests: []verbs.SendRequest{request([]verbs.SGE{entry}, s.Packed)}})
		}
		return m, nil
	}
	var step verbs.Step
	var err error
	if w.strategy.local == packed {
		step.Requests = []verbs.SendRequest{request([]verbs.SGE{whole}, 0)}
		if w.strategy.pack {
			if step.Pack, err = w.kernels.Pack(w.layout, mem[place:], mem[slot:]); err != nil {
				return m, err
			}
		}
		if w.strategy.unpack && w.plan.Operation == control.Read {
			if m.Done, err = w.kernels.Unpack(w.layout, mem[place:], mem[slot:]); err != nil {
				return m, err
			}
		}
	} else {
		step.Requests, err = w.stridedRequests(base+uint64(place), lkey, request)
	}
	m.Steps = []verbs.Step{step}
	return m, err
}

// remoteAt is where message k goes (or comes from) in the peer's receive buffer.
func (w *noncontig) remoteAt(k uint64) int {
	if w.strategy.remote == strided {
		return w.placeAt(k)
	}
	return w.recvSlotAt(k)
}

// stridedRequests cuts the entries of one layout into requests and gives each its part of the remote range.
func (w *noncontig) stridedRequests(addr uint64, lkey uint32, request func([]verbs.SGE, int64) verbs.SendRequest) ([]verbs.SendRequest, error) {
	entries := w.layout.AppendSGEs(make([]verbs.SGE, 0, w.layout.Blocks()), addr, lkey)
	within := pattern.ListLimits{Entries: 1}
	if w.strategy.cut == lists {
		within = listLimits(w.strategy, w.layout, w.limits, w.plan.Noncontig)
	}
	parts, err := pattern.SplitSGEs(entries, within)
	if err != nil {
		return nil, err
	}
	out := make([]verbs.SendRequest, 0, len(parts))
	at := int64(0)
	for _, part := range parts {
		remote := at
		if w.strategy.remote == strided { // one block a request: at its own offset
			remote = int64(part[0].Addr - addr)
		}
		out = append(out, request(part, remote))
		for i := range part {
			at += int64(part[i].Length)
		}
	}
	return out, nil
}

// makeReceives prepares the target's receives: one or more per place, in the order of the SENDs.
func (w *noncontig) makeReceives(e *Endpoint, q int) error {
	base, mem, lkey := e.recvAddr(q), e.recvSlot(q), e.lkey(q)
	header := func(k uint64) []verbs.SGE {
		if w.plan.Transport != verbs.UD {
			return nil
		}
		return []verbs.SGE{{Addr: base + uint64(w.recvSlotAt(k)) - grhBytes, Length: grhBytes, LKey: lkey}}
	}
	n := w.places
	if w.strategy.bound {
		n = w.recvSlots
	}
	for k := range uint64(n) {
		if w.strategy.remote == packed {
			entry := verbs.SGE{Addr: base + uint64(w.recvSlotAt(k)), Length: uint32(w.layout.Size()), LKey: lkey}
			if w.plan.Transport == verbs.UD {
				entry.Addr -= grhBytes
				entry.Length += grhBytes
			}
			w.recvs = append(w.recvs, verbs.ReceiveRequest{SGEs: []verbs.SGE{entry}})
			if w.strategy.unpack {
				work, err := w.kernels.Unpack(w.layout, mem[w.placeAt(k):], mem[w.recvSlotAt(k):])
				if err != nil {
					return err
				}
				w.unpacks = append(w.unpacks, work)
			}
			continue
		}
		entries := w.layout.AppendSGEs(nil, base+uint64(w.placeAt(k)), lkey)
		parts, err := pattern.SplitSGEs(entries, listLimits(w.strategy, w.layout, w.limits, w.plan.Noncontig))
		if err != nil {
			return err
		}
		for _, part := range parts {
			w.recvs = append(w.recvs, verbs.ReceiveRequest{SGEs: append(header(k), part...)})
		}
	}
	return nil
}

// arm writes what is sent, place by place, and fills what is received with the gap pattern.
func (w *noncontig) arm(e *Endpoint, role Role, size int, seed uint64) error {
	s := seedOf(seed, 0, true)
	if w.isSource(role) {
		mem, message := w.sourceMemory(e), make([]byte, size)
		for k := range w.sources() {
			FillPattern(message, s, k)
			w.store(mem, k, message)
		}
	}
	if w.isDestination(role) {
		FillPattern(w.destinationMemory(e), gapSeed(s), 0)
	}
	return nil
}

func gapSeed(seed uint64) uint64 { return seed ^ 0x5a5a5a5a5a5a5a5a }

// isSource and isDestination: data flows to the initiator in a READ, from it otherwise.
func (w *noncontig) isSource(r Role) bool {
	return (r == Initiator) != (w.plan.Operation == control.Read)
}
func (w *noncontig) isDestination(r Role) bool { return !w.isSource(r) }

func (w *noncontig) sourceMemory(e *Endpoint) []byte {
	if w.plan.Operation == control.Read {
		return e.recvSlot(0)
	}
	return e.sendSlot(0)
}

func (w *noncontig) destinationMemory(e *Endpoint) []byte {
	if w.plan.Operation == control.Read {
		return e.sendSlot(0)
	}
	return e.recvSlot(0)
}

// sources is the number of messages with contents of their own.
func (w *noncontig) sources() uint64 {
	switch {
	case w.plan.Operation == control.Read:
		return uint64(w.recvSlots)
	case w.strategy.bound:
		return uint64(w.sendSlots())
	default:
		return uint64(w.places)
	}
}

// store writes message k where the source has it.
func (w *noncontig) store(mem []byte, k uint64, message []byte) {
	switch {
	case w.plan.Operation == control.Read:
		copy(mem[w.recvSlotAt(k):], message)
	case w.strategy.bound:
		copy(mem[w.sendSlotAt(k):], message)
	default:
		place := mem[w.placeAt(k):]
		for it, at := w.layout.Iterate(), 0; ; {
			b, ok := it.Next()
			if !ok {
				return
			}
			at += copy(place[b.Offset:b.End()], message[at:])
		}
	}
}

// GapError is memory between the blocks, or around the messages, that was written.
type GapError struct {
	Strategy string
	Place    uint64
	Offset   int
	Got      byte
}

func (e *GapError) Error() string {
	return fmt.Sprintf("data corrupt: %s wrote %#02x at offset %d of place %d, outside the blocks", e.Strategy, e.Got, e.Offset, e.Place)
}

// check looks at every byte of the destination: each place holds the blocks of some message, whole, or is untouched,
// and all else is still the gap pattern.
func (w *noncontig) check(e *Endpoint, role Role, size int, seed uint64, moved []movement) error {
	if !w.isDestination(role) {
		return nil
	}
	c := w.newChecker(w.destinationMemory(e), seedOf(seed, 0, true), size)
	touched := uint64(0)
	for k := range c.places {
		t, err := c.place(k)
		if err != nil {
			return err
		}
		if t {
			touched++
		}
	}
	want := min(w.expected(moved[0]), c.places)
	if w.plan.Transport == verbs.RC && touched < want {
		return fmt.Errorf("data corrupt: %s filled %d places, want %d", w.strategy.Name, touched, want)
	}
	if w.plan.Transport != verbs.RC && touched == 0 && want > 0 && w.plan.Operation == control.Send {
		return errors.New("nothing arrived")
	}
	return nil
}

// expected is how many messages must have arrived; a one-sided target knows only that there was one.
func (w *noncontig) expected(m movement) uint64 {
	switch {
	case w.plan.Operation == control.Send:
		return m.received / w.receivesPerMessage()
	case m.sent > 1<<62:
		return 1
	default:
		return m.sent
	}
}

// Is matches [ErrCorrupt].
func (*GapError) Is(target error) bool { return target == ErrCorrupt }
