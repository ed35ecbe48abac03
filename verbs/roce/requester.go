package roce

import (
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
)

// requester is the sending half of a queue pair: what was asked of the peer and not yet answered (IBTA 9.7.3).
type requester struct {
	postPSN uint32 // of the next request posted
	una     uint32 // oldest that is not acknowledged
	nxt     uint32 // next to be sent; behind high after a loss
	high    uint32 // beyond every PSN ever sent
	packet  uint32 // next packet of send.next

	inFlight     int // charged to the path's window
	readInFlight int // bytes of READ responses awaited
	outstanding  int // READs and atomics without all responses
	unasked      int // charged since the last packet with AckReq
	askedAt      verbs.Ticks
	drained      bool

	recovery
}

// begin starts numbering at the transition to RTS.
func (r *requester) begin(q *queuePair) {
	*r = requester{postPSN: q.attr.SendPSN, una: q.attr.SendPSN, nxt: q.attr.SendPSN, high: q.attr.SendPSN}
	r.refill(&q.attr)
}

func (r *requester) sendPSN(q *queuePair) uint32 {
	if q.transport == verbs.RC {
		return r.nxt
	}
	return r.postPSN
}

// outcome is why a queue pair stopped sending.
type outcome uint8

const (
	idle    outcome = iota // nothing to send, or it waits for an event of its own
	blocked                // the window is closed
	paused                 // its share is used up: others first
)

// operations are the packets of a message: only, first, middle, last.
type operations struct{ only, first, middle, last wire.Operation }

var requestOperations = [...]operations{
	verbs.OpWrite:              {wire.WriteOnly, wire.WriteFirst, wire.WriteMiddle, wire.WriteLast},
	verbs.OpWriteWithImmediate: {wire.WriteOnlyImmediate, wire.WriteFirst, wire.WriteMiddle, wire.WriteLastImmediate},
	verbs.OpSend:               {wire.SendOnly, wire.SendFirst, wire.SendMiddle, wire.SendLast},
	verbs.OpSendWithImmediate:  {wire.SendOnlyImmediate, wire.SendFirst, wire.SendMiddle, wire.SendLastImmediate},
	verbs.OpSendWithInvalidate: {wire.SendOnlyInvalidate, wire.SendFirst, wire.SendMiddle, wire.SendLastInvalidate},
}

// sendSome sends up to quantum packets.
func (q *queuePair) sendSome(now verbs.Ticks, quantum int) (int, outcome) {
	s, r := &q.send, &q.request
	sent := 0
	for {
		if s.next == s.tail || r.rnrAt != 0 || q.state != verbs.StateRTS && q.state != verbs.StateSQD {
			return sent, idle
		}
		w := s.at(s.next)
		if !w.started {
			switch why := q.begin(w); {
			case why != paused:
				return sent, why
			case w.packets == 0:
				s.next++
				q.retire()
				continue
			}
		}
		if sent >= quantum {
			return sent, paused
		}
		p := q.path
		if w.isResponded() {
			q.ask(w, now)
		} else {
			k := r.packet
			cost := q.cost(w, k, k+1)
			if q.transport == verbs.RC && !p.window.admits(cost) {
				return sent, blocked
			}
			if !q.sendData(p, w, k, q.wantsAck(w, k, cost, quantum-sent, now), now) {
				return sent, idle
			}
			r.packet++
			if q.transport == verbs.RC {
				r.inFlight += cost
				p.window.inFlight += cost
				r.nxt = (r.nxt + 1) & wire.Mask24
			}
			if r.packet == w.packets {
				s.next++
				r.packet = 0
			}
		}
		sent++
		if q.transport != verbs.RC {
			if r.packet == 0 {
				w.finished = true
				q.retire()
			}
			continue
		}
		if wire.PSNDiff(r.nxt, r.high) > 0 {
			r.high = r.nxt
		}
	}
}

// outstandingPSNs is how many numbers a READ may take before others start behind it. From 2^23 on an answer could not be
// told from a stale one (IBTA 9.7.2); the margin is more than any window of SENDs and WRITEs.
const outstandingPSNs = 1<<23 - 1<<20

// begin decides whether a request may start: paused is yes.
func (q *queuePair) begin(w *sendWork) outcome {
	s, r := &q.send, &q.request
	if q.state == verbs.StateSQD {
		q.checkDrained()
		return idle
	}
	if w.flags&verbs.Fence != 0 && r.outstanding > 0 {
		return idle
	}
	if q.transport == verbs.RC {
		ahead := (w.psn - r.una) & wire.Mask24
		if w.isResponded() && ahead > 0 {
			ahead += w.packets
		}
		if ahead > outstandingPSNs {
			return idle
		}
	}
	status := q.check(w)
	if status == verbs.Success && w.packets == 0 {
		status = q.local(w)
	}
	if status != verbs.Success {
		if s.done == s.next { // after everything before it
			q.failSend(status)
		}
		return idle
	}
	if w.isResponded() {
		if r.outstanding >= int(q.attr.MaxRDAtomic) {
			return idle
		}
		if e := q.e; e.readsInFlight > 0 && e.readsInFlight+int(w.length) > e.readLimit {
			return blocked
		}
		r.outstanding++
	}
	w.started = true
	return paused
}

// check looks at a request's memory before its first packet leaves.
func (q *queuePair) check(w *sendWork) verbs.Status {
	if w.isResponded() && q.attr.MaxRDAtomic == 0 {
		return verbs.LocalQPOpError
	}
	if q.transport == verbs.UD && w.length > q.mtu {
		return verbs.LocalLengthError
	}
	if w.flags&verbs.Inline != 0 {
		return verbs.Success
	}
	var need verbs.Access
	if w.isResponded() {
		need = verbs.AccessLocalWrite
	}
	for _, g := range q.send.list(q.send.next, w.sges) {
		if g.Length > 0 && q.e.local(q.pd, g.Addr, g.Length, g.LKey, need) == nil {
			return verbs.LocalProtError
		}
	}
	return verbs.Success
}

// local executes a request that sends nothing.
func (q *queuePair) local(w *sendWork) verbs.Status {
	w.finished = true
	if w.opcode == verbs.OpBindMW {
		if !q.bind(w.bound) {
			return verbs.MWBindError
		}
		return verbs.Success
	}
	if !q.invalidate(w.immediate) {
		return verbs.LocalQPOpError
	}
	return verbs.Success
}

// cost is what packets from…to of a request count in the window.
func (q *queuePair) cost(w *sendWork, from, to uint32) int {
	n := int(to-from) * (int(q.mtu) + packetOverhead)
	if to == w.packets {
		n -= int(w.packets*q.mtu - w.length)
	}
	return n
}

// wantsAck decides on AckReq: where nothing can follow now, else about every half window. A request that is patient
// leaves asking to a later one, for a while: the probe would ask if none came.
func (q *queuePair) wantsAck(w *sendWork, k uint32, cost, left int, now verbs.Ticks) bool {
	if q.transport != verbs.RC {
		return false
	}
	r, s, p := &q.request, &q.send, q.path
	r.unasked += cost
	follows := k+1 < w.packets
	if !follows && s.next+1 != s.tail {
		n := s.at(s.next + 1)
		follows = n.flags&verbs.Fence == 0 && n.packets > 0 && !n.isResponded() && q.state == verbs.StateRTS
	}
	if w.patient && now-r.askedAt < r.probeInterval(q.e)/2 && r.nxt == r.high {
		follows = true
	}
	if follows && p.window.inFlight+2*cost <= p.window.size && r.unasked < p.window.size/4 {
		return false
	}
	if left == 1 && follows && r.unasked < p.window.size/8 {
		return false // others send in between, then this one goes on
	}
	r.unasked = 0
	return true
}

// sendData sends packet k of a SEND or WRITE. It reports false when the memory is gone.
func (q *queuePair) sendData(p *path, w *sendWork, k uint32, ack bool, now verbs.Ticks) bool {
	e := q.e
	offset := k * q.mtu
	n := min(q.mtu, w.length-offset)
	pieces := q.gather(w, offset, n)
	if pieces < 0 {
		q.breakOff()
		return false
	}
	ops := &requestOperations[w.opcode]
	first, last := k == 0, k+1 == w.packets
	op := ops.middle
	switch {
	case first && last:
		op = ops.only
	case first:
		op = ops.first
	case last:
		op = ops.last
	}
	code := wire.MakeOpcode(q.wire, op)
	headers := code.HeaderBytes()
	pad := wire.PadBytes(int(n))
	total := headers + int(n) + pad + wire.ICRCBytes
	t := &e.train
	if !t.fits(p, total) {
		e.flush()
	}
	psn := (w.psn + k) & wire.Mask24
	flags := wire.PadFlag(int(n))
	if ack {
		flags |= wire.FlagAckReq
		q.request.askedAt = now
		q.request.sample(psn, now)
	}
	if last && w.flags&verbs.Solicited != 0 && (w.opcode != verbs.OpWrite) {
		flags |= wire.FlagSolicited
	}
	h := t.open(p, total, headers)
	wire.PutBTH(h, code, flags, q.attr.DestQPN, psn)
	at := wire.BTHBytes
	if first && (w.opcode == verbs.OpWrite || w.opcode == verbs.OpWriteWithImmediate) {
		wire.PutRETH(h[at:], w.remote, w.rkey, w.length)
		at += wire.RETHBytes
	}
	if at < headers {
		putUint32(h[at:], w.immediate)
	}
	for i := range pieces {
		t.payload(e.gathered[i].base, int(e.gathered[i].n))
	}
	t.close(pad)
	if q.transport == verbs.RC {
		q.request.arm(e, q, now)
	}
	return true
}

func putUint32(b []byte, v uint32) {
	_ = b[3]
	b[0], b[1], b[2], b[3] = byte(v>>24), byte(v>>16), byte(v>>8), byte(v)
}

// gather finds n bytes of a request's payload from offset on and leaves them in e.gathered; -1 when memory is gone.
func (q *queuePair) gather(w *sendWork, offset, n uint32) int {
	e := q.e
	index := q.send.next
	if n == 0 {
		return 0
	}
	if w.flags&verbs.Inline != 0 {
		e.gathered[0] = piece{unsafe.Pointer(&q.send.inlined(index)[offset]), uintptr(n)}
		return 1
	}
	list := q.send.list(index, w.sges)
	if len(list) == 1 {
		at := e.local(q.pd, list[0].Addr+uint64(offset), n, list[0].LKey, 0)
		if at == nil {
			return -1
		}
		e.gathered[0] = piece{at, uintptr(n)}
		return 1
	}
	count := 0
	for i := range list {
		g := &list[i]
		if offset >= g.Length {
			offset -= g.Length
			continue
		}
		m := min(g.Length-offset, n)
		at := e.local(q.pd, g.Addr+uint64(offset), m, g.LKey, 0)
		if at == nil {
			return -1
		}
		e.gathered[count] = piece{at, uintptr(m)}
		count++
		offset = 0
		if n -= m; n == 0 {
			break
		}
	}
	return count
}

// ask sends a READ request or an atomic; a READ that is resumed asks for what has not arrived.
func (q *queuePair) ask(w *sendWork, now verbs.Ticks) {
	e, r, p := q.e, &q.request, q.path
	op := wire.ReadRequest
	switch w.opcode {
	case verbs.OpCompareSwap:
		op = wire.CompareSwap
	case verbs.OpFetchAdd:
		op = wire.FetchAdd
	default:
	}
	k := w.got
	code := wire.MakeOpcode(wire.RC, op)
	headers := code.HeaderBytes()
	total := headers + wire.ICRCBytes
	t := &e.train
	if !t.fits(p, total) {
		e.flush()
	}
	psn := (w.psn + k) & wire.Mask24
	h := t.open(p, total, headers)
	wire.PutBTH(h, code, wire.FlagAckReq, q.attr.DestQPN, psn)
	if op == wire.ReadRequest {
		offset := k * q.mtu
		wire.PutRETH(h[wire.BTHBytes:], w.remote+uint64(offset), w.rkey, w.length-offset)
		left := int(w.length - offset)
		r.readInFlight += left
		e.readsInFlight += left
		w.charged = uint32(left)
	} else {
		eth := wire.AtomicETH{Addr: w.remote, RKey: w.rkey, SwapAdd: w.compareAdd}
		if op == wire.CompareSwap {
			eth.SwapAdd, eth.Compare = w.swap, w.compareAdd
		}
		eth.Put(h[wire.BTHBytes:])
	}
	t.close(0)
	r.unasked = 0
	r.arm(e, q, now)
	if w.packets == 1 {
		r.sample(psn, now)
	}
	r.packet = 0
	r.nxt = (w.psn + w.packets) & wire.Mask24
	q.send.next++
}

// breakOff ends a message whose memory went away while it was being sent.
func (q *queuePair) breakOff() {
	s := &q.send
	if s.done == s.next {
		q.failSend(verbs.LocalProtError)
		return
	}
	q.request.packet = 0
	s.at(s.next).started = false // checked again, and refused, when everything before it is complete
}

// retire completes requests in order, as far as they are finished.
func (q *queuePair) retire() {
	s, r := &q.send, &q.request
	for s.done != s.next {
		w := s.at(s.done)
		if q.transport == verbs.RC && w.packets > 0 && !w.isResponded() {
			if wire.PSNDiff(r.una, w.psn+w.packets) < 0 {
				break
			}
		} else if !w.finished {
			break
		}
		s.done++
		if q.signalAll || w.flags&verbs.Signaled != 0 {
			var bytes uint32
			if w.isResponded() {
				bytes = w.length
			}
			if !q.sendCQ.push(entry{
				Completion: verbs.Completion{ID: w.id, Opcode: w.opcode.Completed(), Bytes: bytes, QPN: q.qpn}, qp: q, release: s.done,
			}, false) {
				q.enterError()
				return
			}
		}
	}
	if s.next != s.tail {
		q.kick()
	}
	if q.state == verbs.StateSQD {
		q.checkDrained()
	}
}
