package roce

import (
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
	"github.com/gobw/gobw/verbs/tick"
)

// A queue pair does here what its requester says: it looks at memory, makes packets and completes requests.

// outcome is why a queue pair stopped sending.
type outcome uint8

const (
	idle    outcome = iota // nothing to send, or it waits for an event of its own
	blocked                // the window is closed
	paused                 // its share is used up: others first
	ready                  // it may send
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
func (q *queuePair) sendSome(now tick.Time, quantum int) (sent int, why outcome) {
	r := &q.request
	if len(r.mends) > 0 && r.rnrAt == 0 {
		sent = q.mend(now)
	}
	if q.transport == verbs.RC && r.silent >= silentProbes {
		if r.nxt != r.una {
			return sent, idle // until the peer is heard of
		}
		quantum = sent + 1
	}
	for {
		if q.send.next == q.send.tail || r.rnrAt != 0 || q.state != verbs.StateRTS && q.state != verbs.StateSQD {
			why = idle
			break
		}
		w := q.send.at(q.send.next)
		if why = q.prepare(w); why != ready {
			break
		}
		if w.packets == 0 {
			r.skip()
			q.retire()
			continue
		}
		if sent >= quantum {
			why = paused
			break
		}
		switch {
		case q.transport != verbs.RC:
			if !q.sendData(q.send.next, r.packet, false) {
				q.refuseSend(q.send.next, verbs.LocalProtectionError)
				return sent, idle
			}
			if r.packet++; r.packet == w.packets { // nobody answers
				w.finished = true
				r.skip()
				q.retire()
			}
		case w.isResponded():
			k := r.missing(w)
			if k == w.packets { // its answer has come meanwhile
				r.skip()
				continue
			}
			q.ask(w, k, w.packets)
			r.asked(k, now)
		default:
			k := r.packet
			cost := r.cost(w, k, k+1)
			window := &q.path.window
			if q.charge(); !window.admits(cost, r.gapAllowance(window.size)) {
				q.clock()
				return sent, blocked
			}
			asks := r.wantsAck(k, cost, quantum-sent, window.size-window.inFlight-cost, window.size)
			if !q.sendData(q.send.next, k, asks) {
				q.refuseSend(q.send.next, verbs.LocalProtectionError)
				return sent, idle
			}
			r.sent(k, cost, asks, now)
		}
		sent++
	}
	q.charge()
	q.clock()
	return sent, why
}

// prepare looks at a request before its first packet leaves.
func (q *queuePair) prepare(w *sendWork) outcome {
	s, r := &q.send, &q.request
	switch {
	case w.failure != verbs.Success:
		q.retire()
		return idle
	case w.started:
		if w.isResponded() {
			return q.mayRead(w) // again, after going back
		}
		return ready
	case q.state == verbs.StateSQD:
		q.checkDrained()
		return idle
	case q.transport == verbs.RC && !r.mayStart(w):
		return idle
	}
	status := q.check(w)
	if status == verbs.Success && w.packets == 0 {
		status = q.executeLocal(w)
	}
	if status != verbs.Success {
		q.refuseSend(s.next, status)
		return idle
	}
	if w.isResponded() {
		if why := q.mayRead(w); why != ready {
			return why
		}
	}
	r.start(w)
	return ready
}

// mayRead tells whether the window of READs admits another.
func (q *queuePair) mayRead(w *sendWork) outcome {
	if w.opcode == verbs.OpRead {
		if q.charge(); !q.path.reads.admits(int(w.length), 0) {
			return blocked
		}
	}
	return ready
}

// refuseSend has a request fail when everything before it is complete.
func (q *queuePair) refuseSend(index uint32, status verbs.Status) {
	q.charge()
	q.clock()
	q.send.at(index).failure = status
	q.retire()
}

// mend sends again what was lost, out of turn, and returns how many packets that took.
func (q *queuePair) mend(now tick.Time) (sent int) {
	r := &q.request
	mends := r.mends
	r.mends = r.mends[:0]
	for _, x := range mends {
		for psn := x.from; wire.PSNDiff(psn, x.to) < 0; {
			if wire.PSNDiff(psn, r.una) < 0 {
				psn = r.una
				continue
			}
			i, w := r.find(psn)
			if w == nil || wire.PSNDiff(psn, r.nxt) >= 0 {
				break
			}
			k := (psn - w.psn) & wire.Mask24
			if w.isResponded() {
				end := min(w.packets, (x.to-w.psn)&wire.Mask24)
				q.ask(w, k, end)
				psn = (w.psn + end) & wire.Mask24
			} else {
				if !q.sendData(i, k, true) {
					q.refuseSend(i, verbs.LocalProtectionError)
					return sent
				}
				psn = (psn + 1) & wire.Mask24
			}
			sent++
			if x.probe {
				q.e.count.probes++
			} else {
				q.e.count.resentPackets++
				r.resample((psn-1)&wire.Mask24, now)
			}
		}
	}
	return sent
}

// check looks at a request's memory before its first packet leaves.
func (q *queuePair) check(w *sendWork) verbs.Status {
	if w.isResponded() && q.attr.MaxRDAtomic == 0 {
		return verbs.LocalQPOperationError
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
			return verbs.LocalProtectionError
		}
	}
	return verbs.Success
}

// executeLocal executes a request that sends nothing.
func (q *queuePair) executeLocal(w *sendWork) verbs.Status {
	w.finished = true
	if w.opcode == verbs.OpBindMW {
		if !q.bind(w.bound) {
			return verbs.MWBindError
		}
		return verbs.Success
	}
	if !q.invalidate(w.immediate) {
		return verbs.LocalQPOperationError
	}
	return verbs.Success
}

// sendData sends packet k of request index, a SEND or WRITE. It reports false when the memory is gone.
func (q *queuePair) sendData(index, k uint32, ack bool) bool {
	e, w := q.e, q.send.at(index)
	offset := k * q.mtu
	n := min(q.mtu, w.length-offset)
	pieces := q.gather(index, w, offset, n)
	if pieces < 0 {
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
	var flags wire.BTHFlags
	if ack {
		flags |= wire.FlagAckReq
	}
	if last && w.flags&verbs.Solicited != 0 && (w.opcode != verbs.OpWrite) {
		flags |= wire.FlagSolicited
	}
	to, qpn := q.path, q.attr.DestQPN
	if w.ah != nil {
		to, qpn = w.ah.path, w.remoteQPN
	}
	h := e.out.Open(&to.Path, code, flags, qpn, (w.psn+k)&wire.Mask24, int(n))
	if w.ah != nil {
		qkey := w.remoteQKey
		if qkey>>31 != 0 { // IBTA 10.2.5: a privileged key is the queue pair's own
			qkey = q.attr.QKey
		}
		wire.DETH{QKey: qkey, SourceQPN: q.qpn}.Put(h)
		h = h[wire.DETHBytes:]
	}
	if first && (w.opcode == verbs.OpWrite || w.opcode == verbs.OpWriteWithImmediate) {
		wire.RETH{Addr: w.remote, RKey: w.rkey, Length: w.length}.Put(h)
		h = h[wire.RETHBytes:]
	}
	if len(h) > 0 {
		putUint32(h, w.immediate)
	}
	for i := range pieces {
		e.out.Payload(e.gathered[i])
	}
	e.out.Close()
	return true
}

func putUint32(b []byte, v uint32) {
	_ = b[3]
	b[0], b[1], b[2], b[3] = byte(v>>24), byte(v>>16), byte(v>>8), byte(v)
}

// gather finds n bytes of request index's payload from offset on and leaves them in e.gathered; -1 when memory is gone.
func (q *queuePair) gather(index uint32, w *sendWork, offset, n uint32) int {
	e := q.e
	if n == 0 {
		return 0
	}
	if w.flags&verbs.Inline != 0 {
		e.gathered[0] = q.send.inlined(index)[offset : offset+n]
		return 1
	}
	list := q.send.list(index, w.sges)
	if len(list) == 1 {
		at := e.local(q.pd, list[0].Addr+uint64(offset), n, list[0].LKey, 0)
		if at == nil {
			return -1
		}
		e.gathered[0] = unsafe.Slice((*byte)(at), n)
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
		e.gathered[count] = unsafe.Slice((*byte)(at), m)
		count++
		offset = 0
		if n -= m; n == 0 {
			break
		}
	}
	return count
}

// ask sends a READ request for packets k to end of a READ, or an atomic.
func (q *queuePair) ask(w *sendWork, k, end uint32) {
	op := wire.ReadRequest
	switch w.opcode {
	case verbs.OpCompareSwap:
		op = wire.CompareSwap
	case verbs.OpFetchAdd:
		op = wire.FetchAdd
	default:
	}
	h := q.e.out.Open(&q.path.Path, wire.MakeOpcode(wire.RC, op), wire.FlagAckReq, q.attr.DestQPN, (w.psn+k)&wire.Mask24, 0)
	if op == wire.ReadRequest {
		offset := k * q.mtu
		wire.RETH{Addr: w.remote + uint64(offset), RKey: w.rkey, Length: min(w.length, end*q.mtu) - offset}.Put(h)
	} else {
		eth := wire.AtomicETH{Addr: w.remote, RKey: w.rkey, SwapAdd: w.compareAdd}
		if op == wire.CompareSwap {
			eth.SwapAdd, eth.Compare = w.swap, w.compareAdd
		}
		eth.Put(h)
	}
	q.e.out.Close()
}

// onResponse handles a packet from the peer's responder.
func (q *queuePair) onResponse(p *wire.Packet, now tick.Time) {
	r := &q.request
	if q.state != verbs.StateRTS && q.state != verbs.StateSQD || q.transport != verbs.RC {
		return
	}
	psn := p.PSN()
	if !r.owns(psn) {
		if wire.PSNDiff(psn, r.una) < 0 {
			r.onRepeated()
		}
		q.e.count.strayResponses++
		return
	}
	if p.Opcode == wire.RCAcknowledge {
		q.conclude(r.onAck(psn, p.AETH().Syndrome, now), now)
		return
	}
	original := uint64(0)
	data := p.Payload
	atomic := p.Opcode == wire.RCAtomicAcknowledge
	if atomic {
		original = p.Original()
		data = unsafe.Slice((*byte)(unsafe.Pointer(&original)), 8)
	}
	var v verdict
	index, offset, place := r.place(psn, len(data), !atomic, now, &v)
	switch place {
	case dropped:
		q.conclude(v, now)
	case malformed:
		v.status = verbs.BadResponseError
		q.conclude(v, now)
	case wanted:
		if !q.scatterAt(q.send.list(index, q.send.at(index).sges), offset, data) {
			q.send.at(index).failure = verbs.LocalProtectionError
			q.conclude(v, now)
			return
		}
		r.arrived(index, psn, len(data), p.Opcode.Ends(), now, &v)
		q.conclude(v, now)
	}
}

// onTick lets the requester's clocks run.
func (q *queuePair) onTick(now tick.Time) { q.conclude(q.request.onTick(now), now) }

// conclude does what a verdict says.
func (q *queuePair) conclude(v verdict, now tick.Time) {
	r, p, c := &q.request, q.path, &q.e.count
	switch v.event {
	case noEvent:
	case rnrNAKReceived:
		c.rnrNAKsReceived++
	case sequenceNAKReceived:
		c.sequenceNAKsReceived++
	case impliedNAK:
		c.impliedNAKs++
	case timedOut:
		c.timeouts++
	case retriesExceeded:
		c.timeouts++
		c.retriesExceeded++
	}
	c.resentPackets += uint64(v.resent)
	q.charge()
	if v.acked > 0 {
		p.window.onAcked(v.acked, r.trip)
	}
	if v.read > 0 {
		p.reads.onAcked(v.read, r.trip)
	}
	if v.lost {
		p.window.onLoss(now, r.trip.smoothed)
	}
	q.retire()
	if r.isRefused() && (v.status == verbs.RetryExceeded || now >= r.believedAt) {
		v.status = r.refusal
	}
	if v.status != verbs.Success {
		q.failSend(v.status)
		return
	}
	q.kick()
	q.clock()
}

// charge brings the path's windows up to date with what the queue pair has on the way. A peer that may be gone takes nothing.
func (q *queuePair) charge() {
	r, p := &q.request, q.path
	if p == nil { // UD
		return
	}
	sent, asked := r.inFlight, r.awaited
	if r.silent >= silentProbes {
		sent, asked = 0, 0
	}
	p.window.inFlight += sent - q.charged
	p.reads.inFlight += asked - q.reading
	q.charged, q.reading = sent, asked
}

// retire completes requests in order, as far as they are finished.
func (q *queuePair) retire() {
	s, r := &q.send, &q.request
	for s.done != s.tail {
		if int32(s.flushTo-s.done) > 0 {
			if q.flush(); int32(s.flushTo-s.done) > 0 {
				return
			}
			continue
		}
		w := s.at(s.done)
		if w.failure != verbs.Success {
			q.failSend(w.failure)
			return
		}
		if q.transport == verbs.RC && w.packets > 0 {
			if !w.started || wire.PSNDiff(r.una, w.psn+w.packets) < 0 {
				break
			}
		} else if !w.finished || s.done == s.next {
			break
		}
		if !q.signalAll && w.flags&verbs.Signaled == 0 {
			s.done++
		} else if !q.completeSend(verbs.Success) {
			q.enterError()
			return
		}
	}
	if q.state == verbs.StateSQD {
		q.checkDrained()
	}
}

// scatterAt copies b to a scatter list from an offset on.
func (q *queuePair) scatterAt(list []verbs.SGE, offset uint32, b []byte) bool {
	for i := range list {
		g := &list[i]
		if offset >= g.Length {
			offset -= g.Length
			continue
		}
		n := min(int(g.Length-offset), len(b))
		at := q.e.local(q.pd, g.Addr+uint64(offset), uint32(n), g.LKey, verbs.AccessLocalWrite)
		if at == nil {
			return false
		}
		copy(unsafe.Slice((*byte)(at), n), b)
		b = b[n:]
		offset = 0
		if len(b) == 0 {
			return true
		}
	}
	return len(b) == 0
}
