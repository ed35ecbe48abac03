package roce

import (
	"sync/atomic"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
)

// readQueue holds the latest READs and atomics of a peer: those still to be answered, and those that may have to be
// answered again. It is a ring of max_dest_rd_atomic places, rounded up to a power of two as rxe does (IBTA 9.7.5.1).
type readQueue struct {
	ring       []readWork
	mask       uint32
	head, tail uint32 // head: the oldest with packets to send
	fresh      uint32 // the oldest that has not been answered even once
}

// readWork is a READ or an atomic of the peer.
type readWork struct {
	psn, packets uint32
	sent         uint32 // response packets sent
	addr         uint64
	rkey         uint32
	length       uint32
	atomic       bool
	original     uint64
}

func newReadQueue(depth uint8) readQueue {
	if depth == 0 {
		return readQueue{}
	}
	n := ringSize(int(depth))
	return readQueue{ring: make([]readWork, n), mask: n - 1}
}

func (r *readQueue) empty() bool { return r.head == r.tail }

// add takes a place for a request; false where the peer has more outstanding than was agreed.
func (r *readQueue) add(w readWork) bool {
	if len(r.ring) == 0 || r.tail-r.fresh > r.mask {
		return false
	}
	if r.tail-r.head > r.mask { // repeats that nobody waits for any more
		r.head++
	}
	r.ring[r.tail&r.mask] = w
	r.tail++
	return true
}

// passed moves on from a request that was answered.
func (r *readQueue) passed() {
	r.head++
	if int32(r.head-r.fresh) > 0 {
		r.fresh = r.head
	}
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

// repeat answers request i again, from its packet k on.
func (r *readQueue) repeat(i, k uint32) {
	w := &r.ring[i&r.mask]
	w.sent = min(w.sent, k)
	if int32(i-r.head) < 0 {
		r.head = i
	}
}

func (q *queuePair) onReadRequest(p *wire.Packet, psn uint32) {
	r := &q.respond
	h := p.RETH()
	switch {
	case q.attr.Access&verbs.AccessRemoteRead == 0, h.Length > maxMessage, len(r.reads.ring) == 0, len(p.Payload) != 0:
		q.refuse(wire.NAKInvalidRequest, psn, verbs.RemoteInvalidReqErr)
		return
	case h.Length > 0 && q.e.remote(q, h.Addr, uint64(h.Length), h.RKey, verbs.AccessRemoteRead) == nil:
		q.refuse(wire.NAKRemoteAccessError, psn, verbs.LocalAccessError)
		return
	}
	packets := q.packetsOf(h.Length)
	if !r.reads.add(readWork{psn: psn, packets: packets, addr: h.Addr, rkey: h.RKey, length: h.Length}) {
		q.refuse(wire.NAKInvalidRequest, psn, verbs.RemoteInvalidReqErr)
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
		q.refuse(wire.NAKInvalidRequest, psn, verbs.RemoteInvalidReqErr)
		return
	}
	at := q.e.remote(q, h.Addr, 8, h.RKey, verbs.AccessRemoteAtomic)
	if at == nil {
		q.refuse(wire.NAKRemoteAccessError, psn, verbs.LocalAccessError)
		return
	}
	if uintptr(at)&7 != 0 {
		q.refuse(wire.NAKInvalidRequest, psn, verbs.RemoteInvalidReqErr)
		return
	}
	if !r.reads.add(readWork{psn: psn, packets: 1, atomic: true}) {
		q.refuse(wire.NAKInvalidRequest, psn, verbs.RemoteInvalidReqErr)
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
	q.respond.reads.repeat(i, (psn-w.psn)&wire.Mask24)
	q.owesReads()
}

// repeatAtomic returns the saved result of an atomic, which is never executed again.
func (q *queuePair) repeatAtomic(psn uint32) {
	i, w := q.respond.reads.find(psn)
	if w == nil || !w.atomic {
		return
	}
	q.respond.reads.repeat(i, 0)
	q.owesReads()
}

// owesReads puts the queue pair in line for sending responses.
func (q *queuePair) owesReads() {
	q.path.responses.push(q)
	q.e.makeBusy(q.path)
}

// sendResponses sends up to quantum packets of READ and atomic responses and returns how many.
func (q *queuePair) sendResponses(quantum int) int {
	e, r := q.e, &q.respond
	sent := 0
	for !r.reads.empty() && sent < quantum {
		w := &r.reads.ring[r.reads.head&r.reads.mask]
		if w.sent == w.packets {
			r.reads.passed()
			continue
		}
		if w.atomic {
			q.respondAtomic(w)
		} else if !q.respondRead(w) {
			r.reads.head, r.reads.fresh = r.reads.tail, r.reads.tail
			q.refuse(wire.NAKRemoteAccessError, (w.psn+w.sent)&wire.Mask24, verbs.LocalAccessError)
			return sent
		}
		w.sent++
		sent++
		if w.sent == w.packets {
			r.reads.passed()
			if r.ackDue && r.syndrome == wire.SyndromeAck && wire.PSNDiff(w.psn, r.ackable) > 0 {
				r.ackDue = false // the response acknowledges it
			}
		}
	}
	if r.reads.empty() && r.ackDue {
		e.flushAcks()
	}
	return sent
}

func (q *queuePair) respondAtomic(w *readWork) {
	e := q.e
	total := wire.RCAtomicAcknowledge.HeaderBytes() + wire.ICRCBytes
	t := &e.train
	if !t.fits(q.path, total) {
		e.flush()
	}
	h := t.open(q.path, total, total-wire.ICRCBytes)
	wire.PutBTH(h, wire.RCAtomicAcknowledge, 0, q.attr.DestQPN, w.psn)
	wire.PutAETH(h[wire.BTHBytes:], wire.SyndromeAck, q.respond.msn)
	eth := h[wire.BTHBytes+wire.AETHBytes:]
	putUint32(eth, uint32(w.original>>32))
	putUint32(eth[4:], uint32(w.original))
	t.close(0)
}

func (q *queuePair) respondRead(w *readWork) bool {
	e := q.e
	offset := w.sent * q.mtu
	n := int(min(q.mtu, w.length-offset))
	var at unsafe.Pointer
	if n > 0 {
		if at = e.remote(q, w.addr+uint64(offset), uint64(n), w.rkey, verbs.AccessRemoteRead); at == nil {
			return false
		}
	}
	code := wire.RCReadResponseMiddle
	switch {
	case w.packets == 1:
		code = wire.RCReadResponseOnly
	case w.sent == 0:
		code = wire.RCReadResponseFirst
	case w.sent+1 == w.packets:
		code = wire.RCReadResponseLast
	}
	headers := code.HeaderBytes()
	pad := wire.PadBytes(n)
	total := headers + n + pad + wire.ICRCBytes
	t := &e.train
	if !t.fits(q.path, total) {
		e.flush()
	}
	h := t.open(q.path, total, headers)
	wire.PutBTH(h, code, wire.PadFlag(n), q.attr.DestQPN, (w.psn+w.sent)&wire.Mask24)
	if headers > wire.BTHBytes {
		wire.PutAETH(h[wire.BTHBytes:], wire.SyndromeAck, q.respond.msn)
	}
	if n > 0 {
		t.payload(at, n)
	}
	t.close(pad)
	return true
}
