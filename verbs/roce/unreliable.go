package roce

import (
	"net/netip"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
)

// onUnreliable handles a packet of a UC queue pair (IBTA 9.8.2): what does not fit is dropped without a word, and a gap
// costs the message it is in.
func (q *queuePair) onUnreliable(p *wire.Packet) {
	r := &q.respond
	c := &r.current
	psn := p.PSN()
	begins, ends := p.Opcode.Begins(), p.Opcode.Ends()
	class := p.Opcode.Class()
	inOrder := psn == r.expected
	r.expected = (psn + 1) & wire.Mask24
	if begins {
		// a message that was cut off leaves its receive for this one
		c.class = wire.ClassUnknown
	} else if !inOrder || c.class != class {
		c.class = wire.ClassUnknown
		return
	}
	n := uint32(len(p.Payload))
	if !q.sized(p.Opcode, n) {
		c.class = wire.ClassUnknown
		return
	}
	if class == wire.ClassWrite {
		q.onUnreliableWrite(p, n)
		return
	}
	if begins && !q.retakeReceive() {
		return
	}
	if n > c.room {
		q.failReceive(verbs.LocalLengthError)
		q.enterError()
		return
	}
	if !q.fill(p.Payload) {
		q.failReceive(verbs.LocalProtectionError)
		q.enterError()
		return
	}
	c.class = class
	if ends {
		x := verbs.Completion{Opcode: verbs.CompletedReceive, Bytes: c.bytes}
		if p.Opcode.Has(wire.HasImmediate) {
			x.Flags, x.Immediate = verbs.WithImmediate, p.Immediate()
		}
		q.completeReceive(x, p.Solicited())
	}
}

func (q *queuePair) onUnreliableWrite(p *wire.Packet, n uint32) {
	c := &q.respond.current
	begins, ends := p.Opcode.Begins(), p.Opcode.Ends()
	if begins {
		h := p.RETH()
		if q.attr.Access&verbs.AccessRemoteWrite == 0 ||
			h.Length > 0 && q.e.remote(q, h.Addr, uint64(h.Length), h.RKey, verbs.AccessRemoteWrite) == nil {
			return
		}
		c.addr, c.rkey, c.left, c.length = h.Addr, h.RKey, h.Length, h.Length
	}
	c.class = wire.ClassUnknown
	if n > c.left || ends && n != c.left {
		return
	}
	if p.Opcode.TakesReceive() && !q.retakeReceive() {
		return
	}
	if !q.place(c, p.Payload, ends) {
		return
	}
	if !ends {
		c.class = wire.ClassWrite
		return
	}
	if p.Opcode.CompletesReceive() {
		q.completeReceive(verbs.Completion{
			Opcode: verbs.CompletedReceiveWithImmediate, Bytes: c.length, Flags: verbs.WithImmediate, Immediate: p.Immediate(),
		}, p.Solicited())
	}
}

// retakeReceive starts the receive of a cut-off message anew, or takes the next one.
func (q *queuePair) retakeReceive() bool {
	c := &q.respond.current
	if !c.hasWork {
		return q.takeReceive()
	}
	c.entry, c.within, c.bytes, c.room = 0, 0, 0, 0
	for i := range c.list {
		c.room += c.list[i].Length
	}
	return true
}

// onDatagram handles a packet for a UD queue pair (IBTA 9.8.3, annex A17.4.5.1): the receive starts with the 40 bytes of GRH.
func (q *queuePair) onDatagram(p *wire.Packet, from *source, id uint16) {
	h := p.DETH()
	if h.QKey != q.attr.QKey {
		q.e.count.qkeyViolations++
		return
	}
	n := uint32(len(p.Payload))
	if n > q.mtu || !q.takeReceive() {
		return
	}
	c := &q.respond.current
	if n+wire.GRHBytes > c.room {
		q.failReceive(verbs.LocalLengthError)
		q.enterError()
		return
	}
	s := from.socket
	d := wire.Datagram{
		Source: netip.AddrPortFrom(from.addr, from.port), Dest: netip.AddrPortFrom(s.local, s.port),
		ID: id, Fragment: 0x4000, Hops: 64, Payload: p.Raw,
	}
	d.PutGRH(q.e.grh[:])
	if !q.fill(q.e.grh[:]) || !q.fill(p.Payload) {
		q.failReceive(verbs.LocalProtectionError)
		q.enterError()
		return
	}
	x := verbs.Completion{
		Opcode: verbs.CompletedReceive, Bytes: n + wire.GRHBytes, Flags: verbs.WithGRH, SourceQPN: h.SourceQPN,
	}
	if p.Opcode.Has(wire.HasImmediate) {
		x.Flags |= verbs.WithImmediate
		x.Immediate = p.Immediate()
	}
	q.completeReceive(x, p.Solicited())
}

// sendDatagrams sends up to quantum packets of a UD queue pair.
func (q *queuePair) sendDatagrams(quantum int) (int, outcome) {
	s := &q.send
	for sent := 0; ; sent++ {
		if s.next == s.tail || q.state != verbs.StateRTS && q.state != verbs.StateSQD {
			return sent, idle
		}
		if sent >= quantum {
			return sent, paused
		}
		w := s.at(s.next)
		if why := q.begin(w); why != ready {
			return sent, why
		}
		if !q.sendDatagram(s.next, w) {
			q.refuseSend(s.next, verbs.LocalProtectionError)
			return sent, idle
		}
		w.finished = true
		s.next++
		q.retire()
	}
}

func (q *queuePair) sendDatagram(index uint32, w *sendWork) bool {
	e, p := q.e, w.ah.path
	n := w.length
	pieces := q.gather(index, w, 0, n)
	if pieces < 0 {
		return false
	}
	code := wire.UDSendOnly
	if w.opcode.HasImmediate() {
		code = wire.UDSendOnlyImmediate
	}
	var flags wire.BTHFlags
	if w.flags&verbs.Solicited != 0 {
		flags = wire.FlagSolicited
	}
	h := e.open(p, code, flags, w.remoteQPN, w.psn, int(n))
	qkey := w.remoteQKey
	if qkey>>31 != 0 { // IBTA 10.2.5: a privileged key is the queue pair's own
		qkey = q.attr.QKey
	}
	wire.PutDETH(h, qkey, q.qpn)
	if len(h) > wire.DETHBytes {
		putUint32(h[wire.DETHBytes:], w.immediate)
	}
	for i := range pieces {
		e.batch.payload(e.gathered[i].base, int(e.gathered[i].n))
	}
	e.batch.close()
	return true
}
