package endpoint

import (
	"time"
	"unsafe"

	"github.com/gobw/gobw/internal/bench/payload"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// layouts is the workload of the non-contiguous experiment, of one point: one layout, one strategy, one queue pair. Where its messages
// lie is the plan's to say.
type layouts struct {
	*plan.Point
	plan     *plan.Settled
	planted  time.Duration     // that each message costs on purpose
	segments []pattern.Segment // that are packed one after the other: the whole, but in a pipeline

	kernels *pattern.Kernels
	ring    []job.Message
	recvs   []verbs.ReceiveRequest
	unpacks []job.Work
}

// newLayouts is the workload of a plan that has a point.
func newLayouts(p *plan.Settled, planted time.Duration) *layouts {
	w := &layouts{Point: p.Point(), plan: p, planted: planted}
	w.segments = []pattern.Segment{{Layout: w.Layout}}
	if w.Strategy.Cut == plan.Segments {
		w.segments = w.Layout.Segments(w.Load.SegmentBytes)
	}
	return w
}

func (w *layouts) lane(e *Endpoint, _, _ int) (lane job.Lane, err error) {
	if w.kernels == nil {
		w.kernels = pattern.NewKernels(pattern.KernelOptions{
			Footprint: int64(w.Places * w.Pitch), PackedFootprint: int64(w.Window * w.SlotBytes),
		})
		e.closers.add(w.kernels)
		if w.plan.Sends() {
			w.ring = make([]job.Message, w.Places)
		}
		for k := range w.ring {
			if w.ring[k], err = w.message(e, uint64(k)); err != nil {
				return lane, err
			}
			if w.planted > 0 {
				w.ring[k].Steps[0].Pack = delayed(w.planted, w.ring[k].Steps[0].Pack)
			}
		}
		if w.plan.Receives() {
			err = w.makeReceives(e)
		}
	}
	return job.Lane{Ring: w.ring, Receives: w.recvs, Unpack: w.unpacks}, err
}

// delayed is work that begins with a wait.
func delayed(by time.Duration, work job.Work) job.Work {
	return job.Work{Arg: work.Arg, Go: func(arg unsafe.Pointer) {
		for start := time.Now(); time.Since(start) < by; {
		}
		if work.Go != nil {
			work.Go(arg)
		}
	}}
}

func (w *layouts) message(e *Endpoint, k uint64) (m job.Message, err error) {
	mem, base, lkey := e.sendSlot(0), e.sendAddr(0), e.lkey(0)
	place, slot, remote := w.PlaceAt(k), w.SendSlotAt(k), uint64(w.remoteAt(k))
	m.Bytes = uint64(w.Layout.Size())
	if w.Strategy.Local != plan.Packed {
		requests, err := w.stridedRequests(e, base+uint64(place), remote)
		m.Steps = []job.Step{{Requests: requests}}
		return m, err
	}
	for _, s := range w.segments {
		entry := verbs.SGE{Addr: base + uint64(slot) + uint64(s.Packed), Length: uint32(s.Layout.Size()), LKey: lkey}
		step := job.Step{Requests: []verbs.SendRequest{e.request(0, []verbs.SGE{entry}, remote+uint64(s.Packed))}}
		if w.Strategy.Pack {
			if step.Pack, err = w.kernels.Pack(s.Layout, mem[place:], mem[slot+int(s.Packed):]); err != nil {
				return m, err
			}
		}
		m.Steps = append(m.Steps, step)
	}
	if w.Strategy.Unpack && w.plan.Row().Fetches() {
		m.Done, err = w.kernels.Unpack(w.Layout, mem[place:], mem[slot:])
	}
	return m, err
}

// remoteAt is where message k goes (or comes from) in the peer's receive buffer.
func (w *layouts) remoteAt(k uint64) int {
	if w.Strategy.Remote == plan.Strided {
		return w.PlaceAt(k)
	}
	return w.RecvSlotAt(k)
}

// stridedRequests cuts the entries of one layout into requests and gives each its part of the remote range.
func (w *layouts) stridedRequests(e *Endpoint, addr, remote uint64) ([]verbs.SendRequest, error) {
	entries := w.Layout.AppendSGEs(make([]verbs.SGE, 0, w.Layout.Blocks()), addr, e.lkey(0))
	within := pattern.ListLimits{Entries: 1}
	if w.Strategy.Cut == plan.Lists {
		within = w.Load.Lists
	}
	parts, err := pattern.SplitSGEs(entries, within)
	if err != nil {
		return nil, err
	}
	out := make([]verbs.SendRequest, 0, len(parts))
	at := uint64(0)
	for _, part := range parts {
		to := at
		if w.Strategy.Remote == plan.Strided { // one block a request: at its own offset
			to = part[0].Addr - addr
		}
		out = append(out, e.request(0, part, remote+to))
		for i := range part {
			at += uint64(part[i].Length)
		}
	}
	return out, nil
}

// makeReceives prepares the target's receives: one or more per place, in the order of the SENDs.
func (w *layouts) makeReceives(e *Endpoint) error {
	base, mem, lkey := e.recvAddr(0), e.recvSlot(0), e.lkey(0)
	datagram := w.plan.Spec().Transport == verbs.UD
	header := func(k uint64) []verbs.SGE {
		if !datagram {
			return nil
		}
		return []verbs.SGE{{Addr: base + uint64(w.RecvSlotAt(k)) - verbs.GRHBytes, Length: verbs.GRHBytes, LKey: lkey}}
	}
	n := w.Places
	if w.Strategy.Bound {
		n = w.RecvSlots
	}
	for k := range uint64(n) {
		if w.Strategy.Remote == plan.Packed {
			entry := verbs.SGE{Addr: base + uint64(w.RecvSlotAt(k)), Length: uint32(w.Layout.Size()), LKey: lkey}
			if datagram {
				entry.Addr -= verbs.GRHBytes
				entry.Length += verbs.GRHBytes
			}
			w.recvs = append(w.recvs, verbs.ReceiveRequest{SGEs: []verbs.SGE{entry}})
			if w.Strategy.Unpack {
				work, err := w.kernels.Unpack(w.Layout, mem[w.PlaceAt(k):], mem[w.RecvSlotAt(k):])
				if err != nil {
					return err
				}
				w.unpacks = append(w.unpacks, work)
			}
			continue
		}
		entries := w.Layout.AppendSGEs(nil, base+uint64(w.PlaceAt(k)), lkey)
		parts, err := pattern.SplitSGEs(entries, w.Load.Lists)
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
func (w *layouts) arm(e *Endpoint, _ int, seed uint64) error {
	s, mem := payload.Seed(seed, 0, true), w.dataOf(e)
	if !w.isSource() {
		payload.Fill(mem, gapSeed(s), 0)
		return nil
	}
	message := make([]byte, w.Layout.Size())
	for k := range w.sources() {
		payload.Fill(message, s, k)
		w.store(mem, k, message)
	}
	return nil
}

func gapSeed(seed uint64) uint64 { return seed ^ 0x5a5a5a5a5a5a5a5a }

// isSource tells whether the data starts here: it flows to the initiator in a READ, from it otherwise.
func (w *layouts) isSource() bool {
	return (w.plan.Role() == plan.Initiator) != w.plan.Row().Fetches()
}

// dataOf is the part of this end's memory that is read or written: the initiator's send buffer, or the peer's receive buffer.
func (w *layouts) dataOf(e *Endpoint) []byte {
	if w.plan.Role() == plan.Initiator {
		return e.sendSlot(0)
	}
	return e.recvSlot(0)
}

// sources is the number of messages with contents of their own.
func (w *layouts) sources() uint64 {
	switch {
	case w.plan.Row().Fetches():
		return uint64(w.RecvSlots)
	case w.Strategy.Bound:
		return uint64(w.SendSlots)
	default:
		return uint64(w.Places)
	}
}

// store writes message k where the source has it.
func (w *layouts) store(mem []byte, k uint64, message []byte) {
	switch {
	case w.plan.Row().Fetches():
		copy(mem[w.RecvSlotAt(k):], message)
	case w.Strategy.Bound:
		copy(mem[w.SendSlotAt(k):], message)
	default:
		place := mem[w.PlaceAt(k):]
		for it, at := w.Layout.Iterate(), 0; ; {
			b, ok := it.Next()
			if !ok {
				return
			}
			at += copy(place[b.Offset:b.End()], message[at:])
		}
	}
}

// check looks at every byte of the destination: each place holds the blocks of some message, whole, or is untouched, and all
// else is still the gap pattern. It returns how many places hold a whole message.
func (w *layouts) check(e *Endpoint, _ int, seed uint64, sparse bool) (whole uint64, err error) {
	if w.isSource() {
		return 0, nil
	}
	c := w.newChecker(w.dataOf(e), payload.Seed(seed, 0, true), sparse)
	touched := uint64(0)
	for k := range c.places {
		t, complete, err := c.place(k)
		if err != nil {
			return whole, err
		}
		if t {
			touched++
		}
		if complete {
			whole++
		}
	}
	reliable, sent := w.plan.Spec().Transport == verbs.RC, e.moved[0].sent
	want := min(w.expected(e.moved[0]), c.places)
	if reliable && touched < want {
		return whole, payload.Corrupt("%s filled %d places, want %d", w.Strategy.Name, touched, want)
	}
	if !reliable && touched == 0 && want > 0 && w.plan.Receives() {
		return whole, payload.Nothing(sent)
	}
	return whole, nil
}

// expected is how many messages must have arrived; a one-sided target knows only that there was one.
func (w *layouts) expected(m movement) uint64 {
	switch {
	case !w.plan.Row().Addressed():
		return m.received / w.plan.ReceivesPerMessage()
	case m.sent > 1<<62:
		return 1
	default:
		return m.sent
	}
}
