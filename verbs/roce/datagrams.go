package roce

import (
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/link"
	"github.com/gobw/gobw/verbs/roce/wire"
)

// onDatagram handles a packet for a UD queue pair (IBTA 9.8.3, annex A17.4.5.1): the
// receive starts with the 40 bytes of GRH.
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
	c := &q.current
	if n+wire.GRHBytes > c.room { // the receive is left for the next message
		q.e.count.shortReceives++
		return
	}
	from.Datagram(p.Raw, id).PutGRH(q.e.grh[:])
	pd := q.receiveDomain()
	if !q.scatterAt(pd, c.list, 0, q.e.grh[:]) || !q.scatterAt(pd, c.list, wire.GRHBytes, p.Payload) {
		q.failReceive(verbs.LocalProtectionError)
		q.enterError()
		return
	}
	q.completeReceive(&entry{Completion: verbs.Completion{
		Opcode: verbs.CompletedReceive, Bytes: n + wire.GRHBytes, Flags: verbs.WithGRH, SourceQPN: h.SourceQPN,
	}}, p)
}
