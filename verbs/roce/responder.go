package roce

import (
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
)

// responder is the receiving half of a queue pair (IBTA 9.7.4 for RC, 9.8 for UC).
type responder struct {
	expected uint32
	msn      uint32
	ackable  uint32 // PSN of the last SEND or WRITE packet executed
	nakSent  bool   // a sequence NAK or RNR NAK is outstanding
	dying    bool   // a fatal NAK waits for READ responses before it

	current incoming

	// what is owed to the peer
	ackDue   bool
	syndrome wire.Syndrome
	ackPSN   uint32 // for NAKs
	inAcks   bool   // in engine.acks
	ending   bool   // ERR follows the NAK
	behind   uint32 // answer that leaves before the ACK does
	notReady bool   // an RNR NAK is outstanding: what follows is not kept
	held     heldPackets

	reads readQueue
}

// incoming is the message being received.
type incoming struct {
	class   wire.Class // ClassUnknown: none
	hasWork bool
	id      uint64
	list    []verbs.SGE // of the receive
	entry   int         // position in it
	within  uint32
	room    uint32 // left in the receive
	bytes   uint32 // received

	addr   uint64 // WRITE: where the next packet goes
	rkey   uint32
	left   uint32
	length uint32
}

// begin starts numbering at the transition to RTR. With a pool, what arrives behind a gap is kept there.
func (r *responder) begin(psn uint32, depth uint8, pool *packetPool) {
	list := r.current.list[:0]
	r.held.clear()
	*r = responder{expected: psn, ackable: (psn - 1) & wire.Mask24}
	r.current.list = list
	r.held.pool = pool
	r.reads = newReadQueue(depth)
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
	q.handleRequest(p)
	if r.held.n == 0 {
		return
	}
	filled := false
	for !r.dying && q.serves() {
		b := r.held.take(r.expected)
		if b == nil {
			break
		}
		kept, err := wire.ParsePacket(b)
		if err != nil {
			break
		}
		filled = true
		q.handleRequest(&kept)
	}
	if filled && r.held.n > 0 && !r.nakSent && !r.dying { // the next gap
		r.nakSent = true
		q.e.count.outOfSequence++
		q.owe(wire.NAKSequenceError, r.expected)
	}
}

// handleRequest handles a packet in the order of checks that the specification gives.
func (q *queuePair) handleRequest(p *wire.Packet) {
	r := &q.respond
	if r.dying {
		return
	}
	psn := p.PSN()
	switch d := wire.PSNDiff(psn, r.expected); {
	case d > 0:
		if !r.notReady {
			r.held.keep(psn, uint32(d), p.Raw)
		}
		if !r.nakSent {
			r.nakSent = true
			q.e.count.outOfSequence++
			q.owe(wire.NAKSequenceError, r.expected)
		}
		return
	case d < 0:
		q.onDuplicate(p, psn)
		return
	}
	class := p.Opcode.Class()
	if !r.inOrder(p.Opcode, class) {
		q.refuse(wire.NAKInvalidRequest, psn, verbs.RemoteInvalidRequestError)
		return
	}
	switch class {
	case wire.ClassSend:
		q.onSend(p, psn)
	case wire.ClassWrite:
		q.onWrite(p, psn)
	case wire.ClassReadRequest:
		q.onReadRequest(p, psn)
	case wire.ClassAtomic:
		q.onAtomicRequest(p, psn)
	default:
	}
}

// inOrder checks the sequence FIRST, MIDDLE…, LAST of one class.
func (r *responder) inOrder(o wire.Opcode, class wire.Class) bool {
	if o.Begins() {
		return r.current.class == wire.ClassUnknown
	}
	return r.current.class == class
}

// sized checks the payload against the packet's place in its message.
func (q *queuePair) sized(o wire.Opcode, n uint32) bool {
	switch {
	case !o.Ends():
		return n == q.mtu
	case o.Begins():
		return n <= q.mtu
	default:
		return n >= 1 && n <= q.mtu
	}
}

func (q *queuePair) onSend(p *wire.Packet, psn uint32) {
	r := &q.respond
	n := uint32(len(p.Payload))
	if !q.sized(p.Opcode, n) {
		q.refuse(wire.NAKInvalidRequest, psn, verbs.RemoteInvalidRequestError)
		return
	}
	if p.Opcode.Begins() && !q.takeReceive() {
		q.notReady(psn)
		return
	}
	if n > r.current.room {
		q.refuse(wire.NAKInvalidRequest, psn, verbs.LocalLengthError)
		return
	}
	if !q.fill(p.Payload) {
		q.refuse(wire.NAKRemoteOperational, psn, verbs.LocalProtectionError)
		return
	}
	r.executed(psn)
	if !p.Opcode.Ends() {
		r.current.class = wire.ClassSend
		q.ackIf(p)
		return
	}
	c := verbs.Completion{Opcode: verbs.CompletedReceive, Bytes: r.current.bytes}
	if p.Opcode.Has(wire.HasImmediate) {
		c.Flags, c.Immediate = verbs.WithImmediate, p.Immediate()
	}
	if p.Opcode.Has(wire.HasIETH) {
		key := p.InvalidateRKey()
		if !q.invalidate(key) {
			q.refuse(wire.NAKInvalidRequest, psn, verbs.RemoteInvalidRequestError)
			return
		}
		c.Flags |= verbs.WithInvalidate
		c.InvalidatedRKey = key
	}
	r.msn++
	q.ackIf(p)
	q.completeReceive(c, p.Solicited())
}

func (q *queuePair) onWrite(p *wire.Packet, psn uint32) {
	r := &q.respond
	c := &r.current
	n := uint32(len(p.Payload))
	begins, ends := p.Opcode.Begins(), p.Opcode.Ends()
	if begins {
		if q.attr.Access&verbs.AccessRemoteWrite == 0 {
			q.refuse(wire.NAKInvalidRequest, psn, verbs.RemoteInvalidRequestError)
			return
		}
		h := p.RETH()
		if h.Length > 0 && q.e.remote(q, h.Addr, uint64(h.Length), h.RKey, verbs.AccessRemoteWrite) == nil {
			q.refuse(wire.NAKRemoteAccessError, psn, verbs.LocalAccessError)
			return
		}
		c.addr, c.rkey, c.left, c.length = h.Addr, h.RKey, h.Length, h.Length
	}
	if !q.sized(p.Opcode, n) || n > c.left || ends && n != c.left {
		q.refuse(wire.NAKInvalidRequest, psn, verbs.RemoteInvalidRequestError)
		return
	}
	if p.Opcode.TakesReceive() && !c.hasWork && !q.takeReceive() {
		q.notReady(psn)
		return
	}
	if !q.place(c, p.Payload, ends) {
		q.refuse(wire.NAKRemoteAccessError, psn, verbs.LocalAccessError)
		return
	}
	r.executed(psn)
	q.ackIf(p)
	if !ends {
		c.class = wire.ClassWrite
		return
	}
	r.msn++
	if p.Opcode.CompletesReceive() {
		q.completeReceive(verbs.Completion{
			Opcode: verbs.CompletedReceiveWithImmediate, Bytes: c.length, Flags: verbs.WithImmediate, Immediate: p.Immediate(),
		}, p.Solicited())
		return
	}
	c.class = wire.ClassUnknown
}

// place puts a WRITE's payload into memory; the last byte of the message becomes visible last.
func (q *queuePair) place(c *incoming, b []byte, ends bool) bool {
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

// executed moves on to the next PSN.
func (r *responder) executed(psn uint32) {
	r.expected = (psn + 1) & wire.Mask24
	r.ackable = psn
	if r.reads.fresh > 0 { // an ACK that tells of this packet would deny the answers before it
		r.behind = r.reads.end
	}
	r.arrived()
}

// arrived ends a gap: a NAK that has not left yet becomes an ACK.
func (r *responder) arrived() {
	r.nakSent, r.notReady = false, false
	if r.ackDue {
		r.syndrome = wire.SyndromeAck
	}
}

// takeReceive takes a receive from the queue pair's own queue or the shared one.
func (q *queuePair) takeReceive() bool {
	c := &q.respond.current
	queue := &q.receives
	if q.srq != nil {
		queue = &q.srq.queue
	}
	if queue.empty() {
		return false
	}
	w := queue.take()
	c.id = w.id
	c.list = append(c.list[:0], w.list...)
	c.room = 0
	for i := range c.list {
		c.room += c.list[i].Length
	}
	c.entry, c.within, c.bytes = 0, 0, 0
	c.hasWork = true
	if q.srq != nil {
		q.srq.checkLimit()
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

// completeReceive ends the current receive successfully.
func (q *queuePair) completeReceive(x verbs.Completion, solicited bool) {
	c := &q.respond.current
	x.ID, x.QPN = c.id, q.qpn
	c.hasWork = false
	c.class = wire.ClassUnknown
	if !q.recvCQ.push(entry{Completion: x}, solicited) {
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

// notReady answers a packet that finds no receive.
func (q *queuePair) notReady(psn uint32) {
	r := &q.respond
	q.e.count.rnrNAKsSent++
	r.nakSent, r.notReady = true, true // what follows is out of sequence: silent until this packet comes again
	r.held.clear()
	q.owe(wire.SyndromeRNR|wire.Syndrome(q.attr.MinRNRTimer&31), psn)
}

// refuse answers with a fatal NAK and ends the queue pair. A half-filled receive completes with status.
func (q *queuePair) refuse(s wire.Syndrome, psn uint32, status verbs.Status) {
	r := &q.respond
	q.failReceive(status)
	r.dying = true
	r.ending = true
	event := verbs.EventQPRequestError
	if s == wire.NAKRemoteAccessError {
		event = verbs.EventQPAccessError
	}
	q.e.raise(verbs.AsyncEvent{Type: event, QPN: q.qpn})
	q.owe(s, psn)
	q.e.flushAcks()
}

// ackIf notes that the peer wants to hear of a packet.
func (q *queuePair) ackIf(p *wire.Packet) {
	if p.AckReq() {
		q.owe(wire.SyndromeAck, 0)
	}
}

// owe notes what to answer. A NAK replaces an ACK, which it implies, and not the other way round.
func (q *queuePair) owe(s wire.Syndrome, psn uint32) {
	r := &q.respond
	if r.ackDue && s == wire.SyndromeAck && r.syndrome != wire.SyndromeAck {
		return
	}
	if n := r.reads.end; !r.ackDue || r.reads.fresh > 0 { // repeats that somebody asks for all the time do not hold it up
		r.behind = n
	}
	r.ackDue, r.syndrome, r.ackPSN = true, s, psn
	if !r.inAcks {
		r.inAcks = true
		q.e.acks = append(q.e.acks, q)
	}
}

// onDuplicate handles a request that was executed before (IBTA 9.7.5.1.1).
func (q *queuePair) onDuplicate(p *wire.Packet, psn uint32) {
	q.e.count.duplicateRequests++
	switch p.Opcode.Class() {
	case wire.ClassSend, wire.ClassWrite:
		q.owe(wire.SyndromeAck, 0)
	case wire.ClassReadRequest:
		q.repeatRead(p, psn)
	case wire.ClassAtomic:
		q.repeatAtomic(psn)
	default:
	}
}

// flushAcks sends what is owed, as far as READ responses do not come first.
func (e *engine) flushAcks() {
	if len(e.acks) == 0 {
		return
	}
	kept := e.acks[:0]
	for _, q := range e.acks {
		r := &q.respond
		if r.ackDue && !q.mayAcknowledge() {
			kept = append(kept, q)
			continue
		}
		r.inAcks = false
		if r.ackDue {
			q.acknowledge()
		}
	}
	e.acks = kept
	e.unacked = 0
}

// mayAcknowledge tells whether the answers that come before an ACK have left.
func (q *queuePair) mayAcknowledge() bool {
	r := &q.respond
	return r.reads.empty() || int32(r.reads.first-r.behind) >= 0
}

// acknowledge sends the ACK or NAK that is due.
func (q *queuePair) acknowledge() {
	e, r := q.e, &q.respond
	r.ackDue = false
	psn := r.ackPSN
	if r.syndrome == wire.SyndromeAck {
		psn = r.ackable
	}
	wire.PutAETH(e.open(q.path, wire.RCAcknowledge, 0, q.attr.DestQPN, psn, 0), r.syndrome, r.msn)
	e.batch.close()
	if r.ending {
		r.ending = false
		q.enterError()
	}
}

const ackBytes = wire.BTHBytes + wire.AETHBytes + wire.ICRCBytes

// forgetAck drops what a queue pair owes.
func (e *engine) forgetAck(q *queuePair) {
	q.respond.ackDue = false // flushAcks takes it off the list
}

// shorterThanAck tells whether what q sends next is shorter than an ACK, which then goes first in the batch.
func (e *engine) shorterThanAck(q *queuePair) bool {
	if len(e.acks) == 0 || q.send.next == q.send.tail {
		return false
	}
	w := q.send.at(q.send.next)
	return w.length == 0 && (w.opcode == verbs.OpSend || w.packets == 0)
}
