package roce

import (
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
)

// onResponse handles a packet from the peer's responder (IBTA 9.7.5, 9.7.7).
func (q *queuePair) onResponse(p *wire.Packet, now verbs.Ticks) {
	r := &q.request
	if q.state != verbs.StateRTS && q.state != verbs.StateSQD {
		return
	}
	psn := p.PSN()
	if wire.PSNDiff(psn, r.high) >= 0 || wire.PSNDiff(psn, r.una) < 0 {
		// never sent, or stale; but a NAK of the oldest may carry news of a sequence error only for what is outstanding
		q.e.count.strayResponses++
		return
	}
	switch p.Opcode {
	case wire.RCAcknowledge:
		q.onAck(psn, p.AETH().Syndrome, now)
	case wire.RCAtomicAcknowledge:
		q.onAtomic(psn, p.AtomicAckETH().Original, now)
	default:
		q.onRead(p, psn, now)
	}
}

// onAck handles ACK, RNR NAK and NAK.
func (q *queuePair) onAck(psn uint32, s wire.Syndrome, now verbs.Ticks) {
	r := &q.request
	switch s.Class() {
	case wire.ClassACK:
		if !q.advance(psn+1, now) {
			q.implied(now)
		}
		q.retire()
		r.afterProbe(q, psn, now)
	case wire.ClassRNR:
		q.advance(psn, now)
		q.retire()
		if r.una != psn {
			q.implied(now)
			return
		}
		if r.rnrAt != 0 {
			return // a copy: nothing was sent since
		}
		q.e.count.rnrNAKsReceived++
		if q.attr.RNRRetry != 7 {
			if r.rnrLeft == 0 {
				q.fail(verbs.RNRRetryExceeded)
				return
			}
			r.rnrLeft--
		}
		q.rewind(psn)
		r.rnrAt = now + q.e.clock.ticks(s.RNRTimer())
		q.e.timer(r.rnrAt)
	case wire.ClassNAK:
		if s == wire.NAKSequenceError {
			q.onSequenceError(psn, now)
			return
		}
		reached := q.advance(psn, now)
		q.retire()
		if !reached { // the NAK is not of the READ whose answer was lost: that one is asked for again, as rxe does
			q.implied(now)
			return
		}
		status := verbs.BadResponseError
		switch s {
		case wire.NAKInvalidRequest:
			status = verbs.RemoteInvalidReqErr
		case wire.NAKRemoteAccessError:
			status = verbs.RemoteAccessError
		case wire.NAKRemoteOperational:
			status = verbs.RemoteOpError
		default:
		}
		q.fail(status)
	case wire.ClassReserved:
	}
}

// onSequenceError goes back to the packet the peer waits for.
func (q *queuePair) onSequenceError(psn uint32, now verbs.Ticks) {
	r := &q.request
	if r.rnrAt != 0 {
		return // the RNR wait resends from there anyway
	}
	q.e.count.sequenceNAKsReceived++
	progressed := psn != r.una
	q.advance(psn, now)
	q.retire()
	if r.una != psn { // a READ before it has not been answered
		q.implied(now)
		return
	}
	q.path.window.onLoss(now, r.roundTrip())
	if !progressed && !r.spend() {
		q.fail(verbs.RetryExceeded)
		return
	}
	q.rewind(psn)
	q.kick()
}

// advance takes everything before psn as acknowledged. It stops at a READ or atomic without all its data, and then
// reports false: the peer has answered it and the answer was lost.
func (q *queuePair) advance(psn uint32, now verbs.Ticks) bool {
	s, r := &q.send, &q.request
	psn &= wire.Mask24
	released := 0
	reached := true
	from := r.una
	for i := s.done; wire.PSNDiff(psn, r.una) > 0; i++ {
		w := s.at(i)
		end := (w.psn + w.packets) & wire.Mask24
		if wire.PSNDiff(r.una, end) >= 0 {
			continue // local, or acknowledged in full
		}
		if w.isResponded() {
			if !w.finished {
				reached = false
				break
			}
			r.una = end
			continue
		}
		stop := end
		if wire.PSNDiff(psn, end) < 0 {
			stop = psn
		}
		if flown := wire.PSNDiff(r.nxt, r.una); flown > 0 { // not rewound: still charged
			a := (r.una - w.psn) & wire.Mask24
			released += q.cost(w, a, a+min(uint32(flown), (stop-r.una)&wire.Mask24))
		}
		r.una = stop
	}
	if r.una != from {
		q.release(released)
		r.onProgress(q, now)
		if wire.PSNDiff(r.una, r.nxt) > 0 { // acknowledged although it was to be sent again
			q.seek(r.una)
		}
	}
	return reached
}

// release takes bytes off the window.
func (q *queuePair) release(bytes int) {
	q.request.inFlight -= bytes
	q.path.window.onAcked(bytes)
}

// implied resends from the READ or atomic whose answer was lost, once per gap.
func (q *queuePair) implied(now verbs.Ticks) {
	r := &q.request
	if r.gapKnown && r.gap == r.una {
		return
	}
	r.gapKnown, r.gap = true, r.una
	q.e.count.impliedNAKs++
	q.path.window.onLoss(now, r.roundTrip())
	q.rewind(r.una)
	q.kick()
}

// rewind makes psn the next to be sent.
func (q *queuePair) rewind(psn uint32) {
	s, r := &q.send, &q.request
	if wire.PSNDiff(r.nxt, psn) <= 0 {
		return
	}
	released := 0
	for i := s.done; i != s.tail; i++ {
		w := s.at(i)
		end := (w.psn + w.packets) & wire.Mask24
		if w.packets == 0 || wire.PSNDiff(psn, end) >= 0 {
			continue
		}
		if wire.PSNDiff(w.psn, r.nxt) >= 0 {
			break
		}
		if w.isResponded() {
			r.readInFlight -= int(w.charged)
			q.e.readsInFlight -= int(w.charged)
			w.charged = 0
			continue
		}
		a, b := uint32(0), w.packets
		if wire.PSNDiff(psn, w.psn) > 0 {
			a = (psn - w.psn) & wire.Mask24
		}
		if wire.PSNDiff(r.nxt, end) < 0 {
			b = (r.nxt - w.psn) & wire.Mask24
		}
		released += q.cost(w, a, b)
	}
	r.inFlight -= released
	q.path.window.inFlight -= released
	q.e.count.resentPackets += uint64(wire.PSNDiff(r.nxt, psn))
	r.unsample()
	q.seek(psn)
}

// seek sets the position of the next packet.
func (q *queuePair) seek(psn uint32) {
	s, r := &q.send, &q.request
	r.nxt = psn
	r.packet = 0
	r.unasked = 0
	i := s.done
	for ; i != s.tail; i++ {
		w := s.at(i)
		if w.packets == 0 {
			if !w.started {
				break
			}
			continue
		}
		if wire.PSNDiff(psn, w.psn+w.packets) < 0 {
			if !w.isResponded() {
				r.packet = (psn - w.psn) & wire.Mask24
			}
			break
		}
	}
	s.next = i
}

// fail ends the queue pair: the oldest request that is not complete gets the status.
func (q *queuePair) fail(status verbs.Status) {
	s := &q.send
	if s.done == s.tail {
		q.enterError()
		return
	}
	if s.done == s.next {
		s.next++
	}
	q.failSend(status)
}

// responded finds the oldest READ or atomic without all its data.
func (q *queuePair) responded() (uint32, *sendWork) {
	s := &q.send
	for i := s.done; i != s.tail; i++ {
		w := s.at(i)
		if !w.started {
			break
		}
		if w.isResponded() && !w.finished {
			return i, w
		}
	}
	return 0, nil
}

// onRead handles a READ response: in order, or not at all.
func (q *queuePair) onRead(p *wire.Packet, psn uint32, now verbs.Ticks) {
	r := &q.request
	index, w := q.responded()
	if w == nil || wire.PSNDiff(psn, w.psn+w.got) < 0 {
		return // a replay of what arrived already
	}
	if want := (w.psn + w.got) & wire.Mask24; psn != want {
		q.advance(w.psn, now)
		q.retire()
		if r.una == want {
			q.implied(now)
		}
		return
	}
	if w.opcode != verbs.OpRead {
		q.fail(verbs.BadResponseError)
		return
	}
	offset := w.got * q.mtu
	want := min(q.mtu, w.length-offset)
	if uint32(len(p.Payload)) != want {
		q.advance(w.psn, now)
		q.retire()
		q.fail(verbs.BadResponseError)
		return
	}
	q.advance(w.psn, now)
	if !q.scatterAt(q.send.list(index, w.sges), offset, p.Payload) {
		q.retire()
		q.fail(verbs.LocalProtError)
		return
	}
	charged := min(uint32(len(p.Payload)), w.charged)
	w.charged -= charged
	r.readInFlight -= int(charged)
	q.e.readsInFlight -= int(charged)
	w.got++
	r.una = (psn + 1) & wire.Mask24
	r.onProgress(q, now)
	if w.got == w.packets {
		q.answer(w)
	}
	if wire.PSNDiff(r.una, r.nxt) > 0 {
		q.seek(r.una)
	}
	q.retire()
}

// onAtomic handles the answer to an atomic.
func (q *queuePair) onAtomic(psn uint32, original uint64, now verbs.Ticks) {
	r := &q.request
	index, w := q.responded()
	if w == nil || wire.PSNDiff(psn, w.psn+w.got) < 0 {
		return
	}
	if psn != (w.psn+w.got)&wire.Mask24 {
		q.advance(w.psn, now)
		q.retire()
		if r.una == (w.psn+w.got)&wire.Mask24 {
			q.implied(now)
		}
		return
	}
	q.advance(w.psn, now)
	if w.opcode == verbs.OpRead {
		q.retire()
		q.fail(verbs.BadResponseError)
		return
	}
	if !q.scatterAt(q.send.list(index, w.sges), 0, unsafe.Slice((*byte)(unsafe.Pointer(&original)), 8)) {
		q.retire()
		q.fail(verbs.LocalProtError)
		return
	}
	w.got = 1
	r.una = (psn + 1) & wire.Mask24
	r.onProgress(q, now)
	q.answer(w)
	if wire.PSNDiff(r.una, r.nxt) > 0 {
		q.seek(r.una)
	}
	q.retire()
}

// answer finishes a READ or atomic: another may start.
func (q *queuePair) answer(w *sendWork) {
	w.finished = true
	q.request.outstanding--
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
