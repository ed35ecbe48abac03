package rc

import (
	"slices"

	"github.com/gobw/gobw/verbs/roce/wire"
)

// span is a range of PSNs, without its end.
type span struct {
	from, to uint32
	probe    bool // nothing says that it was lost
}

// mostMends bounds what one look at the gaps asks for: each takes a packet.
const mostMends = 64

// arrivals remembers which answers to READs and atomics have arrived behind one that is missing.
type arrivals struct {
	bits []uint64 // by PSN, for keptPSNs from una on
	kept int      // bits set
	edge uint32   // everything before it has arrived, or was missed and asked for again
	// Peers answer in the order in which they are asked. Once mark is answered, PSNs before
	// markEdge that are missing were lost twice.
	marked         bool
	mark, markEdge uint32
	mends          []span // to be sent again out of turn
}

// keptPSNs is how far behind a missing answer others are kept.
const keptPSNs = 1 << 15

func (a *arrivals) has(psn uint32) bool {
	psn &= wire.Mask24
	return a.kept > 0 && a.bits[psn%keptPSNs/64]>>(psn%64)&1 != 0
}

func (a *arrivals) keep(psn uint32) {
	if a.bits == nil {
		a.bits = make([]uint64, keptPSNs/64)
	}
	a.kept++
	a.bits[psn%keptPSNs/64] |= 1 << (psn % 64)
}

func (a *arrivals) take(psn uint32) bool {
	if !a.has(psn) {
		return false
	}
	a.kept--
	a.bits[psn%keptPSNs/64] &^= 1 << (psn % 64)
	return true
}

// expect notes that answers to what was asked before to should be here. Those that are not are asked for again, once;
// it reports whether there are any. Only devices like ours are known to answer parts of a READ.
func (r *Requester) expect(to uint32) bool {
	from := r.edge
	if wire.PSNDiff(from, r.una) < 0 {
		from = r.una
	}
	if wire.PSNDiff(to, from) <= 0 {
		return false
	}
	r.edge = to
	lost := false
	for i := r.Done; i != r.next; i++ {
		w := r.At(i)
		if !w.IsResponded() || wire.PSNDiff(from, w.end()) >= 0 {
			continue
		}
		if wire.PSNDiff(to, w.PSN) <= 0 {
			break
		}
		psn, end := w.PSN, w.end()
		if wire.PSNDiff(from, psn) > 0 {
			psn = from
		}
		if wire.PSNDiff(to, end) < 0 {
			end = to
		}
		for psn != end {
			from := psn
			for psn != end && !r.has(psn) {
				psn = (psn + 1) & wire.Mask24
			}
			if psn == from {
				psn = (psn + 1) & wire.Mask24
				continue
			}
			lost = true
			if len(r.mends) == mostMends { // the others are asked for with the next look
				r.edge = from
				r.setMark()
				return true
			}
			r.sendAgain(span{from: from, to: psn})
		}
	}
	if lost {
		r.setMark()
	}
	return lost
}

func (r *Requester) setMark() {
	if !r.marked {
		r.marked, r.mark, r.markEdge = true, r.nxt, r.edge
	}
}

// askAgain asks a third time for what was lost twice.
func (r *Requester) askAgain() {
	r.marked = false
	edge, to := r.edge, r.markEdge
	if wire.PSNDiff(to, r.una) > 0 {
		r.edge = r.una
		r.expect(to)
		r.edge = edge
	}
	if wire.PSNDiff(edge, r.una) > 0 { // something is missing still
		r.marked = false
		r.setMark()
	}
}

// sendAgain has a span sent again, out of turn, or everything where so much is lost.
func (r *Requester) sendAgain(x span) {
	if wire.PSNDiff(x.from, r.nxt) >= 0 {
		return // will be sent anyway
	}
	if wire.PSNDiff(x.from, r.samplePSN) <= 0 && wire.PSNDiff(r.samplePSN, x.to) < 0 {
		r.unsample()
	}
	if len(r.mends) == mostMends {
		r.rewind(r.una)
		return
	}
	r.mends = append(r.mends, x)
}

// nextMend is the next packet that is sent out of turn.
func (r *Requester) nextMend() (p Packet) {
	for len(r.mends) > 0 {
		x := &r.mends[0]
		if wire.PSNDiff(x.from, r.una) < 0 {
			x.from = r.una
		}
		i, w := r.find(x.from)
		if w != nil && wire.PSNDiff(x.from, x.to) < 0 && wire.PSNDiff(x.from, r.nxt) < 0 {
			k := (x.from - w.PSN) & wire.Mask24
			p = Packet{Index: i, Work: w, K: k, End: k + 1, Asks: true, mends: true}
			if w.IsResponded() {
				p.End = min(w.packets, (x.to-w.PSN)&wire.Mask24)
			}
			return p
		}
		r.mends = slices.Delete(r.mends, 0, 1)
	}
	return p
}

// gapAllowance is how many bytes more may be in flight while a gap is mended. A peer that keeps
// packets behind the gap has most of what was sent, though it cannot acknowledge it. The allowance is
// at most a quarter of what the peer can keep.
func (r *Requester) gapAllowance(window int) int {
	if r.Keeps && r.nakAt != 0 && r.una == r.nak {
		return min(window, heldPSNs/4*int(r.MTU))
	}
	return 0
}
