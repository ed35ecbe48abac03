package roce

import (
	"sync/atomic"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
)

// readQueue holds the latest READs and atomics of a peer, which may have to be answered again, and the answers that are due, in
// the order in which they were asked for. It is a ring of max_dest_rd_atomic places, rounded up to a power of two as rxe
// does (IBTA 9.7.5.1).
type readQueue struct {
	ring []readWork
	mask uint32
	tail uint32 // of ring

	due        []dueAnswer // a ring of twice as many: each may be due, and due again
	first, end uint32      // of due
	fresh      uint32      // of those due: answers to what was asked for the first time
}

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
	again     bool
}

func newReadQueue(depth uint8) readQueue {
	if depth == 0 {
		return readQueue{}
	}
	n := ringSize(int(depth))
	return readQueue{ring: make([]readWork, n), mask: n - 1, due: make([]dueAnswer, 2*n)}
}

func (r *readQueue) empty() bool { return r.first == r.end }

func (r *readQueue) push(a dueAnswer) {
	r.due[r.end%uint32(len(r.due))] = a
	r.end++
}

// head is the answer that is due first, and its request. What nobody can be waiting for any more is left out.
func (r *readQueue) head() (*dueAnswer, *readWork) {
	for !r.empty() {
		a := &r.due[r.first%uint32(len(r.due))]
		if a.sent < a.end && r.tail-a.work <= uint32(len(r.ring)) {
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

// add takes a place for a request; false where the peer has more outstanding than was agreed.
func (r *readQueue) add(w readWork) bool {
	if r.fresh >= uint32(len(r.ring)) {
		return false
	}
	r.ring[r.tail&r.mask] = w
	r.push(dueAnswer{work: r.tail, end: w.packets})
	r.tail++
	r.fresh++
	return true
}

// find looks for the request that a PSN belongs to, among those still remembered.
func (r *readQueue) find(psn uint32) (uint32, *readWork) {
	kept := min(r.tail, uint32(len(r.ring)))
	for n := uint32(1); n <= kept; n++ {
		i := r.tail - n
		w := &r.ring[i&r.mask]
		if wire.PSNDiff(psn, w.psn) >= 0 && wire.PSNDiff(psn, w.psn+w.packets) < 0 {
			return i, w
		}
	}
	return 0, nil
}

// repeat answers packets from to end of request i again, behind what is due already. What is due in any case is not made
// due twice: old requests that somebody replays take no more than a share of the answers.
func (r *readQueue) repeat(i, from, end uint32) {
	again := uint32(0)
	for k := r.first; k != r.end; k++ {
		a := &r.due[k%uint32(len(r.due))]
		if a.work == i && from >= a.sent && end <= a.end {
			return
		}
		if a.again {
			again++
		}
	}
	if again < uint32(len(r.ring)) {
		r.push(dueAnswer{work: i, sent: from, end: end, again: true})
	}
}

func (q *queuePair) onReadRequest(p *wire.Packet, psn uint32) {
	r := &q.respond
	h := p.RETH()
	switch {
	case q.attr.Access&verbs.AccessRemoteRead == 0, h.Length > maxMessage, len(r.reads.ring) == 0, len(p.Payload) != 0:
		q.refuse(wire.NAKInvalidRequest, psn, verbs.RemoteInvalidRequestError)
		return
	case h.Length > 0 && q.e.remote(q, h.Addr, uint64(h.Length), h.RKey, verbs.AccessRemoteRead) == nil:
		q.refuse(wire.NAKRemoteAccessError, psn, verbs.LocalAccessError)
		return
	}
	packets := q.packetsOf(h.Length)
	if !r.reads.add(readWork{psn: psn, packets: packets, addr: h.Addr, rkey: h.RKey, length: h.Length}) {
		q.refuse(wire.NAKInvalidRequest, psn, verbs.RemoteInvalidRequestError)
		return
	}
	r.arrived()
	r.expected = (psn + packets) & wire.Mask24
	r.msn++
	q.owesReads()
}

func (q *queuePair) onAtomicRequest(p *wire.Packet, psn uint32) {
	r := &q.respond
	h := p.AtomicETH()
	if q.attr.Access&verbs.AccessRemoteAtomic == 0 || len(r.reads.ring) == 0 || h.Addr&7 != 0 || len(p.Payload) != 0 {
		q.refuse(wire.NAKInvalidRequest, psn, verbs.RemoteInvalidRequestError)
		return
	}
	at := q.e.remote(q, h.Addr, 8, h.RKey, verbs.AccessRemoteAtomic)
	if at == nil {
		q.refuse(wire.NAKRemoteAccessError, psn, verbs.LocalAccessError)
		return
	}
	if uintptr(at)&7 != 0 {
		q.refuse(wire.NAKInvalidRequest, psn, verbs.RemoteInvalidRequestError)
		return
	}
	if !r.reads.add(readWork{psn: psn, packets: 1, atomic: true}) {
		q.refuse(wire.NAKInvalidRequest, psn, verbs.RemoteInvalidRequestError)
		return
	}
	w := &r.reads.ring[(r.reads.tail-1)&r.reads.mask]
	w.original = execute(at, p.Opcode, h)
	r.arrived()
	r.expected = (psn + 1) & wire.Mask24
	r.msn++
	q.owesReads()
}

// execute performs an atomic on host memory, atomically towards this machine's processors too.
func execute(at unsafe.Pointer, o wire.Opcode, h wire.AtomicETH) uint64 {
	word := (*uint64)(at)
	if o == wire.RCFetchAdd {
		return atomic.AddUint64(word, h.SwapAdd) - h.SwapAdd
	}
	for {
		old := atomic.LoadUint64(word)
		if old != h.Compare || atomic.CompareAndSwapUint64(word, old, h.SwapAdd) {
			return old
		}
	}
}

// repeatRead answers a READ again, perhaps its tail.
func (q *queuePair) repeatRead(p *wire.Packet, psn uint32) {
	i, w := q.respond.reads.find(psn)
	if w == nil || w.atomic {
		return
	}
	h := p.RETH()
	if h.Length > 0 && q.e.remote(q, h.Addr, uint64(h.Length), h.RKey, verbs.AccessRemoteRead) == nil {
		return
	}
	k := (psn - w.psn) & wire.Mask24
	q.respond.reads.repeat(i, k, min(k+q.packetsOf(h.Length), w.packets))
	q.owesReads()
}

// repeatAtomic returns the saved result of an atomic, which is never executed again.
func (q *queuePair) repeatAtomic(psn uint32) {
	i, w := q.respond.reads.find(psn)
	if w == nil || !w.atomic {
		return
	}
	q.respond.reads.repeat(i, 0, 1)
	q.owesReads()
}

// owesReads puts the queue pair in line for sending responses.
func (q *queuePair) owesReads() {
	q.path.responses.push(q)
	q.e.makeBusy(q.path)
}

// sendResponses sends up to quantum packets of READ and atomic responses and returns how many.
func (q *queuePair) sendResponses(quantum int) int {
	r := &q.respond
	sent := 0
	for sent < quantum {
		a, w := r.reads.head()
		if a == nil {
			break
		}
		if w.atomic {
			q.respondAtomic(w)
		} else if !q.respondRead(w, a) {
			psn := (w.psn + a.sent) & wire.Mask24
			r.reads.first, r.reads.fresh = r.reads.end, 0
			q.refuse(wire.NAKRemoteAccessError, psn, verbs.LocalAccessError)
			return sent
		}
		a.sent++
		sent++
		if a.sent == a.end {
			r.reads.passed(a)
			if r.ackDue && r.syndrome == wire.SyndromeAck && wire.PSNDiff(w.psn, r.ackable) > 0 {
				r.ackDue = false // the response acknowledges it
			}
		}
	}
	if r.ackDue && q.mayAcknowledge() {
		q.e.flushAcks()
	}
	return sent
}

func (q *queuePair) respondAtomic(w *readWork) {
	h := q.e.open(q.path, wire.RCAtomicAcknowledge, 0, q.attr.DestQPN, w.psn, 0)
	wire.PutAETH(h, wire.SyndromeAck, q.respond.msn)
	putUint32(h[wire.AETHBytes:], uint32(w.original>>32))
	putUint32(h[wire.AETHBytes+4:], uint32(w.original))
	q.e.batch.close()
}

// respondRead sends the next packet of an answer. A part of a READ ends with LAST; only the whole starts with FIRST.
func (q *queuePair) respondRead(w *readWork, a *dueAnswer) bool {
	e := q.e
	offset := a.sent * q.mtu
	n := int(min(q.mtu, w.length-offset))
	var at unsafe.Pointer
	if n > 0 {
		if at = e.remote(q, w.addr+uint64(offset), uint64(n), w.rkey, verbs.AccessRemoteRead); at == nil {
			return false
		}
	}
	code := wire.RCReadResponseMiddle
	switch {
	case a.sent == 0 && a.end == 1:
		code = wire.RCReadResponseOnly
	case a.sent == 0:
		code = wire.RCReadResponseFirst
	case a.sent+1 == a.end:
		code = wire.RCReadResponseLast
	}
	h := e.open(q.path, code, 0, q.attr.DestQPN, (w.psn+a.sent)&wire.Mask24, n)
	if len(h) > 0 {
		wire.PutAETH(h, wire.SyndromeAck, q.respond.msn)
	}
	if n > 0 {
		e.batch.payload(at, n)
	}
	e.batch.close()
	return true
}
