package roce

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
	"github.com/gobw/gobw/verbs/tick"
)

// PostSend queues requests and sends what the windows admit at once.
func (q *queuePair) PostSend(list []verbs.SendRequest) error {
	e := q.e
	e.lock()
	defer e.unlock()
	var failed error
	for i := range list {
		if err := q.post(&list[i]); err != nil {
			failed = e.fail("post send", q.qpn, &verbs.PostError{Index: i, Err: err})
			break
		}
	}
	q.sendPosted()
	return failed
}

// sendPosted sends what was posted, and acknowledgements that are due.
func (q *queuePair) sendPosted() {
	if q.Closed() {
		return
	}
	switch q.state {
	case verbs.StateRTS:
		e := q.e
		now := tick.Now()
		q.kick()
		e.transmit(now)
		if len(e.acks) > 0 && e.out.Single() && e.replies.next(now) {
			e.out.Flush()
		}
		e.flushAcks()
		e.out.Flush()
		e.wakeSleepers()
	case verbs.StateError, verbs.StateSQE:
		q.flush()
	case verbs.StateReset, verbs.StateInit, verbs.StateRTR, verbs.StateSQD:
	}
}

// kick puts the queue pair in line for sending.
func (q *queuePair) kick() {
	if q.Closed() || q.send.next == q.send.tail && len(q.request.mends) == 0 || q.state != verbs.StateRTS && q.state != verbs.StateSQD {
		return
	}
	if q.path != nil {
		q.path.requests.push(q)
		q.e.makeBusy(q.path)
	} else {
		q.e.datagrams.push(q)
	}
}

var (
	errAtomicLength = errors.New("an atomic's list is one entry of 8 bytes")
	errAtomicAlign  = errors.New("an atomic's remote address is a multiple of 8")
	errNoAH         = errors.New("a UD send needs an address handle")
	errInlineOp     = errors.New("INLINE is for SEND and WRITE")
	errForeignPD    = errors.New("handle of another protection domain")
	errBind         = errors.New("BIND_MW needs a window and a region of this device")
	errLong         = fmt.Errorf("message longer than %d bytes", maxMessage)
)

// post checks a request and copies it into the ring.
func (q *queuePair) post(r *verbs.SendRequest) error {
	if err := q.maySend(); err != nil {
		return err
	}
	s := &q.send
	w := s.at(s.tail)
	if err := q.compile(r, w); err != nil {
		return err
	}
	if r.Flags&verbs.Inline != 0 {
		q.copyInline(r.SGEs)
	} else {
		copy(s.list(s.tail, w.sges), r.SGEs)
	}
	q.number(w)
	return nil
}

// maySend tells whether the state and the queue admit another request.
func (q *queuePair) maySend() error {
	s := &q.send
	switch {
	case q.Closed():
		return verbs.ErrClosed
	case q.state < verbs.StateRTS:
		return fmt.Errorf("queue pair is in %v: sends may be posted from RTS on", q.state)
	case s.tail-s.released >= s.depth:
		return verbs.ErrQueueFull
	}
	return nil
}

// number gives the request in the next slot its PSNs; it is posted then.
func (q *queuePair) number(w *sendWork) {
	w.psn = q.request.postPSN
	q.request.postPSN = (q.request.postPSN + w.packets) & wire.Mask24
	q.send.tail++
}

// compile checks a request against the queue pair and fills in w, all but its place in the ring.
func (q *queuePair) compile(r *verbs.SendRequest, w *sendWork) error {
	s := &q.send
	if !q.transport.Supports(r.Opcode) || r.Opcode > verbs.OpSendWithInvalidate {
		return fmt.Errorf("%v on %v: %w", r.Opcode, q.transport, verbs.ErrUnsupported)
	}
	if uint32(len(r.SGEs)) > s.maxSGE {
		return fmt.Errorf("%d scatter/gather entries: the queue pair was made for %d", len(r.SGEs), s.maxSGE)
	}
	length := r.Length()
	if length > maxMessage {
		return errLong
	}
	*w = sendWork{
		id: r.ID, remote: r.RemoteAddr, length: uint32(length), rkey: r.RKey, immediate: r.Immediate, opcode: r.Opcode, flags: r.Flags,
		compareAdd: r.CompareAdd, swap: r.Swap, sges: uint8(len(r.SGEs)),
	}
	switch r.Opcode {
	case verbs.OpCompareSwap, verbs.OpFetchAdd:
		if len(r.SGEs) != 1 || length != 8 {
			return errAtomicLength
		}
		if r.RemoteAddr&7 != 0 {
			return errAtomicAlign
		}
		w.packets = 1
	case verbs.OpLocalInvalidate:
		w.immediate = r.InvalidateRKey
		w.sges = 0
	case verbs.OpBindMW:
		if err := q.compileBind(w, r.Bind); err != nil {
			return err
		}
	case verbs.OpSendWithInvalidate:
		w.immediate = r.InvalidateRKey
		w.packets = packetsOf(w.length, q.mtu)
	case verbs.OpWrite, verbs.OpWriteWithImmediate, verbs.OpSend, verbs.OpSendWithImmediate:
		w.packets = packetsOf(w.length, q.mtu)
	case verbs.OpRead:
		if w.packets = packetsOf(w.length, q.mtu); w.packets >= 1<<23 {
			return fmt.Errorf("READ of %d packets of %d bytes: packet numbers admit fewer than 2^23; split it or raise the path MTU", w.packets, q.mtu)
		}
	}
	if q.transport == verbs.UD {
		ah, ok := r.AH.(*addressHandle)
		switch {
		case !ok || ah == nil:
			return errNoAH
		case ah.e != q.e || ah.pd != q.pd:
			return errForeignPD
		case ah.Closed():
			return fmt.Errorf("address handle: %w", verbs.ErrClosed)
		}
		w.ah, w.remoteQPN, w.remoteQKey, w.packets = ah, r.RemoteQPN, r.RemoteQKey, 1
	}
	if r.Flags&verbs.Inline != 0 {
		switch r.Opcode {
		case verbs.OpSend, verbs.OpSendWithImmediate, verbs.OpSendWithInvalidate, verbs.OpWrite, verbs.OpWriteWithImmediate:
		default:
			return errInlineOp
		}
		if w.length > s.inlineBytes {
			return fmt.Errorf("%d bytes inline: the queue pair was made for %d", w.length, s.inlineBytes)
		}
	}
	return nil
}

// packetsOf is how many packets carry a message of length bytes.
func packetsOf(length, mtu uint32) uint32 {
	if length <= mtu || mtu == 0 {
		return 1
	}
	return (length + mtu - 1) / mtu
}

// copyInline copies the payload of the request in the next slot: its memory is the caller's again.
func (q *queuePair) copyInline(list []verbs.SGE) {
	if q.send.inlineBytes == 0 {
		return
	}
	b := q.send.inlined(q.send.tail)
	for _, g := range list {
		if g.Length == 0 {
			continue
		}
		at := inlineSource(g.Addr)
		copy(b, unsafe.Slice((*byte)(at), g.Length))
		b = b[g.Length:]
	}
}

func (q *queuePair) compileBind(w *sendWork, b *verbs.MemoryWindowBind) error {
	if b == nil {
		return errBind
	}
	window, ok := b.Window.(*memoryWindow)
	if !ok || window == nil || window.e != q.e {
		return errBind
	}
	bound := &boundWindow{window: window, rkey: b.RKey, addr: b.Addr, length: b.Length, access: b.Access}
	if b.Region != nil {
		region, ok := b.Region.(*memoryRegion)
		if !ok || region == nil || region.e != q.e {
			return errBind
		}
		bound.region = region
	}
	w.bound = bound
	w.sges = 0
	return nil
}

// inlineSource is the memory an inline entry names: any address of this process, registered or not.
func inlineSource(addr uint64) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&addr))
}
