package roce

import (
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/rc"
	"github.com/gobw/gobw/verbs/roce/wire"
)

// A queue pair does here what its responder admits: it looks at memory, takes receives and completes them.

// incoming is the message being received.
type incoming struct {
	hasWork bool
	id      uint64
	list    []verbs.SGE // of the receive
	room    uint32      // left in the receive
	bytes   uint32      // received

	addr   uint64 // WRITE: where the next packet goes
	rkey   uint32
	left   uint32
	length uint32
}

// serves tells whether the state lets requests in.
func (q *queuePair) serves() bool {
	switch q.state {
	case verbs.StateRTR, verbs.StateRTS, verbs.StateSQD, verbs.StateSQE:
		return true
	case verbs.StateReset, verbs.StateInit, verbs.StateError:
	}
	return false
}

// onRequest handles a packet from the peer's requester, and those that waited for it.
func (q *queuePair) onRequest(p *wire.Packet) {
	r := &q.respond
	switch r.Admit(p) {
	case rc.Ignored:
	case rc.Repeated:
		if h := p.RETH(); p.Opcode.Class() != wire.ClassReadRequest || q.mayAccess(h, verbs.AccessRemoteRead) {
			r.Repeat(p)
		}
	case rc.Misplaced:
		q.refuse(verbs.RemoteInvalidRequestError, p.PSN())
	case rc.InTurn:
		switch status := q.execute(p); status {
		case verbs.Success:
			q.executeHeld()
		case verbs.RNRRetryExceeded:
			r.OweRNR(p.PSN(), q.attr.MinRNRTimer)
		default:
			if p.Opcode.Class() == wire.ClassWrite && p.Opcode.Has(wire.TakesReceive) && status == verbs.LocalAccessError {
				q.takeReceive() // it fails with the WRITE
			}
			q.refuse(status, p.PSN())
		}
	}
	q.oweAnswers()
}

// executeHeld executes what was kept and is next. What does not fit is dropped, and is no error: a stranger may have
// sent it. The peer is asked for its own.
func (q *queuePair) executeHeld() {
	r := &q.respond
	filled := false
	for r.HasHeld() && q.serves() {
		p, ok := r.NextHeld()
		if !ok {
			break
		}
		filled = true
		status := verbs.RemoteInvalidRequestError
		if r.Admit(&p) == rc.InTurn {
			status = q.execute(&p)
		}
		if status == verbs.RNRRetryExceeded {
			r.OweRNR(p.PSN(), q.attr.MinRNRTimer)
		}
		if status != verbs.Success {
			r.ReportGap()
			return
		}
	}
	if filled && r.HasHeld() {
		r.ReportGap() // the next one
	}
}

// execute does what a request asks for. Where it cannot, it returns how the receive that the request has taken
// completes, or, where no receive is posted, RNRRetryExceeded: the peer is to wait.
func (q *queuePair) execute(p *wire.Packet) verbs.Status {
	switch p.Opcode.Class() {
	case wire.ClassSend, wire.ClassWrite:
		if status := q.takePayload(p); status != verbs.Success {
			return status
		}
		q.respond.Executed(p)
		q.completeMessage(p)
	case wire.ClassReadRequest:
		return q.executeRead(p)
	case wire.ClassAtomic:
		return q.executeAtomic(p)
	default:
	}
	return verbs.Success
}

// onUnreliable handles a packet of a UC queue pair.
func (q *queuePair) onUnreliable(p *wire.Packet) {
	if !q.respond.AdmitUnreliable(p) {
		return
	}
	switch status := q.takePayload(p); status {
	case verbs.Success:
		q.respond.Received(p)
		q.completeMessage(p)
	case verbs.LocalLengthError, verbs.LocalProtectionError:
		q.failReceive(status)
		q.enterError()
	default:
		q.respond.Abandon()
	}
}

// takePayload takes the payload of a SEND or WRITE.
func (q *queuePair) takePayload(p *wire.Packet) verbs.Status {
	if p.Opcode.Class() == wire.ClassWrite {
		return q.takeWrite(p)
	}
	c := &q.current
	n := uint32(len(p.Payload))
	switch {
	case !q.respond.Sized(p.Opcode, n):
		return verbs.RemoteInvalidRequestError
	case p.Opcode.Has(wire.Begins) && !q.takeReceive():
		return verbs.RNRRetryExceeded
	case n > c.room:
		return verbs.LocalLengthError
	case !q.scatterAt(q.receiveDomain(), c.list, c.bytes, p.Payload):
		return verbs.LocalProtectionError
	case p.Opcode.Has(wire.HasIETH) && !q.invalidate(p.InvalidateRKey()):
		return verbs.MWBindError
	}
	c.filled(n)
	return verbs.Success
}

func (q *queuePair) takeWrite(p *wire.Packet) verbs.Status {
	c := &q.current
	n, ends := uint32(len(p.Payload)), p.Opcode.Has(wire.Ends)
	if p.Opcode.Has(wire.Begins) {
		h := p.RETH()
		if q.attr.Access&verbs.AccessRemoteWrite == 0 {
			return verbs.RemoteInvalidRequestError
		}
		if !q.mayAccess(h, verbs.AccessRemoteWrite) {
			return verbs.LocalAccessError
		}
		c.addr, c.rkey, c.left, c.length = h.Addr, h.RKey, h.Length, h.Length
	}
	switch {
	case !q.respond.Sized(p.Opcode, n) || n > c.left || ends && n != c.left:
		return verbs.RemoteInvalidRequestError
	case p.Opcode.Has(wire.TakesReceive) && !q.takeReceive():
		return verbs.RNRRetryExceeded
	case !q.writeMemory(c, p.Payload, ends):
		return verbs.LocalAccessError
	}
	return verbs.Success
}

// mayAccess tells whether a WRITE or READ names memory that the peer may use.
func (q *queuePair) mayAccess(h wire.RETH, need verbs.Access) bool {
	return h.Length == 0 || q.e.remote(q, h.Addr, uint64(h.Length), h.RKey, need) != nil
}

// completeMessage ends a message with its last packet; a receive that it has taken completes.
func (q *queuePair) completeMessage(p *wire.Packet) {
	c := &q.current
	if !p.Opcode.Has(wire.CompletesReceive) {
		return
	}
	x := entry{Completion: verbs.Completion{Opcode: verbs.CompletedReceive, Bytes: c.bytes}}
	if p.Opcode.Class() == wire.ClassWrite {
		x.Opcode, x.Bytes = verbs.CompletedReceiveWithImmediate, c.length
	}
	q.completeReceive(&x, p)
}

// writeMemory puts a WRITE's payload into memory; the last byte of the message becomes visible last.
func (q *queuePair) writeMemory(c *incoming, b []byte, ends bool) bool {
	if len(b) == 0 {
		return true
	}
	at := q.e.remote(q, c.addr, uint64(len(b)), c.rkey, verbs.AccessRemoteWrite)
	if at == nil {
		return false
	}
	if !q.e.place(unsafe.Slice((*byte)(at), len(b)), b, ends) {
		return false
	}
	c.addr += uint64(len(b))
	c.left -= uint32(len(b))
	return true
}

// takeReceive takes a receive from the queue pair's own queue or the shared one, or starts
// that of a message that was cut off anew.
func (q *queuePair) takeReceive() bool {
	c := &q.current
	if !c.hasWork {
		queue := &q.receives
		if q.srq != nil {
			queue = &q.srq.queue
		}
		if queue.empty() {
			return false
		}
		w := queue.take()
		c.id, c.hasWork = w.id, true
		c.list = append(c.list[:0], w.list...)
		if q.srq != nil {
			q.srq.checkLimit()
		}
	}
	c.bytes, c.room = 0, 0
	for i := range c.list {
		c.room += c.list[i].Length
	}
	return true
}

// filled notes that n bytes of payload are in the current receive. A packet that fails before that may come again.
func (c *incoming) filled(n uint32) { c.bytes, c.room = c.bytes+n, c.room-n }

// receiveDomain is the domain of the memory that receives name: the shared queue's, where there is one (IBTA 10.2.9).
func (q *queuePair) receiveDomain() *protectionDomain {
	if q.srq != nil {
		return q.srq.pd
	}
	return q.pd
}

// completeReceive ends the current receive successfully, with what the packet says besides.
func (q *queuePair) completeReceive(x *entry, p *wire.Packet) {
	c := &q.current
	x.ID, x.QPN = c.id, q.qpn
	if p.Opcode.Has(wire.HasImmediate) {
		x.Flags |= verbs.WithImmediate
		x.Immediate = p.Immediate()
	}
	if p.Opcode.Has(wire.HasIETH) {
		x.Flags |= verbs.WithInvalidate
		x.InvalidatedRKey = p.InvalidateRKey()
	}
	c.hasWork = false
	if !q.recvCQ.push(x, p.Solicited()) {
		q.enterError()
	}
}

// failReceive completes a half-filled receive with an error.
func (q *queuePair) failReceive(status verbs.Status) {
	c := &q.current
	if !c.hasWork {
		return
	}
	c.hasWork = false
	q.recvCQ.push(&entry{Completion: verbs.Completion{
		ID: c.id, Status: status, Opcode: verbs.CompletedReceive, VendorError: 0x200 | uint32(status), QPN: q.qpn,
	}}, false)
}

// refuse answers with a fatal NAK and ends the queue pair. A key that could not be invalidated is this end's fault, and
// ends it without a word (IBTA 9.9.6.3, class J): the peer runs out of retries.
func (q *queuePair) refuse(status verbs.Status, psn uint32) {
	if status == verbs.MWBindError {
		q.failReceive(verbs.RemoteInvalidRequestError)
		q.e.raise(verbs.AsyncEvent{Type: verbs.EventQPRequestError, QP: q})
		q.enterError()
		return
	}
	q.failReceive(status)
	event := verbs.EventQPRequestError
	if status == verbs.LocalAccessError {
		event = verbs.EventQPAccessError
	}
	q.e.raise(verbs.AsyncEvent{Type: event, QP: q})
	q.respond.Refuse(status, psn)
	q.oweAnswers()
	q.e.flushAcks()
}

func (q *queuePair) executeRead(p *wire.Packet) verbs.Status {
	h := p.RETH()
	switch {
	case q.attr.Access&verbs.AccessRemoteRead == 0, h.Length > maxMessage, len(p.Payload) != 0:
		return verbs.RemoteInvalidRequestError
	case !q.mayAccess(h, verbs.AccessRemoteRead):
		return verbs.LocalAccessError
	case q.respond.Asked(p) == nil:
		return verbs.RemoteInvalidRequestError
	}
	return verbs.Success
}

func (q *queuePair) executeAtomic(p *wire.Packet) verbs.Status {
	h := p.AtomicETH()
	if q.attr.Access&verbs.AccessRemoteAtomic == 0 || h.Addr&7 != 0 || len(p.Payload) != 0 {
		return verbs.RemoteInvalidRequestError
	}
	at := q.e.remote(q, h.Addr, 8, h.RKey, verbs.AccessRemoteAtomic)
	if at == nil {
		return verbs.LocalAccessError
	}
	if uintptr(at)&7 != 0 {
		return verbs.RemoteInvalidRequestError
	}
	word := (*uint64)(at)
	if !mayChange(word) {
		return verbs.LocalAccessError
	}
	result := q.respond.Asked(p)
	if result == nil {
		return verbs.RemoteInvalidRequestError
	}
	var there bool
	if *result, there = apply(word, p.Opcode, h); !there { // it went in this moment
		q.respond.Forget()
		return verbs.LocalAccessError
	}
	return verbs.Success
}
