package bench

import (
	"fmt"
	"time"
	"unsafe"

	"github.com/gobw/gobw/internal/bench/payload"
	"github.com/gobw/gobw/internal/control"
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
	planted  time.Duration // that each message costs on purpose
	segments []pattern.Segment

	kernels *pattern.Kernels
	ring    []job.Message
	ringFor uint64 // the peer's address that ring was made for
	recvs   []verbs.ReceiveRequest
	unpacks []job.Work
}

// newLayouts is the workload of a plan that has a point.
func newLayouts(p *plan.Settled, planted time.Duration) *layouts {
	w := &layouts{Point: p.Point(), plan: p, planted: planted}
	if w.Strategy.Cut == plan.Segments {
		w.segments = w.Layout.Segments(w.Load.SegmentBytes)
	}
	return w
}

func (w *layouts) lane(e *Endpoint, _, q int, peer control.Address) (job.Lane, error) {
	if w.kernels == nil {
		w.kernels = pattern.NewKernels(pattern.KernelOptions{
			Footprint: int64(w.Places * w.Pitch), PackedFootprint: int64(w.Window * w.SlotBytes),
		})
		e.closers.add(w.kernels)
	}
	var lane job.Lane
	if w.plan.Sends() {
		if w.ring == nil || w.ringFor != peer.Addr {
			ring := make([]job.Message, w.Places)
			for k := range ring {
				var err error
				if ring[k], err = w.message(e, uint64(k), peer); err != nil {
					return lane, err
				}
				if w.planted > 0 {
					ring[k].Steps[0].Pack = delayed(w.planted, ring[k].Steps[0].Pack)
				}
			}
			w.ring, w.ringFor = ring, peer.Addr
		}
		lane.Ring = w.ring
	}
	if w.plan.Receives() {
		if w.recvs == nil {
			if err := w.makeReceives(e); err != nil {
				return lane, err
			}
		}
		lane.Receives, lane.Unpack = w.recvs, w.unpacks
	}
	return lane, nil
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

func (w *layouts) message(e *Endpoint, k uint64, peer control.Address) (job.Message, error) {
	mem, base, lkey := e.sendSlot(0), e.sendAddr(0), e.lkey(0)
	place, slot := w.PlaceAt(k), w.SendSlotAt(k)
	row := w.plan.Row()
	m := job.Message{Bytes: uint64(w.Layout.Size())}
	request := func(entries []verbs.SGE, at int64) verbs.SendRequest {
		r := verbs.SendRequest{Opcode: row.Opcode, SGEs: entries}
		switch {
		case row.Addressed():
			r.RemoteAddr, r.RKey = peer.Addr+uint64(w.remoteAt(k))+uint64(at), peer.RKey
		case len(e.handles) > 0:
			r.AH, r.RemoteQPN, r.RemoteQKey = e.handles[0], peer.QPN, e.qkey
		}
		return r
	}
	whole := verbs.SGE{Addr: base + uint64(slot), Length: uint32(w.Layout.Size()), LKey: lkey}
	if w.Strategy.Cut == plan.Segments {
		for _, s := range w.segments {
			work, err := w.kernels.Pack(s.Layout, mem[place:], mem[slot+int(s.Packed):])
			if err != nil {
				return m, err
			}
			entry := verbs.SGE{Addr: whole.Addr + uint64(s.Packed), Length: uint32(s.Layout.Size()), LKey: lkey}
			m.Steps = append(m.Steps, job.Step{Pack: work, Requests: []verbs.SendRequest{request([]verbs.SGE{entry}, s.Packed)}})
		}
		return m, nil
	}
	var step job.Step
	var err error
	if w.Strategy.Local == plan.Packed {
		step.Requests = []verbs.SendRequest{request([]verbs.SGE{whole}, 0)}
		if w.Strategy.Pack {
			if step.Pack, err = w.kernels.Pack(w.Layout, mem[place:], mem[slot:]); err != nil {
				return m, err
			}
		}
		if w.Strategy.Unpack && row.Fetches() {
			if m.Done, err = w.kernels.Unpack(w.Layout, mem[place:], mem[slot:]); err != nil {
				return m, err
			}
		}
	} else {
		step.Requests, err = w.stridedRequests(base+uint64(place), lkey, request)
	}
	m.Steps = []job.Step{step}
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
func (w *layouts) stridedRequests(addr uint64, lkey uint32, request func([]verbs.SGE, int64) verbs.SendRequest) ([]verbs.SendRequest, error) {
	entries := w.Layout.AppendSGEs(make([]verbs.SGE, 0, w.Layout.Blocks()), addr, lkey)
	within := pattern.ListLimits{Entries: 1}
	if w.Strategy.Cut == plan.Lists {
		within = w.Load.Lists
	}
	parts, err := pattern.SplitSGEs(entries, within)
	if err != nil {
		return nil, err
	}
	out := make([]verbs.SendRequest, 0, len(parts))
	at := int64(0)
	for _, part := range parts {
		remote := at
		if w.Strategy.Remote == plan.Strided { // one block a request: at its own offset
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

// check looks at every byte of the destination: each place holds the blocks of some message, whole, or is untouched, and all
// else is still the gap pattern. It returns how many places hold a whole message;
func (w *layouts) check(e *Endpoint, _ int, seed uint64, moved []movement) (whole uint64, err error) {
	if w.isSource() {
		return 0, nil
	}
	c := w.newChecker(w.dataOf(e), payload.Seed(seed, 0, true))
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
	reliable := w.plan.Spec().Transport == verbs.RC
	want := min(w.expected(moved[0].sent, moved[0].received), c.places)
	if reliable && touched < want {
		return whole, fmt.Errorf("%w: %s filled %d places, want %d", payload.ErrCorrupt, w.Strategy.Name, touched, want)
	}
	if !reliable && touched == 0 && want > 0 && w.plan.Receives() {
		return whole, &payload.NothingError{Sent: moved[0].sent}
	}
	return whole, nil
}

// expected is how many messages must have arrived; a one-sided target knows only that there was one.
func (w *layouts) expected(sent, received uint64) uint64 {
	switch {
	case !w.plan.Row().Addressed():
		return received / w.plan.ReceivesPerMessage()
	case sent > 1<<62:
		return 1
	default:
		return sent
	}
}

// Is matches [payload.ErrCorrupt].
func (*GapError) Is(target error) bool { return target == payload.ErrCorrupt }
