package endpoint

import (
	"slices"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// layouts is the workload of the non-contiguous experiment, of one point: one layout, one strategy, one queue pair. Where its messages
// lie is the plan's to say.
type layouts struct {
	*plan.Point
	segments []pattern.Segment // that are packed one after the other: the whole, but in a pipeline

	kernels *pattern.Kernels
	made    job.Lane // by the kernels, once for all rounds
}

func (w *layouts) lane(e *Endpoint, _ int, qp *pair) (_ job.Lane, err error) {
	if w.kernels != nil {
		return w.made, nil
	}
	w.kernels = pattern.NewKernels(pattern.KernelOptions{
		Footprint: int64(w.Place.Places * w.Place.Stride), PackedFootprint: int64(w.Window * w.SendSlot.Stride),
	})
	e.onClose(w.kernels.Close)
	if e.plan.Sends() {
		w.made.Ring = make([]job.Message, w.Place.Places)
	}
	for k := range w.made.Ring {
		if w.made.Ring[k], err = w.message(e, qp, uint64(k)); err != nil {
			return w.made, err
		}
	}
	if e.plan.Receives() {
		err = w.makeReceives(e, qp)
	}
	return w.made, err
}

func (w *layouts) message(e *Endpoint, qp *pair, k uint64) (m job.Message, err error) {
	mem, base, lkey := qp.send.bytes, qp.send.addr, qp.region.LKey()
	place, slot, remote := w.Place.At(k), w.SendSlot.At(k), uint64(w.remoteAt(k))
	m.Bytes = uint64(w.Layout.Size())
	if w.Strategy.Local != plan.Packed {
		requests, err := w.stridedRequests(e, qp, base+uint64(place), remote)
		m.Steps = []job.Step{{Requests: requests}}
		return m, err
	}
	for _, s := range w.segments {
		entry := verbs.SGE{Addr: base + uint64(slot) + uint64(s.Packed), Length: uint32(s.Layout.Size()), LKey: lkey}
		step := job.Step{Requests: []verbs.SendRequest{e.request(qp, []verbs.SGE{entry}, remote+uint64(s.Packed))}}
		if w.Strategy.Pack {
			if step.Pack, err = w.kernels.Pack(s.Layout, mem[place:], mem[slot+int(s.Packed):]); err != nil {
				return m, err
			}
		}
		m.Steps = append(m.Steps, step)
	}
	if w.Strategy.Unpack && e.plan.Row().Fetches() {
		m.Done, err = w.kernels.Unpack(w.Layout, mem[place:], mem[slot:])
	}
	return m, err
}

// remoteAt is where message k goes (or comes from) in the peer's receive buffer.
func (w *layouts) remoteAt(k uint64) int {
	if w.Strategy.Remote == plan.Strided {
		return w.Place.At(k)
	}
	return w.RecvSlot.At(k)
}

// stridedRequests cuts the entries of one layout into requests and gives each its part of the remote range.
func (w *layouts) stridedRequests(e *Endpoint, qp *pair, addr, remote uint64) ([]verbs.SendRequest, error) {
	entries := w.Layout.AppendSGEs(make([]verbs.SGE, 0, w.Layout.Blocks()), addr, qp.region.LKey())
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
		out = append(out, e.request(qp, part, remote+to))
		for i := range part {
			at += uint64(part[i].Length)
		}
	}
	return out, nil
}

// makeReceives prepares the target's receives: one or more per place, in the order of the SENDs.
func (w *layouts) makeReceives(e *Endpoint, qp *pair) error {
	base, mem, lkey := qp.recv.addr, qp.recv.bytes, qp.region.LKey()
	n := w.Place.Places
	if w.Strategy.Bound {
		n = w.RecvSlot.Places
	}
	for k := range uint64(n) {
		if w.Strategy.Remote == plan.Packed {
			w.made.Receives = append(w.made.Receives, e.receive(qp, w.RecvSlot.At(k), int(w.Layout.Size())))
			if w.Strategy.Unpack {
				work, err := w.kernels.Unpack(w.Layout, mem[w.Place.At(k):], mem[w.RecvSlot.At(k):])
				if err != nil {
					return err
				}
				w.made.Unpack = append(w.made.Unpack, work)
			}
			continue
		}
		var header []verbs.SGE
		if e.spec.Transport == verbs.UD {
			header = e.receive(qp, w.RecvSlot.At(k), 0).SGEs
		}
		parts, err := pattern.SplitSGEs(w.Layout.AppendSGEs(nil, base+uint64(w.Place.At(k)), lkey), w.Load.Lists)
		if err != nil {
			return err
		}
		for _, part := range parts {
			w.made.Receives = append(w.made.Receives, verbs.ReceiveRequest{SGEs: append(slices.Clip(header), part...)})
		}
	}
	return nil
}

func (w *layouts) source(e *Endpoint, _ int) image {
	switch packed := one(int(w.Layout.Size())); {
	case e.plan.Row().Fetches():
		return lying(w.RecvSlot, packed)
	case w.Strategy.Bound:
		return lying(w.SendSlot, packed)
	default:
		return lying(w.Place, w.Layout)
	}
}

// destination is every byte of where the data arrives: each place holds the blocks of some message, whole, or is untouched.
func (w *layouts) destination(e *Endpoint, size int, qp *pair) destination {
	to := destination{image: w.source(e, size), mixed: true, holes: e.sparse}
	at := w.RecvSlot
	to.layout, to.pitch = one(int(w.Layout.Size())), at.Stride-plan.SlotLead // the lead of the next slot takes the UD header
	switch {
	case w.Strategy.Shape != "gather" && !w.Strategy.Bound: // it ends in the blocks of places
		to.layout, to.pitch, at = w.Layout, w.Place.Stride, w.Place
	case e.plan.Row().Fetches():
		at = w.SendSlot
	}
	to.at, to.high = at.At, uint64(at.Places)
	switch moved := qp.moved; {
	case !e.plan.Row().Addressed():
		to.must = min(moved.received/e.plan.ReceivesPerMessage(), to.high)
		if e.spec.Transport != verbs.RC { // messages may be lost; what a receive has told of has reached some place
			to.must = min(to.must, 1)
		}
	case e.spec.Transport != verbs.RC:
	case moved.sent > 1<<62: // a one-sided target knows only that there was one
		to.must = 1
	default:
		to.must = min(moved.sent, to.high)
	}
	return to
}
