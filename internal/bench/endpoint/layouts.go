package endpoint

import (
	"math"
	"slices"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// layouts is the workload of the non-contiguous experiment, of one point: one layout or list, one strategy. Where its
// messages lie is the plan's to say.
type layouts struct {
	*plan.Point
	kernels *pattern.Kernels
	lanes   map[int]job.Lane // by queue pair, once for all rounds: kernels made them
}

// portion is a part of a message that is packed or unpacked at once: a part of the layout, and where it begins in the
// packed message, and in the data of the other end.
type portion struct {
	layout pattern.Layout
	packed int
	other  int64
}

func (w *layouts) lane(e *Endpoint, _ int, qp *pair) (job.Lane, error) {
	if lane, made := w.lanes[qp.number]; made {
		return lane, nil
	}
	if w.kernels == nil {
		near := w.Near
		w.kernels = pattern.NewKernels(pattern.KernelOptions{
			Footprint: int64(near.Place.Places * near.Place.Stride), PackedFootprint: int64(w.Window * near.Slot.Stride),
		})
		e.onClose(w.kernels.Close)
		w.lanes = map[int]job.Lane{}
	}
	var lane job.Lane
	var err error
	if w.Listed() {
		lane.Group, lane.Groups = w.Messages, w.InFlight
	}
	if e.plan.Sends() {
		lane.Ring, err = w.messages(e, qp)
	}
	if err == nil && e.plan.Receives() {
		err = w.receives(e, qp, &lane)
	}
	w.lanes[qp.number] = lane
	return lane, err
}

// messages are those of as many layouts or lists as have places and slots of their own.
func (w *layouts) messages(e *Endpoint, qp *pair) ([]job.Message, error) {
	share := w.Share(qp.number)
	build := w.direct(e, qp, &share)
	if w.Staged() {
		build = w.staged(e, qp, &share)
	}
	ring := make([]job.Message, w.Ring(w.Near.Place.Places, w.Window)*w.Messages)
	slot := w.slots(len(ring), w.Window, w.Near.Slot, qp)
	for k := range ring {
		list := uint64(k / w.Messages)
		near := ground{w.Near.Place.At(list), slot(k)}
		far := w.Far.Place.At(list)
		if !w.FarStrided() {
			far = w.Far.Slot.At(uint64(k))
		}
		if !w.Listed() && w.Strategy.Bound {
			near.place = near.slot
		}
		var err error
		if ring[k], err = build(k%w.Messages, near, uint64(far)); err != nil {
			return nil, err
		}
	}
	return ring, nil
}

// ground is where a message lies at this end: place has its data, slot its packed form.
type ground struct{ place, slot int }

// slots returns where the slot of each ring entry begins. All queue pairs share the slots of a layout; of a list each
// queue pair has slots of its own.
func (w *layouts) slots(n, differ int, at plan.Steps, qp *pair) func(k int) int {
	if !w.Listed() {
		return func(k int) int { return at.At(uint64(k)) }
	}
	slot, slots := plan.Apart(n, differ)
	return func(k int) int { return at.Start + (qp.number*slots+slot(k))*at.Stride }
}

// direct makes messages whose requests name the data itself, at both ends.
func (w *layouts) direct(e *Endpoint, qp *pair, share *pattern.Transfer) func(k int, near ground,
	far uint64) (job.Message, error) {
	requests := share.Count(w.Load.Cut, math.MaxInt).Requests
	var walk pattern.Planner
	var entries []pattern.Piece
	return func(k int, near ground, far uint64) (m job.Message, _ error) {
		if k == 0 { // messages come in order
			walk = share.Plan(w.Load.Cut)
		}
		n := (k+1)*requests/w.Messages - k*requests/w.Messages
		step := job.Step{Requests: make([]verbs.SendRequest, n)}
		for i := range step.Requests {
			entries = walk.Next(entries[:0], w.Load.Cut.Bytes)
			list := make([]verbs.SGE, len(entries))
			for n, piece := range entries {
				list[n] = verbs.SGE{
					Addr: qp.send.addr + uint64(near.place) + uint64(piece.Local), Length: uint32(piece.Length),
					LKey: qp.region.LKey(),
				}
				m.Bytes += uint64(piece.Length)
			}
			step.Requests[i] = e.request(qp, list, far+uint64(entries[0].Remote))
		}
		m.Steps = []job.Step{step}
		return m, nil
	}
}

// staged makes messages that are packed before they leave, or fetched and then unpacked.
func (w *layouts) staged(e *Endpoint, qp *pair, share *pattern.Transfer) func(k int, near ground,
	far uint64) (job.Message, error) {
	messages := w.portions(share)
	return func(k int, near ground, far uint64) (m job.Message, err error) {
		mem := qp.send.bytes
		for _, p := range messages[k] {
			size := p.layout.Size()
			m.Bytes += uint64(size)
			slot := near.slot + p.packed
			entry := verbs.SGE{Addr: qp.send.addr + uint64(slot), Length: uint32(size), LKey: qp.region.LKey()}
			step := job.Step{Requests: []verbs.SendRequest{e.request(qp, []verbs.SGE{entry}, far+uint64(p.other))}}
			if w.Strategy.Pack {
				step.Pack, err = w.kernels.Pack(p.layout, mem[near.place:], mem[slot:])
			} else {
				m.Done, err = w.kernels.Unpack(p.layout, mem[near.place:], mem[slot:])
			}
			if err != nil {
				return m, err
			}
			m.Steps = append(m.Steps, step)
		}
		return m, nil
	}
}

// portions returns the portions of each message, for the end whose data is the local side.
func (w *layouts) portions(share *pattern.Transfer) [][]portion {
	t := *share
	switch {
	case w.Strategy.Cut != plan.Segments:
		return [][]portion{{{t.Local, 0, 0}}}
	case !w.Listed():
		var out []portion
		for _, s := range t.Local.Segments(w.Load.SegmentBytes) {
			out = append(out, portion{s.Layout, int(s.Packed), s.Packed})
		}
		return [][]portion{out}
	}
	if w.Strategy.Remote == plan.Packed { // the other end packs or unpacks, too
		t.Remote = t.Local.Packed()
	}
	out := make([][]portion, w.Messages)
	walk, begin := t.Plan(pattern.Cut{Merge: true, Split: true}), int64(0)
	for k := range out {
		end := w.Segments(t.Local.Size(), k)
		entries := walk.Next(nil, end-begin)
		out[k] = []portion{{pattern.Scattered(entries), 0, entries[0].Remote}}
		begin = end
	}
	return out
}

// receives prepares the target's: one or more for each message, in the order of the SENDs.
func (w *layouts) receives(e *Endpoint, qp *pair, lane *job.Lane) error {
	share := w.Share(qp.number).Swapped()
	mem, depth := qp.recv.bytes, e.plan.Queues.RecvWRs
	var messages [][]portion
	if w.Strategy.Unpack {
		messages = w.portions(&share)
	}
	n := w.Ring(w.Near.Place.Places, depth) * w.Messages
	if w.Strategy.Bound {
		n = w.Far.Slot.Places
	}
	slot := w.slots(n, depth, w.Far.Slot, qp)
	for k := range n {
		place := w.Far.Place.At(uint64(k / w.Messages))
		if w.Strategy.Remote == plan.Strided {
			lane.Receives = append(lane.Receives, w.scattered(e, qp, &share, place, slot(k))...)
			continue
		}
		size := int(share.Local.Size())
		if messages != nil {
			p := messages[k%w.Messages][0]
			size = int(p.layout.Size())
			work, err := w.kernels.Unpack(p.layout, mem[place:], mem[slot(k):])
			if err != nil {
				return err
			}
			lane.Unpack = append(lane.Unpack, work)
		}
		lane.Receives = append(lane.Receives, e.receive(qp, slot(k), size))
	}
	return nil
}

// scattered are the receives of one message into the blocks of a place. A datagram's header goes before its slot.
func (w *layouts) scattered(e *Endpoint, qp *pair, share *pattern.Transfer,
	place, slot int,
) (out []verbs.ReceiveRequest) {
	var header []verbs.SGE
	if e.spec.Transport == verbs.UD {
		header = e.receive(qp, slot, 0).SGEs
	}
	for entries := range share.Requests(w.Load.Cut) {
		list := slices.Clone(header)
		for _, piece := range entries {
			list = append(list, verbs.SGE{
				Addr: qp.recv.addr + uint64(place) + uint64(piece.Local), Length: uint32(piece.Length), LKey: qp.region.LKey(),
			})
		}
		out = append(out, verbs.ReceiveRequest{SGEs: list})
	}
	return out
}

// data returns how the blocks of one layout or list lie at the initiator or at the target, and where each begins.
func (w *layouts) data(initiator bool) (l *pattern.Layout, at plan.Steps) { //nolint:revive // which end
	switch {
	case initiator && !w.Listed() && w.Strategy.Bound:
		return &w.Transfer.Local, w.Near.Slot
	case initiator:
		return &w.Transfer.Local, w.Near.Place
	case w.FarStrided():
		return &w.Transfer.Remote, w.Far.Place
	default:
		return &w.Transfer.Remote, w.Far.Slot
	}
}

func (w *layouts) source(e *Endpoint, _ int) image {
	l, at := w.data(!e.plan.Row.Fetches())
	return image{at.At, *l, uint64(at.Places)}
}

// destination is every byte of where the data arrives: each place holds the blocks of
// some message, whole, or is untouched.
func (w *layouts) destination(e *Endpoint, size int, qp *pair) destination {
	from := w.source(e, size)
	l, at := w.data(e.plan.Row.Fetches())
	to := destination{
		image: image{at.At, *l, from.contents}, mixed: true, holes: e.sparse, high: uint64(at.Places), from: &from.layout,
	}
	if to.pitch = at.Stride; at.Start > 0 { // a slot: the lead of the next takes the UD header
		to.pitch -= plan.SlotLead
	}
	moved := qp.moved
	lists := moved.sent / uint64(w.Messages)
	switch received := moved.received / e.plan.ReceivesPerMessage() / uint64(w.Messages); {
	case !e.plan.Row.Addressed():
		to.must = min(received, to.high)
		if e.spec.Transport != verbs.RC { // messages may be lost; what a receive has told of has reached some place
			to.must = min(to.must, 1)
		}
	case e.spec.Transport != verbs.RC:
	case moved.sent > 1<<62: // a one-sided target knows only that there was one
		to.must = 1
	default:
		to.must = min(lists, to.high)
	}
	return to
}
