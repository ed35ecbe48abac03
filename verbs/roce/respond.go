package roce

import (
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
)

// A queue pair sends here what its responder owes: ACKs, NAKs, and answers to READs and atomics.

// oweAnswers puts the queue pair in line for what it owes.
func (q *queuePair) oweAnswers() {
	r := &q.respond
	if r.ackDue && !q.inAcks {
		q.inAcks = true
		q.e.acks = append(q.e.acks, q)
	}
	if !r.reads.empty() {
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
		may := q.respond.mayAcknowledge()
		if !may && q.respond.ackDue {
			kept = append(kept, q)
			continue
		}
		q.inAcks = false
		for may && q.respond.ackDue {
			q.acknowledge()
		}
	}
	e.acks = kept
	e.unacked = 0
}

// acknowledge sends the ACK or NAK that is due; ERR follows one that is fatal.
func (q *queuePair) acknowledge() {
	e, r := q.e, &q.respond
	s, psn := r.acknowledged()
	wire.AETH{Syndrome: s, MSN: r.msn}.Put(e.out.Open(&q.path.Path, wire.RCAcknowledge, 0, q.attr.DestQPN, psn, 0))
	e.out.Close()
	e.count.acks++
	if r.dying {
		q.enterError()
	}
}

// sendResponses sends up to quantum packets of READ and atomic responses and returns how many.
func (q *queuePair) sendResponses(quantum int) int {
	r := &q.respond
	sent := 0
	for ; sent < quantum; sent++ {
		a, w := r.reads.head()
		if a == nil {
			break
		}
		if w.atomic {
			q.respondAtomic(w)
		} else if !q.respondRead(w, a) {
			psn := (w.psn + a.sent) & wire.Mask24
			r.forget()
			q.refuse(noAccess, psn)
			return sent
		}
		r.answered(a, w)
	}
	if r.mayAcknowledge() {
		q.e.flushAcks()
	}
	return sent
}

func (q *queuePair) respondAtomic(w *readWork) {
	h := q.e.out.Open(&q.path.Path, wire.RCAtomicAcknowledge, 0, q.attr.DestQPN, w.psn, 0)
	wire.AETH{Syndrome: wire.SyndromeAck, MSN: q.respond.msn}.Put(h)
	putUint32(h[wire.AETHBytes:], uint32(w.original>>32))
	putUint32(h[wire.AETHBytes+4:], uint32(w.original))
	q.e.out.Close()
}

// respondRead sends the next packet of an answer. A part of a READ ends with LAST; only the whole starts with FIRST.
func (q *queuePair) respondRead(w *readWork, a *dueAnswer) bool {
	e := q.e
	offset := a.sent * q.mtu
	n := int(min(q.mtu, w.length-offset))
	var at unsafe.Pointer
	if n > 0 {
		if at = e.remote(q, w.addr+uint64(offset), uint64(n), w.rkey, verbs.AccessRemoteRead); at == nil {
			return false
		}
	}
	code := wire.RCReadResponseMiddle
	switch {
	case a.sent == 0 && a.end == 1:
		code = wire.RCReadResponseOnly
	case a.sent == 0:
		code = wire.RCReadResponseFirst
	case a.sent+1 == a.end:
		code = wire.RCReadResponseLast
	}
	h := e.out.Open(&q.path.Path, code, 0, q.attr.DestQPN, (w.psn+a.sent)&wire.Mask24, n)
	if len(h) > 0 {
		wire.AETH{Syndrome: wire.SyndromeAck, MSN: q.respond.msn}.Put(h)
	}
	if n > 0 {
		e.out.Payload(unsafe.Slice((*byte)(at), n))
	}
	e.out.Close()
	return true
}
