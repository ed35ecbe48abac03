package verbstest

import (
	"github.com/gobw/gobw/verbs"
)

func testDatagrams(t *test) {
	ud := rigOptions{transport: verbs.UD}
	t.on("GRH", ud, testGRH)
	short := trial{name: "short receive", rig: ud, op: send, receive: 100, spared: true}
	// 104 bytes with the GRH; the next message has 73, and fits
	if short.meets = t.deviates(ShortReceiveUD); short.meets {
		short.received = t.status(ShortReceiveUD, 0)
	}
	short.dropped = !short.meets
	port, err := t.A.Device.Port(max(t.A.Port, 1))
	if err != nil {
		t.Fatal(err)
	}
	runTrials(t, []trial{short, {
		name: "Q_Key", rig: ud, op: send, receive: 256, dropped: true,
		edit: func(p *posting) { p.RemoteQKey++ },
	}, {
		name: "no receive", rig: ud, op: send, dropped: true,
	}, {
		name: "too long", rig: ud, op: send, length: port.ActiveMTU.Bytes() + 1,
		receive: 32 << 10, refused: true,
		sent: t.status(TooLongUD, verbs.LocalLengthError), quiet: true,
	}, {
		name: "nobody there", rig: ud, op: send, quiet: true,
		edit: func(p *posting) { p.RemoteQPN = 0xfffffe },
	}})
	t.on("no address", ud, func(r *rig) {
		q := r.a.request(1, send, 64)
		q.AH = nil
		r.a.refuses("a message without an address handle", q)
	})
	t.on("many senders", ud, func(r *rig) {
		other := newRig(r.test, ud)
		for i, from := range []*rig{r, other, r} {
			id := uint64(i)
			r.b.receive(id, r.b.sge(0, 256))
			q := from.a.request(id, send, 10+i)
			q.RemoteQPN = r.b.qp.QPN()
			from.a.do(q)
			if c := r.b.recvs.want(id); c.SourceQPN != from.a.qp.QPN() || c.Bytes != uint32(10+i+verbs.GRHBytes) {
				r.Errorf("%d bytes from qp %#x, want %d from %#x", c.Bytes, c.SourceQPN, 10+i+verbs.GRHBytes, from.a.qp.QPN())
			}
		}
	})
}

// testGRH looks at the 40 bytes in front of a datagram: on RoCE v2 the IPv6 header, or 20 bytes and the IPv4 header. It
// is as the packet was sent: with the traffic class and hop limit of the address handle.
func testGRH(r *rig) {
	const class, hops = 0x68, 33
	r.b.receive(1, r.b.sge(0, 256))
	av := r.a.vector(r.b)
	av.TrafficClass, av.HopLimit = class, hops
	r.a.ah = r.a.addressHandle(av)
	r.a.sendOne(1, 64)
	r.b.recvs.want(1)
	grh := r.b.mem[:verbs.GRHBytes]
	from, to, h := r.A.GID, r.B.GID, grh[20:]
	gotClass, gotHops := h[1], h[8]
	is4 := from.Addr().Is4()
	right := h[0] == 0x45 && h[9] == 17 && [4]byte(h[12:]) == [4]byte(from[12:]) && [4]byte(h[16:]) == [4]byte(to[12:])
	if !is4 {
		gotClass, gotHops = grh[0]<<4|grh[1]>>4, grh[7]
		right = grh[0]>>4 == 6 && verbs.GID(grh[8:24]) == from && verbs.GID(grh[24:40]) == to
	}
	if !right {
		r.Errorf("GRH %x: want an IP header from %v to %v, an IPv4 one at 20", grh, from, to)
	}
	if gotClass != class {
		r.Errorf("traffic class %#x, want %#x", gotClass, class)
	}
	if gotHops != hops && !r.ignored(HopLimitKept) {
		r.Errorf("hop limit %d, want %d", gotHops, hops)
	}
	if !is4 {
		return
	}
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(h[i])<<8 | uint32(h[i+1])
	}
	if sum = sum>>16 + sum&0xffff; sum != 0xffff && !r.ignored(GRHChecksum) {
		r.Errorf("the IPv4 header's checksum does not add up: %#x", sum)
	}
}
