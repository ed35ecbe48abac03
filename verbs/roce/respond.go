package roce

import (
	"encoding/binary"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/rc"
	"github.com/gobw/gobw/verbs/roce/wire"
)

// A queue pair sends here what its responder owes: ACKs, NAKs, and answers to READs and atomics.

// oweAnswers puts the queue pair in line for what it owes.
func (q *queuePair) oweAnswers() {
	r := &q.respond
	if r.AckDue && !q.inAcks {
		q.inAcks = true
		q.e.acks = append(q.e.acks, q)
	}
	if r.OwesAnswers() {
		q.path.responses.push(q)
		q.e.makeBusy(q.path)
	}
}

// flushAcks sends the ACKs and NAKs that are due, as far as READ responses do not come first.
func (e *engine) flushAcks() {
	if len(e.acks) == 0 {
		return
	}
	kept := e.acks[:0]
	for _, q := range e.acks {
		for q.respond.MayAcknowledge() {
			q.acknowledge()
		}
		if q.inAcks = q.respond.AckDue; q.inAcks {
			kept = append(kept, q)
		}
	}
	e.acks = kept
	e.unacked = 0
}

// acknowledge sends the ACK or NAK that is due; ERR follows one that is fatal.
func (q *queuePair) acknowledge() {
	a := q.respond.Acknowledgement()
	q.answer(&a)
	q.e.count.acks++
	if q.respond.Refused {
		q.enterError()
	}
}

// sendResponses sends up to quantum packets of READ and atomic responses and returns how many.
func (q *queuePair) sendResponses(quantum int) int {
	r := &q.respond
	sent := 0
	for ; sent < quantum; sent++ {
		a, ok := r.NextAnswer()
		if !ok {
			break
		}
		if !q.answer(&a) {
			r.Forget()
			q.refuse(verbs.LocalAccessError, a.PSN)
			return sent
		}
		r.Answered()
	}
	if r.MayAcknowledge() {
		q.e.flushAcks()
	}
	return sent
}

// answer sends a packet to the peer's requester. It reports false where the memory that it was to bring is gone.
func (q *queuePair) answer(a *rc.Answer) bool {
	var data []byte
	if a.Bytes > 0 {
		at := q.e.remote(q, a.Addr, uint64(a.Bytes), a.RKey, verbs.AccessRemoteRead)
		if at == nil {
			return false
		}
		data = unsafe.Slice((*byte)(at), a.Bytes)
	}
	out := &q.e.out
	h := out.Open(&q.path.Path, a.Code, 0, q.attr.DestQPN, a.PSN, len(data))
	if len(h) > 0 { // a MIDDLE has none
		a.AETH.Put(h)
	}
	if a.Code == wire.RCAtomicAcknowledge {
		binary.BigEndian.PutUint64(h[wire.AETHBytes:], a.Original)
	}
	if q.e.gathered[0] = data; len(data) > 0 && !q.e.payload(q.e.gathered[:1]) {
		return false
	}
	out.Close()
	return true
}
