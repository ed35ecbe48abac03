package roce

import (
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/link"
	"github.com/gobw/gobw/verbs/roce/wire"
)

// onDatagram handles a packet for a UD queue pair (IBTA 9.8.3, annex A17.4.5.1): the receive starts with the 40 bytes of GRH.
func (q *queuePair) onDatagram(p *wire.Packet, from *link.Source, id uint16) {
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
	from.Datagram(p.Raw, id).PutGRH(q.e.grh[:])
	if !q.fill(q.e.grh[:]) || !q.fill(p.Payload) {
		q.failReceive(verbs.LocalProtectionError)
		q.enterError()
		return
	}
	x := verbs.Completion{
		Opcode: verbs.CompletedReceive, Bytes: n + wire.GRHBytes, Flags: verbs.WithGRH, SourceQPN: h.SourceQPN,
	}
	q.completeReceive(x, p)
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
		if why := q.prepare(w); why != ready {
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
	h := e.out.Open(&p.Path, code, flags, w.remoteQPN, w.psn, int(n))
	qkey := w.remoteQKey
	if qkey>>31 != 0 { // IBTA 10.2.5: a privileged key is the queue pair's own
		qkey = q.attr.QKey
	}
	wire.DETH{QKey: qkey, SourceQPN: q.qpn}.Put(h)
	if len(h) > wire.DETHBytes {
		putUint32(h[wire.DETHBytes:], w.immediate)
	}
	for i := range pieces {
		e.out.Payload(e.gathered[i])
	}
	e.out.Close()
	return true
}
