package rc

import "github.com/gobw/gobw/verbs/roce/wire"

// readQueue holds the latest READs and atomics of a peer, which may have to be answered again, and the answers that
// are due, in the order in which they were asked for. It is a ring of max_dest_rd_atomic places, rounded up to a
// power of two as rxe does (IBTA 9.7.5.1).
type readQueue struct {
	ring []readWork
	mask uint32
	tail uint32 // of ring

	due        []dueAnswer // a ring of twice as many: each may be due, and due again
	first, end uint32      // of due
	fresh      uint32      // of those due: answers to what was asked for the first time

	asked uint32 // the request that the peer repeated last
	back  place  // the farthest place from which on it repeated requests
	backs uint8  // how often it has since then
}

// place is a packet of an answer.
type place struct{ work, packet uint32 }

// readWork is a READ or an atomic of the peer.
type readWork struct {
	psn, packets uint32
	addr         uint64
	rkey         uint32
	length       uint32
	atomic       bool
	original     uint64
}

// dueAnswer is what is due for a request: its packets from sent to end.
type dueAnswer struct {
	work      uint32 // index in the ring
	sent, end uint32
	from      uint32 // where it began
	again     bool
	apart     bool     // a part is answered as a READ of its own
	probe     readWork // of a single packet that is asked for again; packets is 0 where it is none
}

func newReadQueue(depth uint8) readQueue {
	if depth == 0 {
		return readQueue{}
	}
	n := RingSize(int(depth))
	return readQueue{ring: make([]readWork, n), mask: n - 1, due: make([]dueAnswer, 2*n)}
}

// grown is the queue with more places: what is remembered and due stays.
func (r *readQueue) grown(depth uint8) readQueue {
	n := newReadQueue(depth)
	n.tail, n.first, n.end, n.fresh = r.tail, r.first, r.end, r.fresh
	for i := range uint32(len(r.ring)) {
		n.ring[(r.tail-i-1)&n.mask] = r.ring[(r.tail-i-1)&r.mask]
	}
	for i := r.first; i != r.end; i++ {
		n.due[i%uint32(len(n.due))] = r.due[i%uint32(len(r.due))]
	}
	return n
}

func (r *readQueue) empty() bool { return r.first == r.end }

func (r *readQueue) push(a dueAnswer) {
	r.due[r.end%uint32(len(r.due))] = a
	r.end++
}

// head returns the answer that is due first, and its request. It skips answers to requests that are forgotten: nobody
// waits for them. Answers to probes stay: the peer counts them, to know what was lost.
func (r *readQueue) head() (*dueAnswer, *readWork) {
	for !r.empty() {
		a := &r.due[r.first%uint32(len(r.due))]
		switch {
		case a.sent == a.end:
		case a.probe.packets > 0:
			return a, &a.probe
		case r.tail-a.work <= uint32(len(r.ring)):
			return a, &r.ring[a.work&r.mask]
		}
		r.passed(a)
	}
	return nil, nil
}

func (r *readQueue) passed(a *dueAnswer) {
	r.first++
	if !a.again {
		r.fresh--
	}
}

// add takes a place for a request; nil where the peer has more outstanding than was agreed.
func (r *readQueue) add(w readWork) *readWork {
	if r.fresh >= uint32(len(r.ring)) {
		return nil
	}
	a := &r.ring[r.tail&r.mask]
	*a = w
	r.push(dueAnswer{work: r.tail, end: w.packets})
	r.tail++
	r.fresh++
	return a
}

// find looks for the request that a PSN belongs to, among those still remembered.
func (r *readQueue) find(psn uint32) (uint32, *readWork) {
	for n := uint32(1); n <= uint32(len(r.ring)); n++ { // an empty place has no PSN
		i := r.tail - n
		w := &r.ring[i&r.mask]
		if wire.PSNDiff(psn, w.psn) >= 0 && wire.PSNDiff(psn, w.psn+w.packets) < 0 {
			return i, w
		}
	}
	return 0, nil
}

// repeat answers a part of request i again, behind what is due already. An answer that is due is not made due twice,
// and repeats have at most half of the places: a stranger that replays old requests cannot use up all answers.
func (r *readQueue) repeat(x dueAnswer) {
	again := uint32(0)
	for k := r.first; k != r.end; k++ {
		a := &r.due[k%uint32(len(r.due))]
		if a.work == x.work && x.from >= a.sent && x.end <= a.end && x.end-x.from > 1 {
			return
		}
		if a.again {
			again++
		}
	}
	if again >= uint32(len(r.ring)) {
		return
	}
	if x.end-x.from == 1 {
		x.probe = r.ring[x.work&r.mask]
	}
	r.push(x)
}

// isAhead compares places. All are ahead of one in an answer that is forgotten.
func (r *readQueue) isAhead(x, of place) bool {
	ahead := int32(x.work - of.work)
	return ahead > 0 || ahead == 0 && x.packet > of.packet || r.tail-of.work > uint32(len(r.ring))
}

// mostBacks is more than a peer has retries: who goes back more often to one place is a stranger that replays requests.
const mostBacks = 8

// goBack is repeat for a peer that keeps nothing behind a gap: it drops all other answers until this one comes. So the
// answer goes back, or before those to later requests, which start over. It reports whether it took a place there.
func (r *readQueue) goBack(x dueAnswer) bool {
	n, at := uint32(len(r.due)), r.first
	var due *dueAnswer
	for k := r.first; k != r.end; k++ {
		switch a := &r.due[k%n]; {
		case a.work == x.work && a.probe.packets == 0:
			due = a
		case int32(a.work-x.work) < 0:
			at = k + 1
		}
	}
	from, begins := place{x.work, x.from}, int32(x.work-r.asked) <= 0 // else it follows what was repeated just before
	r.asked = x.work
	if due != nil && x.from >= due.sent { // it will be answered
		due.end = max(due.end, x.end)
		return false
	}
	end := r.end
	switch {
	case !begins:
	case r.isAhead(from, r.back):
		r.back, r.backs = from, 0
	case r.backs == mostBacks:
		r.repeat(x)
		return false
	default:
		r.backs++
	}
	for k := r.first; k != end; k++ {
		if a := &r.due[k%n]; int32(a.work-x.work) > 0 && a.probe.packets == 0 {
			a.sent = a.from
		}
	}
	if due != nil {
		due.from, due.sent, due.end, due.apart = x.from, x.from, max(due.end, x.end), x.apart
		return false
	}
	if r.repeat(x); r.end == end {
		return false
	}
	for ; end != at; end-- {
		r.due[end%n] = r.due[(end-1)%n]
	}
	r.due[at%n] = x
	return true
}
