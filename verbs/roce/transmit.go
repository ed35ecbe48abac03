package roce

import (
	"encoding/binary"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
	"github.com/gobw/gobw/verbs/tick"
)

// A queue pair does here what its requester says: it looks at memory, makes packets and completes requests.

// sendSome sends up to quantum packets.
func (q *queuePair) sendSome(now tick.Time, quantum int) (int, outcome) {
	r, sent := &q.request, 0
	if q.state != verbs.StateRTS && q.state != verbs.StateSQD {
		return 0, idle
	}
	for {
		p, why := r.toSend(quantum - sent)
		switch {
		case why == begins:
			r.begun(p.w, q.check(p.index, p.w))
			continue
		case why == ready && q.send(&p):
			r.sent(&p, now)
			sent++
			continue
		case why == ready:
			r.refuse(p.index, verbs.LocalProtectionError)
			why = idle
		}
		q.settle()
		return sent, why
	}
}

// check looks at a request's memory before its first packet leaves, and executes one that is local.
func (q *queuePair) check(index uint32, w *sendWork) verbs.Status {
	var need verbs.Access
	switch {
	case w.opcode == verbs.OpBindMW:
		if !q.bind(q.sends.slot(index).bound) {
			return verbs.MWBindError
		}
		return verbs.Success
	case w.opcode == verbs.OpLocalInvalidate:
		if !q.invalidate(w.immediate) {
			return verbs.LocalQPOperationError
		}
		return verbs.Success
	case w.isResponded():
		if q.attr.MaxRDAtomic == 0 {
			return verbs.LocalQPOperationError
		}
		need = verbs.AccessLocalWrite
	case q.transport == verbs.UD && w.length > q.mtu:
		return verbs.LocalLengthError
	case w.flags&verbs.Inline != 0:
		return verbs.Success
	}
	for _, g := range q.sends.list(index) {
		if g.Length > 0 && q.e.local(q.pd, g.Addr, g.Length, g.LKey, need) == nil {
			return verbs.LocalProtectionError
		}
	}
	return verbs.Success
}

// send sends a packet. It reports false when the memory is gone.
func (q *queuePair) send(p *outgoing) bool {
	e, w, slot := q.e, p.w, q.sends.slot(p.index)
	offset, n, pieces, length := p.k*q.mtu, uint32(0), 0, w.length
	if w.isResponded() {
		length = min(length, p.end*q.mtu) - offset
	} else {
		n = min(q.mtu, length-offset)
		if pieces = q.gather(p.index, w, offset, n); pieces < 0 {
			return false
		}
	}
	code := wire.MakeOpcode(q.wire, w.operation(p.k))
	var flags wire.BTHFlags
	if p.asks {
		flags |= wire.FlagAckReq
	}
	if w.flags&verbs.Solicited != 0 && code.CompletesReceive() {
		flags |= wire.FlagSolicited
	}
	to, qpn := q.path, q.attr.DestQPN
	if slot.ah != nil {
		to, qpn = slot.ah.path, slot.remoteQPN
	}
	h := e.out.Open(&to.Path, code, flags, qpn, (w.psn+p.k)&wire.Mask24, int(n))
	if slot.ah != nil {
		qkey := slot.remoteQKey
		if qkey>>31 != 0 { // IBTA 10.2.5: a privileged key is the queue pair's own
			qkey = q.attr.QKey
		}
		wire.DETH{QKey: qkey, SourceQPN: q.qpn}.Put(h)
		h = h[wire.DETHBytes:]
	}
	switch {
	case code.Has(wire.HasRETH):
		wire.RETH{Addr: w.remote + uint64(offset), RKey: w.rkey, Length: length}.Put(h)
		h = h[wire.RETHBytes:]
	case w.opcode == verbs.OpFetchAdd:
		wire.AtomicETH{Addr: w.remote, RKey: w.rkey, SwapAdd: w.compareAdd}.Put(h)
		h = nil
	case w.opcode == verbs.OpCompareSwap:
		wire.AtomicETH{Addr: w.remote, RKey: w.rkey, SwapAdd: w.swap, Compare: w.compareAdd}.Put(h)
		h = nil
	}
	if len(h) > 0 {
		binary.BigEndian.PutUint32(h, w.immediate)
	}
	for i := range pieces {
		e.out.Payload(e.gathered[i])
	}
	e.out.Close()
	return true
}

// gather finds n bytes of request index's payload from offset on and leaves them in e.gathered; -1 when memory is gone.
func (q *queuePair) gather(index uint32, w *sendWork, offset, n uint32) int {
	e := q.e
	if n == 0 {
		return 0
	}
	if w.flags&verbs.Inline != 0 {
		e.gathered[0] = q.sends.inlined(index)[offset : offset+n]
		return 1
	}
	list := q.sends.list(index)
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

// onResponse handles a packet from the peer's responder.
func (q *queuePair) onResponse(p *wire.Packet, now tick.Time) {
	r := &q.request
	if q.state != verbs.StateRTS && q.state != verbs.StateSQD || q.transport != verbs.RC {
		return
	}
	psn := p.PSN()
	if !r.owns(psn) {
		return
	}
	if p.Opcode == wire.RCAcknowledge {
		r.onAck(psn, p.AETH().Syndrome, now)
	} else {
		original := p.Original()
		data := p.Payload
		atomic := p.Opcode == wire.RCAtomicAcknowledge
		if atomic {
			data = unsafe.Slice((*byte)(unsafe.Pointer(&original)), 8)
		}
		if index, offset, wanted := r.place(psn, len(data), !atomic, now); wanted {
			if q.scatterAt(q.sends.list(index), offset, data) {
				r.arrived(index, psn, len(data), p.Opcode.Ends(), now)
			} else {
				r.refuse(index, verbs.LocalProtectionError)
			}
		}
	}
	q.settle()
	q.kick()
}

// onTick lets the requester's clocks run.
func (q *queuePair) onTick(now tick.Time) {
	q.request.onTick(now)
	q.settle()
	q.kick()
}

// settle completes requests in order, as far as they are complete, and has the requester looked at again in time.
func (q *queuePair) settle() {
	r := &q.request
	for {
		w, status := r.oldest()
		if w == nil {
			break
		}
		if status == verbs.Success && !q.signalAll && w.flags&verbs.Signaled == 0 {
			r.pop()
			continue
		}
		if status == verbs.FlushError && !q.sendCQ.room() {
			q.sendCQ.awaitRoom(q)
			return
		}
		c := verbs.Completion{ID: w.id, Status: status, Opcode: w.opcode.Completed(), QPN: q.qpn}
		switch {
		case status != verbs.Success && status != verbs.FlushError:
			c.VendorError = vendorError(status)
		case w.isResponded() && status == verbs.Success:
			c.Bytes = w.length
		}
		r.pop()
		switch noted := q.sendCQ.push(entry{Completion: c, qp: q, release: r.done}, false); {
		case c.VendorError != 0 && q.transport != verbs.RC && q.state == verbs.StateRTS: // UC and UD queues stop in SQE
			q.state = verbs.StateSQE
			r.flushTo = r.tail
		case c.VendorError != 0, !noted:
			q.enterError()
		}
	}
	if r.isDrained() && q.attr.SQDAsyncNotify {
		q.e.raise(verbs.AsyncEvent{Type: verbs.EventSQDrained, QP: q})
	}
	q.clock()
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
