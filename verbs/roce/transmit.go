package roce

import (
	"encoding/binary"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/rc"
	"github.com/gobw/gobw/verbs/roce/wire"
	"github.com/gobw/gobw/verbs/tick"
)

// A queue pair does here what its requester says: it looks at memory, makes packets and completes requests.

// sendSome sends up to quantum packets.
func (q *queuePair) sendSome(now tick.Time, quantum int) (int, rc.Outcome) {
	r, sent := &q.request, 0
	if q.state != verbs.StateRTS && q.state != verbs.StateSQD {
		return 0, rc.Idle
	}
	var p rc.Packet
	for {
		why := r.ToSend(&p, quantum-sent)
		switch why { //nolint:exhaustive // the others end the loop
		case rc.Begins:
			r.Begun(p.Work, q.check(p.Index, p.Work))
			continue
		case rc.Ready:
			status := q.send(&p)
			if status == verbs.Success {
				r.Sent(&p, now)
				sent++
				continue
			}
			r.Refuse(p.Index, status)
			why = rc.Idle
		}
		q.settle()
		return sent, why
	}
}

// check executes a request that is local, and tells whether a READ or an atomic may be asked for. Where its answer goes
// is looked at when that comes, as NICs do: an atomic by a wrong local key has changed the peer's memory.
func (q *queuePair) check(index uint32, w *rc.Work) verbs.Status {
	switch {
	case w.Opcode == verbs.OpBindMW:
		if !q.bind(q.sends.slot(index).bound) {
			return verbs.MWBindError
		}
		return verbs.Success
	case w.Opcode == verbs.OpLocalInvalidate:
		if !q.invalidate(w.Immediate) {
			return verbs.MWBindError
		}
	case q.attr.MaxRDAtomic == 0:
		return verbs.LocalQPOperationError
	case w.Opcode != verbs.OpRead && w.Length != 8:
		return verbs.LocalLengthError
	}
	return verbs.Success
}

// send sends a packet, or tells why it cannot.
func (q *queuePair) send(p *rc.Packet) verbs.Status {
	e, w, slot := q.e, p.Work, q.sends.slot(p.Index)
	offset, n, pieces, length := p.K*q.mtu, uint32(0), 0, w.Length
	switch {
	case w.IsResponded():
		length = min(length, p.End*q.mtu) - offset
	case q.transport == verbs.UD && length > q.mtu:
		return verbs.LocalLengthError
	default:
		n = min(q.mtu, length-offset)
		if w.Flags&verbs.Inline != 0 {
			pieces = 1
			e.gathered[0] = q.sends.inlined(p.Index)[offset : offset+n]
		} else if pieces = q.gather(q.pd, q.sends.list(p.Index), offset, n, 0); pieces < 0 {
			return verbs.LocalProtectionError
		}
	}
	code := wire.MakeOpcode(q.wire, w.Operation(p.K))
	var flags wire.BTHFlags
	if p.Asks {
		flags |= wire.FlagAckReq
	}
	if w.Flags&verbs.Solicited != 0 && code.Has(wire.CompletesReceive) {
		flags |= wire.FlagSolicited
	}
	to, qpn := q.path, q.attr.DestQPN
	if slot.ah != nil {
		to, qpn = slot.ah.path, slot.remoteQPN
	}
	h := e.out.Open(&to.Path, code, flags, qpn, (w.PSN+p.K)&wire.Mask24, int(n))
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
		wire.RETH{Addr: w.Remote + uint64(offset), RKey: w.RKey, Length: length}.Put(h)
		h = h[wire.RETHBytes:]
	case w.Opcode == verbs.OpFetchAdd:
		wire.AtomicETH{Addr: w.Remote, RKey: w.RKey, SwapAdd: w.CompareAdd}.Put(h)
		h = nil
	case w.Opcode == verbs.OpCompareSwap:
		wire.AtomicETH{Addr: w.Remote, RKey: w.RKey, SwapAdd: w.Swap, Compare: w.CompareAdd}.Put(h)
		h = nil
	}
	if len(h) > 0 {
		binary.BigEndian.PutUint32(h, w.Immediate)
	}
	if pieces > 0 && !e.payload(e.gathered[:pieces]) {
		return verbs.LocalProtectionError
	}
	e.out.Close()
	return verbs.Success
}

// gather finds n bytes of a scatter/gather list of a domain from offset on, and leaves them in e.gathered; -1 where
// memory is gone, or may not be used so.
func (q *queuePair) gather(pd *protectionDomain, list []verbs.SGE, offset, n uint32, need verbs.Access) (count int) {
	for i := range list {
		g := &list[i]
		if n == 0 {
			break
		}
		if offset >= g.Length {
			offset -= g.Length
			continue
		}
		m := min(g.Length-offset, n)
		at := q.e.local(pd, g.Addr+uint64(offset), m, g.LKey, need)
		if at == nil {
			return -1
		}
		q.e.gathered[count] = unsafe.Slice((*byte)(at), m)
		count++
		offset, n = 0, n-m
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
	if !r.Owns(psn) {
		return
	}
	if p.Opcode == wire.RCAcknowledge {
		r.OnAck(psn, p.AETH().Syndrome, now)
	} else {
		original := p.Original()
		data := p.Payload
		atomic := p.Opcode == wire.RCAtomicAcknowledge
		if atomic {
			data = unsafe.Slice((*byte)(unsafe.Pointer(&original)), 8)
		}
		if index, offset, wanted := r.Place(psn, len(data), !atomic, now); wanted {
			if q.scatterAt(q.pd, q.sends.list(index), offset, data) {
				r.Arrived(index, psn, len(data), p.Opcode.Has(wire.Ends), now)
			} else {
				r.Refuse(index, verbs.LocalProtectionError)
			}
		}
	}
	q.settle()
	q.kick()
}

// onTick lets the requester's clocks run.
func (q *queuePair) onTick(now tick.Time) {
	q.request.OnTick(now)
	q.settle()
	q.kick()
}

// settle completes requests in order, as far as they are complete, and has the requester looked at again in time.
func (q *queuePair) settle() {
	r := &q.request
	for {
		w, status := r.Oldest()
		if w == nil {
			break
		}
		if status == verbs.Success && !q.signalAll && w.Flags&verbs.Signaled == 0 {
			r.Pop()
			continue
		}
		if status == verbs.FlushError && !q.sendCQ.room() {
			q.sendCQ.awaitRoom(q)
			return
		}
		c := verbs.Completion{ID: w.ID, Status: status, Opcode: w.Opcode.Completed(), QPN: q.qpn}
		switch {
		case status != verbs.Success && status != verbs.FlushError:
			c.VendorError = vendorError(status)
		case w.IsResponded() && status == verbs.Success:
			c.Bytes = w.Length
		}
		switch noted := q.sendCQ.push(&entry{Completion: c, qp: q, release: r.Pop()}, false); {
		case c.VendorError != 0 && q.transport != verbs.RC && q.state == verbs.StateRTS: // UC and UD queues stop in SQE
			q.state = verbs.StateSQE
			r.Flush()
		case c.VendorError != 0, !noted:
			q.enterError()
		}
	}
	if r.IsDrained() && q.attr.SQDAsyncNotify {
		q.e.raise(verbs.AsyncEvent{Type: verbs.EventSQDrained, QP: q})
	}
	q.clock()
}

// scatterAt copies b to a scatter list from an offset on.
func (q *queuePair) scatterAt(pd *protectionDomain, list []verbs.SGE, offset uint32, b []byte) bool {
	count := q.gather(pd, list, offset, uint32(len(b)), verbs.AccessLocalWrite)
	return count >= 0 && q.e.scatter(q.e.gathered[:count], b)
}
