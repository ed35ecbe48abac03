package rc

import (
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
)

// Responder is the receiving half of a queue pair: which packet is executed next, and what is owed to the peer (IBTA
// 9.7.4 for RC, 9.8.2 for UC). It is a value: it knows no socket, memory or completion queue. Its methods say what a
// packet is to it; execute.go and respond.go do it.
type Responder struct {
	mtu      uint32
	Expected uint32 // PSN that is executed next
	msn      uint32
	ackable  uint32 // PSN of the last SEND or WRITE packet executed
	nakSent  bool   // a sequence NAK or RNR NAK is outstanding
	Refused  bool   // the queue pair ends with a fatal NAK, which may wait for READ responses before it

	class wire.Class // of the message being received; ClassUnknown: none
	count *Counts

	// what is owed to the peer
	AckDue   bool // an ACK or NAK, perhaps behind answers
	syndrome wire.Syndrome
	ackPSN   uint32 // for NAKs
	wanted   bool   // an ACK is due for what came first
	repeats  int    // and so many for what came again
	ackAfter uint32 // the ACK leaves after this answer
	notReady bool   // an RNR NAK is outstanding: what follows is not kept
	held     heldPackets

	reads readQueue
}

// Begin starts numbering at the transition to RTR. With a pool, what arrives behind a gap is kept there.
func (r *Responder) Begin(psn, mtu uint32, depth uint8, pool *Pool, count *Counts) {
	r.Reset()
	r.mtu, r.Expected, r.ackable, r.count = mtu, psn, (psn-1)&wire.Mask24, count
	r.held.pool = pool
	r.reads = newReadQueue(depth)
}

// Serve has so many READs and atomics answered at once. Fewer than before take no place away: what
// the peer has outstanding is answered.
func (r *Responder) Serve(depth uint8) {
	if depth > 0 && RingSize(int(depth)) > uint32(len(r.reads.ring)) {
		r.reads = r.reads.grown(depth)
	}
}

// Reset forgets everything.
func (r *Responder) Reset() {
	r.held.clear()
	*r = Responder{}
}

// Admission is what a request is to the responder.
type Admission uint8

// Admissions.
const (
	Ignored   Admission = iota // it is dropped
	InTurn                     // it is to be executed
	Repeated                   // it was executed before
	Misplaced                  // it is not what comes next in its message
)

// Admit judges a packet of an RC queue pair in the order of checks that the specification gives.
func (r *Responder) Admit(p *wire.Packet) Admission {
	if r.Refused {
		return Ignored
	}
	psn := p.PSN()
	switch d := wire.PSNDiff(psn, r.Expected); {
	case d > 0:
		if !r.notReady {
			r.held.keep(psn, uint32(d), p.Raw)
		}
		r.ReportGap()
		return Ignored
	case d < 0:
		r.count.DuplicateRequests++
		return Repeated
	}
	class := wire.ClassUnknown // FIRST, MIDDLE …, LAST are of one class
	if !p.Opcode.Has(wire.Begins) {
		class = p.Opcode.Class()
	}
	if r.class != class {
		return Misplaced
	}
	return InTurn
}

// AdmitUnreliable tells whether a packet of a UC queue pair is to be executed: what does not fit is dropped without a
// word, and a gap costs the message it is in, whose receive is left for the next.
func (r *Responder) AdmitUnreliable(p *wire.Packet) bool {
	psn := p.PSN()
	continues := psn == r.Expected && r.class == p.Opcode.Class()
	r.Expected = (psn + 1) & wire.Mask24
	if p.Opcode.Has(wire.Begins) || !continues {
		r.class = wire.ClassUnknown
	}
	return p.Opcode.Has(wire.Begins) || continues
}

// Abandon leaves the message that is being received.
func (r *Responder) Abandon() { r.class = wire.ClassUnknown }

// ReportGap owes the peer a sequence NAK, one per gap.
func (r *Responder) ReportGap() {
	if !r.nakSent && !r.Refused {
		r.nakSent = true
		r.count.OutOfSequence++
		r.owe(wire.NAKSequenceError, r.Expected)
	}
}

// HasHeld tells whether something waits behind a gap.
func (r *Responder) HasHeld() bool { return r.held.n > 0 }

// NextHeld is the packet that is to be executed next, if it was kept.
func (r *Responder) NextHeld() (p wire.Packet, ok bool) {
	if r.Refused {
		return p, false
	}
	b := r.held.take(r.Expected)
	if b == nil {
		return p, false
	}
	p, err := wire.ParsePacket(b)
	return p, err == nil
}

// Sized checks the payload against the packet's place in its message.
func (r *Responder) Sized(o wire.Opcode, n uint32) bool {
	switch {
	case !o.Has(wire.Ends):
		return n == r.mtu
	case o.Has(wire.Begins):
		return n <= r.mtu
	default:
		return n >= 1 && n <= r.mtu
	}
}

// Received moves on behind a packet in its message.
func (r *Responder) Received(p *wire.Packet) {
	if r.class = p.Opcode.Class(); p.Opcode.Has(wire.Ends) {
		r.class = wire.ClassUnknown
	}
}

// Executed moves on behind a packet of a SEND or WRITE.
func (r *Responder) Executed(p *wire.Packet) {
	r.Received(p)
	r.ackable = p.PSN()
	r.Expected = (r.ackable + 1) & wire.Mask24
	if r.reads.fresh > 0 { // the ACK waits: the requester takes READs before it, whose answers have not left, for lost
		r.ackAfter = r.reads.end
	}
	r.endGap()
	if p.Opcode.Has(wire.Ends) {
		r.msn++
	}
	if p.AckReq() {
		r.wanted = true
		r.owe(wire.SyndromeAck, 0)
	}
}

// Asked takes a READ or an atomic that is to be answered, and returns the place for an atomic's result; nil where the
// peer has more outstanding than was agreed.
func (r *Responder) Asked(p *wire.Packet) (result *uint64) {
	w := readWork{psn: p.PSN(), packets: 1, atomic: p.Opcode.Class() == wire.ClassAtomic}
	if !w.atomic {
		h := p.RETH()
		w.packets, w.addr, w.rkey, w.length = PacketsOf(h.Length, r.mtu), h.Addr, h.RKey, h.Length
	}
	a := r.reads.add(w)
	if a == nil {
		return nil
	}
	r.endGap()
	r.Expected = (w.psn + w.packets) & wire.Mask24
	r.msn++
	return &a.original
}

// endGap ends a gap: a NAK that has not left yet becomes an ACK.
func (r *Responder) endGap() {
	r.nakSent, r.notReady = false, false
	if r.AckDue {
		r.syndrome, r.wanted = wire.SyndromeAck, true
	}
}

// Repeat owes the answer to a request that was executed before (IBTA 9.7.5.1.1): that of a READ again, perhaps its
// tail, and of an atomic, which is never executed again, what it returned.
func (r *Responder) Repeat(p *wire.Packet) {
	switch class := p.Opcode.Class(); class {
	case wire.ClassSend, wire.ClassWrite:
		r.repeats = min(r.repeats+1, mostRepeats)
		r.owe(wire.SyndromeAck, 0)
	case wire.ClassReadRequest, wire.ClassAtomic:
		psn := p.PSN()
		i, w := r.reads.find(psn)
		if w == nil || w.atomic != (class == wire.ClassAtomic) {
			return
		}
		k := (psn - w.psn) & wire.Mask24
		end := min(k+PacketsOf(p.RETH().Length, r.mtu), w.packets)
		again := dueAnswer{work: i, from: k, sent: k, end: end, again: true, apart: p.Migrated()}
		if r.held.pool != nil || end-k == 1 { // one packet alone is a probe: it is answered in its turn
			r.reads.repeat(again)
		} else if r.reads.goBack(again) {
			r.ackAfter++
		}
	default:
	}
}

// OweRNR answers a packet that finds no receive.
func (r *Responder) OweRNR(psn uint32, timer uint8) {
	r.count.RNRNAKsSent++
	r.nakSent, r.notReady = true, true // what follows is out of sequence: silent until this packet comes again
	r.held.clear()
	r.owe(wire.SyndromeRNR|wire.Syndrome(timer&31), psn)
}

// Refuse owes a fatal NAK, after which the queue pair ends; status is that of the receive which the request has taken.
func (r *Responder) Refuse(status verbs.Status, psn uint32) {
	r.Refused = true
	switch status {
	case verbs.LocalAccessError:
		r.owe(wire.NAKRemoteAccessError, psn)
	case verbs.LocalProtectionError:
		r.owe(wire.NAKRemoteOperational, psn)
	default:
		r.owe(wire.NAKInvalidRequest, psn)
	}
}

// owe notes what to answer. A NAK replaces an ACK, which it implies, and not the other way round.
func (r *Responder) owe(s wire.Syndrome, psn uint32) {
	if r.AckDue && s == wire.SyndromeAck && r.syndrome != wire.SyndromeAck {
		return
	}
	if !r.AckDue || r.reads.fresh > 0 { // answers that are only repeated later do not delay an ACK that is due
		r.ackAfter = r.reads.end
	}
	r.AckDue, r.syndrome, r.ackPSN = true, s, psn
}

// MayAcknowledge tells whether an ACK or NAK is due, and the answers that come before it have left.
func (r *Responder) MayAcknowledge() bool {
	return r.AckDue && (r.reads.empty() || int32(r.reads.first-r.ackAfter) >= 0)
}

// Answer is a packet to the peer's requester.
type Answer struct {
	Code wire.Opcode
	PSN  uint32
	AETH wire.AETH
	// data of a READ
	Addr        uint64
	RKey, Bytes uint32
	Original    uint64 // of an atomic
}

// Acknowledgement is the ACK or NAK that leaves now.
func (r *Responder) Acknowledgement() Answer {
	x := Answer{Code: wire.RCAcknowledge, PSN: r.ackable, AETH: wire.AETH{Syndrome: wire.SyndromeAck, MSN: r.msn}}
	switch {
	case r.syndrome != wire.SyndromeAck:
		r.AckDue, r.wanted, r.repeats = false, false, 0
		x.AETH.Syndrome, x.PSN = r.syndrome, r.ackPSN
	case r.repeats > 0:
		r.repeats--
		r.AckDue = r.wanted || r.repeats > 0
		if r.held.pool != nil {
			x.AETH.Syndrome = syndromeRepeated
		}
	default:
		r.AckDue, r.wanted = false, false
	}
	return x
}

const (
	// syndromeRepeated tells a peer of ours that its packet came twice: a credit count, which requesters may ignore (IBTA
	// 9.7.7.2.5), in place of "no count".
	syndromeRepeated = wire.SyndromeAck - 1
	// mostRepeats is more than a peer probes while this end is busy.
	mostRepeats = 32
)

// NextAnswer is the next packet of an answer that is due. A part of a READ is answered as a READ of
// its own, from FIRST to LAST (IBTA 9.7.5.1.9), except to rxe, which is known by its flag of
// migration: it wants the packets that it misses.
func (r *Responder) NextAnswer() (x Answer, ok bool) {
	a, w := r.reads.head()
	if a == nil {
		return x, false
	}
	offset := a.sent * r.mtu
	x = Answer{
		Code: wire.RCReadResponseMiddle, PSN: (w.psn + a.sent) & wire.Mask24,
		AETH: wire.AETH{Syndrome: wire.SyndromeAck, MSN: r.msn},
		Addr: w.addr + uint64(offset), RKey: w.rkey, Bytes: min(r.mtu, w.length-offset), Original: w.original,
	}
	begins, ends := a.sent == 0 || a.apart && a.sent == a.from, a.sent+1 == a.end
	switch {
	case w.atomic:
		x.Code = wire.RCAtomicAcknowledge
	case begins && ends:
		x.Code = wire.RCReadResponseOnly
	case begins:
		x.Code = wire.RCReadResponseFirst
	case ends:
		x.Code = wire.RCReadResponseLast
	}
	return x, true
}

// Answered notes that the next packet of an answer has left.
func (r *Responder) Answered() {
	a, w := r.reads.head()
	if a.sent++; a.sent < a.end {
		return
	}
	r.reads.passed(a)
	if r.AckDue && r.syndrome == wire.SyndromeAck && wire.PSNDiff(w.psn, r.ackable) > 0 {
		r.AckDue, r.wanted = r.repeats > 0, false // the response acknowledges it
	}
}

// OwesAnswers tells whether answers to READs or atomics are due.
func (r *Responder) OwesAnswers() bool { return !r.reads.empty() }

// Forget drops what is owed, and what waits behind a gap.
func (r *Responder) Forget() {
	r.AckDue, r.wanted, r.repeats = false, false, 0
	r.reads.first, r.reads.fresh = r.reads.end, 0
	r.held.clear()
}
