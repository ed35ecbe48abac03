package roce

import (
	"sync/atomic"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
)

// A queue pair does here what its responder admits: it looks at memory, takes receives and completes them.

// refusal is why a request is not executed.
type refusal uint8

const (
	accepted    refusal = iota
	noReceive           // nothing is posted for it: the peer is to wait
	invalid             // no such request may come, or not now
	noAccess            // it names memory that the peer may not use
	tooLong             // for the receive
	receiveGone         // the receive's memory may not be written
)

// consequences are the NAK, and how the receive that the request has taken completes.
func (why refusal) consequences() (wire.Syndrome, verbs.Status) {
	switch why {
	case noAccess:
		return wire.NAKRemoteAccessError, verbs.LocalAccessError
	case tooLong:
		return wire.NAKInvalidRequest, verbs.LocalLengthError
	case receiveGone:
		return wire.NAKRemoteOperational, verbs.LocalProtectionError
	default:
		return wire.NAKInvalidRequest, verbs.RemoteInvalidRequestError
	}
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

// knows tells whether a packet may be the peer's by the UDP port that it comes from. Peers keep theirs; another is believed of the very
// packet that is expected next.
func (q *queuePair) knows(port uint16, p *wire.Packet) bool {
	if q.peerPort == port || q.peerPort == 0 {
		return true
	}
	if p.Opcode.IsResponse() {
		return q.transport == verbs.RC && p.PSN() == q.request.una
	}
	return p.PSN() == q.respond.expected
}

// onRequest handles a packet from the peer's requester, and those that waited for it.
func (q *queuePair) onRequest(p *wire.Packet) {
	q.handleRequest(p)
	if q.respond.held.n > 0 {
		q.handleHeld()
	}
	q.oweAnswers()
}

// handleHeld executes what was kept and is next. What does not fit is dropped, and is no error: a stranger may have sent it. The
// peer is asked for its own.
func (q *queuePair) handleHeld() {
	r := &q.respond
	filled, dropped := false, false
	for q.serves() && !dropped {
		p, ok := r.nextHeld()
		if !ok {
			break
		}
		filled = true
		why := invalid
		if r.admit(&p) == inTurn {
			why = q.execute(&p)
		}
		if why == noReceive {
			q.refuseForNow(p.PSN())
		}
		dropped = why != accepted
	}
	if (dropped || filled && r.held.n > 0) && r.reportGap() { // the next gap
		q.e.count.outOfSequence++
	}
}

func (q *queuePair) handleRequest(p *wire.Packet) {
	r, e := &q.respond, q.e
	switch r.admit(p) {
	case ignored:
	case early:
		e.count.outOfSequence++
	case repeated:
		e.count.duplicateRequests++
		if h := p.RETH(); p.Opcode.Class() != wire.ClassReadRequest || q.mayAccess(h, verbs.AccessRemoteRead) {
			r.repeat(p)
		}
	case misplaced:
		q.refuse(invalid, p.PSN())
	case inTurn:
		switch why := q.execute(p); why {
		case accepted:
		case noReceive:
			q.refuseForNow(p.PSN())
		default:
			q.refuse(why, p.PSN())
		}
	}
}

// refuseForNow tells the peer that there is no receive for a packet.
func (q *queuePair) refuseForNow(psn uint32) {
	q.e.count.rnrNAKsSent++
	q.respond.oweRNR(psn, q.attr.MinRNRTimer)
}

// execute does what a request asks for.
func (q *queuePair) execute(p *wire.Packet) refusal {
	switch p.Opcode.Class() {
	case wire.ClassSend, wire.ClassWrite:
		if why := q.takePayload(p); why != accepted {
			return why
		}
		q.respond.executed(p)
		q.completeMessage(p)
	case wire.ClassReadRequest:
		return q.executeRead(p)
	case wire.ClassAtomic:
		return q.executeAtomic(p)
	default:
	}
	return accepted
}

// onUnreliable handles a packet of a UC queue pair.
func (q *queuePair) onUnreliable(p *wire.Packet) {
	if !q.respond.admitUnreliable(p) {
		return
	}
	switch why := q.takePayload(p); why {
	case accepted:
		q.completeMessage(p)
	case tooLong, receiveGone:
		_, status := why.consequences()
		q.failReceive(status)
		q.enterError()
	default:
		q.respond.current.class = wire.ClassUnknown
	}
}

// takePayload takes the payload of a SEND or WRITE.
func (q *queuePair) takePayload(p *wire.Packet) refusal {
	if p.Opcode.Class() == wire.ClassWrite {
		return q.takeWrite(p)
	}
	c := &q.respond.current
	n := uint32(len(p.Payload))
	switch {
	case !q.respond.sized(p.Opcode, n):
		return invalid
	case p.Opcode.Begins() && !q.takeReceive():
		return noReceive
	case n > c.room:
		return tooLong
	case !q.fill(p.Payload):
		return receiveGone
	case p.Opcode.Has(wire.HasIETH) && !q.invalidate(p.InvalidateRKey()):
		return invalid
	}
	return accepted
}

func (q *queuePair) takeWrite(p *wire.Packet) refusal {
	c := &q.respond.current
	n, ends := uint32(len(p.Payload)), p.Opcode.Ends()
	if p.Opcode.Begins() {
		h := p.RETH()
		if q.attr.Access&verbs.AccessRemoteWrite == 0 {
			return invalid
		}
		if !q.mayAccess(h, verbs.AccessRemoteWrite) {
			return noAccess
		}
		c.addr, c.rkey, c.left, c.length = h.Addr, h.RKey, h.Length, h.Length
	}
	switch {
	case !q.respond.sized(p.Opcode, n) || n > c.left || ends && n != c.left:
		return invalid
	case p.Opcode.TakesReceive() && !q.takeReceive():
		return noReceive
	case !q.writeMemory(c, p.Payload, ends):
		return noAccess
	}
	return accepted
}

// mayAccess tells whether a WRITE or READ names memory that the peer may use.
func (q *queuePair) mayAccess(h wire.RETH, need verbs.Access) bool {
	return h.Length == 0 || q.e.remote(q, h.Addr, uint64(h.Length), h.RKey, need) != nil
}

// completeMessage ends a message with its last packet; a receive that it has taken completes.
func (q *queuePair) completeMessage(p *wire.Packet) {
	c := &q.respond.current
	if !p.Opcode.Ends() {
		c.class = p.Opcode.Class()
		return
	}
	c.class = wire.ClassUnknown
	if !p.Opcode.CompletesReceive() {
		return
	}
	x := verbs.Completion{Opcode: verbs.CompletedReceive, Bytes: c.bytes}
	if p.Opcode.Class() == wire.ClassWrite {
		x.Opcode, x.Bytes = verbs.CompletedReceiveWithImmediate, c.length
	}
	q.completeReceive(x, p)
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
	to := unsafe.Slice((*byte)(at), len(b))
	if ends {
		last := len(b) - 1
		copy(to[:last], b[:last])
		publish(&to[last], b[last])
	} else {
		copy(to, b)
	}
	c.addr += uint64(len(b))
	c.left -= uint32(len(b))
	return true
}

// takeReceive takes a receive from the queue pair's own queue or the shared one, or starts that of a message that was cut off anew.
func (q *queuePair) takeReceive() bool {
	c := &q.respond.current
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
	c.entry, c.within, c.bytes, c.room = 0, 0, 0, 0
	for i := range c.list {
		c.room += c.list[i].Length
	}
	return true
}

// fill appends payload to the current receive.
func (q *queuePair) fill(b []byte) bool {
	c := &q.respond.current
	c.bytes += uint32(len(b))
	c.room -= uint32(len(b))
	for len(b) > 0 {
		g := &c.list[c.entry]
		if c.within == g.Length {
			c.entry++
			c.within = 0
			continue
		}
		n := min(int(g.Length-c.within), len(b))
		at := q.e.local(q.pd, g.Addr+uint64(c.within), uint32(n), g.LKey, verbs.AccessLocalWrite)
		if at == nil {
			return false
		}
		copy(unsafe.Slice((*byte)(at), n), b)
		c.within += uint32(n)
		b = b[n:]
	}
	return true
}

// completeReceive ends the current receive successfully, with what the packet says besides.
func (q *queuePair) completeReceive(x verbs.Completion, p *wire.Packet) {
	c := &q.respond.current
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
	if !q.recvCQ.push(entry{Completion: x}, p.Solicited()) {
		q.enterError()
	}
}

// failReceive completes a half-filled receive with an error.
func (q *queuePair) failReceive(status verbs.Status) {
	c := &q.respond.current
	c.class = wire.ClassUnknown
	if !c.hasWork {
		return
	}
	c.hasWork = false
	q.recvCQ.push(entry{Completion: verbs.Completion{
		ID: c.id, Status: status, Opcode: verbs.CompletedReceive, VendorError: 0x200 | uint32(status), QPN: q.qpn,
	}}, false)
}

// dropReceive forgets a half-filled receive without a completion.
func (q *queuePair) dropReceive() {
	q.respond.current.class = wire.ClassUnknown
	q.respond.current.hasWork = false
}

// refuse answers with a fatal NAK and ends the queue pair.
func (q *queuePair) refuse(why refusal, psn uint32) {
	nak, status := why.consequences()
	q.failReceive(status)
	event := verbs.EventQPRequestError
	if why == noAccess {
		event = verbs.EventQPAccessError
	}
	q.e.raise(verbs.AsyncEvent{Type: event, QP: q})
	q.respond.refuse(nak, psn)
	q.oweAnswers()
	q.e.flushAcks()
}

func (q *queuePair) executeRead(p *wire.Packet) refusal {
	r, h := &q.respond, p.RETH()
	switch {
	case q.attr.Access&verbs.AccessRemoteRead == 0, h.Length > maxMessage, len(r.reads.ring) == 0, len(p.Payload) != 0:
		return invalid
	case !q.mayAccess(h, verbs.AccessRemoteRead):
		return noAccess
	case r.asked(readWork{psn: p.PSN(), packets: packetsOf(h.Length, q.mtu), addr: h.Addr, rkey: h.RKey, length: h.Length}) == nil:
		return invalid
	}
	return accepted
}

func (q *queuePair) executeAtomic(p *wire.Packet) refusal {
	r, h := &q.respond, p.AtomicETH()
	if q.attr.Access&verbs.AccessRemoteAtomic == 0 || len(r.reads.ring) == 0 || h.Addr&7 != 0 || len(p.Payload) != 0 {
		return invalid
	}
	at := q.e.remote(q, h.Addr, 8, h.RKey, verbs.AccessRemoteAtomic)
	if at == nil {
		return noAccess
	}
	if uintptr(at)&7 != 0 {
		return invalid
	}
	w := r.asked(readWork{psn: p.PSN(), packets: 1, atomic: true})
	if w == nil {
		return invalid
	}
	w.original = apply(at, p.Opcode, h)
	return accepted
}

// apply performs an atomic on host memory, atomically towards this machine's processors too.
func apply(at unsafe.Pointer, o wire.Opcode, h wire.AtomicETH) uint64 {
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
