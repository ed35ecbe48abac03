package roce

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/rc"
	"github.com/gobw/gobw/verbs/tick"
)

// PostSend queues requests and sends what the windows admit at once.
func (q *queuePair) PostSend(list []verbs.SendRequest) error {
	q.e.lock()
	defer q.e.unlock()
	err := q.queue(list)
	q.sendPosted()
	return err
}

// PostAll is PostSend for programs written for libibverbs (ibv_wr_complete): where one is refused, none is posted.
func (q *queuePair) PostAll(list []verbs.SendRequest) error {
	q.e.lock()
	defer q.e.unlock()
	first := q.request.Tail
	err := q.queue(list)
	if err != nil {
		q.request.Withdraw(first)
	}
	q.sendPosted()
	return err
}

// queue puts requests into the send queue, up to the first that it refuses.
func (q *queuePair) queue(list []verbs.SendRequest) error {
	for i := range list {
		if err := q.post(&list[i]); err != nil {
			return q.fail("post send", &verbs.PostError{Index: i, Err: err})
		}
	}
	return nil
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
	if q.Closed() || !q.request.HasWork() || q.state != verbs.StateRTS && q.state != verbs.StateSQD {
		return
	}
	q.path.requests.push(q)
	q.e.makeBusy(q.path)
}

var (
	errNoAH      = errors.New("a UD send needs an address handle")
	errInlineOp  = errors.New("INLINE is for SEND and WRITE")
	errForeignPD = errors.New("handle of another protection domain")
	errBind      = errors.New("BIND_MW needs a window and a region of this device")
	errLong      = fmt.Errorf("message longer than %d bytes", maxMessage)
)

// sendMemory is what the device keeps of the requests in a send queue, slot by slot, besides what the requester knows.
type sendMemory struct {
	slots               []sendSlot
	sges                []verbs.SGE
	inline              []byte
	mask                uint32
	maxSGE, inlineBytes uint32
}

// sendSlot is memory and handles of a request.
type sendSlot struct {
	sges       uint8
	ah         *addressHandle
	remoteQPN  uint32
	remoteQKey uint32
	bound      *verbs.MemoryWindowBind
}

func (s *sendMemory) slot(i uint32) *sendSlot { return &s.slots[i&s.mask] }

// list is the scatter/gather list of request i.
func (s *sendMemory) list(i uint32) []verbs.SGE {
	o := (i & s.mask) * s.maxSGE
	return s.sges[o : o+uint32(s.slots[i&s.mask].sges)]
}

func (s *sendMemory) inlined(i uint32) []byte {
	o := (i & s.mask) * s.inlineBytes
	return s.inline[o : o+s.inlineBytes]
}

// post checks a request and copies it into the ring.
func (q *queuePair) post(r *verbs.SendRequest) error {
	if err := q.maySend(); err != nil {
		return err
	}
	at := q.request.Tail
	if err := q.compile(r, q.request.At(at), q.sends.slot(at)); err != nil {
		return err
	}
	q.posted(r.SGEs)
	return nil
}

// posted puts the list of the request in the next slot there, or what it names.
func (q *queuePair) posted(list []verbs.SGE) {
	at := q.request.Tail
	if q.request.At(at).Flags&verbs.Inline != 0 {
		q.copyInline(list)
	} else {
		copy(q.sends.list(at), list)
	}
	q.request.Posted()
}

// maySend tells whether the state and the queue admit another request.
func (q *queuePair) maySend() error {
	switch {
	case q.Closed():
		return verbs.ErrClosed
	case q.state < verbs.StateRTS:
		return fmt.Errorf("queue pair is in %v: sends may be posted from RTS on", q.state)
	case q.request.Full():
		return verbs.ErrQueueFull
	}
	return nil
}

// compile checks a request against the queue pair and fills in its slot, all but the list.
func (q *queuePair) compile(r *verbs.SendRequest, w *rc.Work, slot *sendSlot) error {
	s := &q.sends
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
	*w = rc.Work{
		ID: r.ID, Remote: r.RemoteAddr, Length: uint32(length), RKey: r.RKey, Immediate: r.Immediate, Opcode: r.Opcode,
		Flags:      r.Flags,
		CompareAdd: r.CompareAdd, Swap: r.Swap,
	}
	*slot = sendSlot{sges: uint8(len(r.SGEs))}
	switch r.Opcode {
	case verbs.OpLocalInvalidate, verbs.OpSendWithInvalidate:
		w.Immediate = r.InvalidateRKey
	case verbs.OpBindMW:
		if err := q.compileBind(slot, r.Bind); err != nil {
			return err
		}
	case verbs.OpRead:
		if n := rc.PacketsOf(w.Length, q.mtu); n >= 1<<23 {
			return fmt.Errorf("READ of %d packets of %d bytes: packet numbers admit fewer than 2^23; "+
				"split it or raise the path MTU", n, q.mtu)
		}
	case verbs.OpWrite, verbs.OpWriteWithImmediate, verbs.OpSend, verbs.OpSendWithImmediate, verbs.OpCompareSwap,
		verbs.OpFetchAdd:
	}
	if w.IsLocal() {
		slot.sges = 0
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
		slot.ah, slot.remoteQPN, slot.remoteQKey = ah, r.RemoteQPN, r.RemoteQKey
	}
	if r.Flags&verbs.Inline != 0 {
		if w.IsLocal() || w.IsResponded() {
			return errInlineOp
		}
		if w.Length > s.inlineBytes {
			return fmt.Errorf("%d bytes inline: the queue pair was made for %d", w.Length, s.inlineBytes)
		}
	}
	return nil
}

// copyInline copies the payload of the request in the next slot: its memory is the caller's again.
func (q *queuePair) copyInline(list []verbs.SGE) {
	if q.sends.inlineBytes == 0 {
		return
	}
	b := q.sends.inlined(q.request.Tail)
	for _, g := range list {
		if g.Length == 0 {
			continue
		}
		at := inlineSource(g.Addr)
		copy(b, unsafe.Slice((*byte)(at), g.Length))
		b = b[g.Length:]
	}
}

func (q *queuePair) compileBind(slot *sendSlot, b *verbs.MemoryWindowBind) error {
	if b == nil {
		return errBind
	}
	window, ok := b.Window.(*memoryWindow)
	region, known := b.Region.(*memoryRegion)
	if !ok || window == nil || window.e != q.e || b.Region != nil && (!known || region == nil || region.e != q.e) {
		return errBind
	}
	bound := *b
	slot.bound = &bound
	return nil
}

// inlineSource is the memory an inline entry names: any address of this process, registered or not.
func inlineSource(addr uint64) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&addr))
}
