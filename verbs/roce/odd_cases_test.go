package roce

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/link"
	"github.com/gobw/gobw/verbs/roce/wire"
	"github.com/gobw/gobw/verbs/tick"
	"github.com/gobw/gobw/verbs/verbstest"
)

// keepsBehindGaps has the stage's queue pair keep what arrives behind a gap.
func (s *stage) keepsBehindGaps() {
	s.q.peerWindow = 1 << 20
	s.q.beginReceiving()
}

// statuses are the receives that have completed, and how.
func (s *stage) statuses() (list []verbs.Completion) {
	for s.cq.head != s.cq.tail {
		list = append(list, s.cq.take().Completion)
	}
	return list
}

// TestHeldPacketFails has a packet that waited behind a gap hit a receive that does not take it. It is asked for again,
// and fails as it would have without the gap: nothing of it is counted twice.
func TestHeldPacketFails(t *testing.T) {
	good := request{op: wire.SendFirst, bytes: stageMTU}
	for _, tt := range []struct {
		name string
		held request // behind good
		bad  int     // which entry of the receive, of a packet and of 8 bytes, has a wrong key; -1: none
		want verbs.Status
	}{
		{"bad entry", request{op: wire.SendMiddle, psn: 1, bytes: stageMTU}, 1, verbs.LocalProtectionError},
		{
			"unknown key to invalidate",
			request{op: wire.SendLastInvalidate, psn: 1, bytes: 8},
			-1,
			verbs.RemoteInvalidRequestError,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, everything)
			s.q.receives = newReceiveQueue(1, 2)
			s.keepsBehindGaps()
			var list []verbs.SGE
			for i, n := range []int{stageMTU, tt.held.bytes} {
				e := s.mr.SGE(i*1024, n)
				if i == tt.bad {
					e.LKey ^= 0x5a00
				}
				list = append(list, e)
			}
			check(t, s.q.PostReceive([]verbs.ReceiveRequest{{ID: 7, SGEs: list}}))
			s.q.onRequest(s.packet(tt.held)) // early
			s.q.onRequest(s.packet(good))
			s.q.onRequest(s.packet(tt.held)) // as asked for
			got := s.statuses()
			if len(got) != 1 || got[0].ID != 7 || got[0].Status != tt.want {
				t.Errorf("the receive completed with %+v, want one %v", got, tt.want)
			}
		})
	}
}

// TestPathsShare has a UC queue pair that never runs out of messages beside another path: each gets half of the rounds.
func TestPathsShare(t *testing.T) {
	s := newStage(t, everything)
	var sent [2]int
	paths := [2]*path{s.q.path, nil}
	var err error
	paths[1], err = s.e.pathFor(s.q.path.socket, s.q.path.socket.Socket, netip.MustParseAddr("127.2.0.3"), link.Service{})
	check(t, err)
	s.e.out.Carry = func(p *link.Path, b []byte, segment int) {
		sent[slices.IndexFunc(paths[:], func(x *path) bool { return &x.Path == p })] += (len(b) + segment - 1) / segment
	}
	cq, err := s.e.device.CreateCQ(verbs.CompletionQueueOptions{Depth: 1024})
	check(t, err)
	s.cq = cq.(*completionQueue)
	var pairs [2]*queuePair
	for i, p := range paths {
		qp, err := s.q.pd.CreateQP(verbs.QueuePairOptions{Transport: verbs.UC, SendCQ: s.cq, SendDepth: 256, SignalAll: true})
		check(t, err)
		q := qp.(*queuePair)
		q.path, q.mtu, q.state = p, stageMTU, verbs.StateRTR
		q.enterState(verbs.StateRTS)
		pairs[i] = q
	}
	for range 100 {
		for _, q := range pairs {
			for !q.request.Full() {
				check(t,
					q.post(&verbs.SendRequest{
						Opcode: verbs.OpSend, SGEs: []verbs.SGE{{Addr: s.mr.Addr(), Length: 4, LKey: s.mr.LKey()}},
					}))
			}
			q.kick()
		}
		s.e.transmit(0)
		s.e.out.Flush()
		s.statuses()
	}
	if least := min(sent[0], sent[1]); least == 0 || max(sent[0], sent[1]) > 2*least {
		t.Errorf("two paths sent %v packets, want about as many each", sent)
	}
}

// TestPostInErrorFlushes posts a list that does not fit to a queue pair in ERR: what was taken flushes.
func TestPostInErrorFlushes(t *testing.T) {
	s := newStage(t, everything)
	s.q.enterError()
	list := slices.Repeat([]verbs.ReceiveRequest{{ID: 3}}, s.q.caps.RecvDepth)
	list[2].SGEs = make([]verbs.SGE, 9)
	if err := s.q.PostReceive(list); err == nil {
		t.Error("a receive of nine entries was taken")
	}
	if got := s.statuses(); len(got) != 2 || got[0].Status != verbs.FlushError {
		t.Errorf("completed %+v, want the two that were taken, flushed", got)
	}
}

// TestServesMoreReads raises the READs served at once while some are remembered: as many are served from then on, and
// what was asked before is answered again where it comes again.
func TestServesMoreReads(t *testing.T) {
	s := newStage(t, everything)
	ask := func(psn int) { s.q.onRequest(s.packet(request{op: wire.ReadRequest, psn: psn, length: 8})) }
	ask(0)
	ask(1)
	check(t, s.q.Modify(verbs.QueuePairAttributes{Mask: verbs.AttrState, State: verbs.StateSQD}))
	check(t, s.q.Modify(verbs.QueuePairAttributes{Mask: verbs.AttrMaxDestRDAtomic, MaxDestRDAtomic: 16}))
	for psn := 2; psn < 16; psn++ {
		ask(psn)
	}
	s.e.transmit(0)
	if _, _, psns := s.answered(); len(psns) != 16 {
		t.Errorf("answers for %v, want 16", psns)
	}
	ask(1)
	s.e.transmit(0)
	if _, _, psns := s.answered(); !slices.Equal(psns, []int{1}) || s.q.state != verbs.StateSQD {
		t.Errorf("answers for %v in %v, want one for 1 in SQD", psns, s.q.state)
	}
}

// TestSharedReceiveDomain receives into memory of the shared receive queue's domain, which
// is not the queue pair's (IBTA 10.2.9).
func TestSharedReceiveDomain(t *testing.T) {
	s := newStage(t, everything)
	pd, err := s.e.device.AllocPD()
	check(t, err)
	srq, err := pd.CreateSRQ(verbs.SharedReceiveQueueOptions{})
	check(t, err)
	mr, err := pd.RegisterMemory(verbs.Borrow(s.b.Bytes()), 0, s.b.Len(), everything)
	check(t, err)
	s.q.srq = srq.(*sharedReceiveQueue)
	for _, m := range []verbs.MemoryRegion{mr, s.mr} {
		check(t, srq.PostReceive([]verbs.ReceiveRequest{{SGEs: []verbs.SGE{m.SGE(0, 64)}}}))
	}
	s.q.onRequest(s.packet(request{op: wire.SendOnly, bytes: 4}))
	s.q.onRequest(s.packet(request{op: wire.SendOnly, psn: 1, bytes: 4}))
	got := s.statuses()
	if len(got) != 2 || got[0].Status != verbs.Success || got[1].Status != verbs.LocalProtectionError {
		t.Errorf("completed %+v, want a success, and LOC_PROT_ERR by a key of the queue pair's domain", got)
	}
}

// TestDepthBesideSharedQueue: a queue pair that takes shared receives has none of its own, whatever was asked for.
func TestDepthBesideSharedQueue(t *testing.T) {
	s := newStage(t, everything)
	srq, err := s.q.pd.CreateSRQ(verbs.SharedReceiveQueueOptions{})
	check(t, err)
	qp, err := s.q.pd.CreateQP(verbs.QueuePairOptions{SendCQ: s.cq, SRQ: srq, RecvDepth: maxQPWR + 1})
	check(t, err)
	if got := qp.Capabilities().RecvDepth; got != 0 {
		t.Errorf("%d receives of its own, want none", got)
	}
}

// TestCounterGoesBack has the cycle counter begin anew, as after a suspend to memory:
// what was lost before is sent again soon.
func TestCounterGoesBack(t *testing.T) {
	s := newStage(t, everything)
	const before = tick.Time(time.Hour)
	s.e.progress(before, 0)
	s.post(verbs.OpWrite, 10)
	s.wantSent(before, 0)
	after := tick.Time(time.Second)
	s.e.progress(after, 0)
	s.e.progress(after+tick.Time(100*time.Millisecond), 0)
	if _, _, psns := s.answered(); len(psns) == 0 {
		t.Error("nothing is sent again")
	}
}

// TestServesAfterCounterGoesBack sees that an end that nobody polls is driven although the cycle counter has gone back.
func TestServesAfterCounterGoesBack(t *testing.T) {
	a, b := newPair(t, pairOptions{})
	b.device.e.held(func() {
		b.device.e.lastRound, b.device.e.nextTimer = tick.Now()+tick.Time(1<<60), tick.Now()+tick.Time(1<<60)
	})
	check(t, a.qp.PostSend([]verbs.SendRequest{{
		Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: []verbs.SGE{a.sge(0, 8)}, RemoteAddr: b.mr.Addr(),
		RKey: b.mr.RKey(),
	}}))
	for late := time.Now().Add(20 * time.Second); ; {
		var c [1]verbs.Completion
		if n, err := a.cq.Poll(c[:]); err != nil || n == 1 {
			if err != nil || c[0].Status != verbs.Success {
				t.Errorf("%v, %v", c, err)
			}
			return
		}
		if time.Now().After(late) {
			t.Fatal("the passive end is dead")
		}
		<-time.After(time.Millisecond)
	}
}

// TestSharedLinkLocal gives two interfaces one link-local address, as VLANs of a NIC
// have it: each sends by its own socket.
func TestSharedLinkLocal(t *testing.T) {
	e := newEngine(Options{}, 1)
	a := netip.MustParseAddr("fe80::77")
	for zone := uint32(2); zone <= 3; zone++ {
		s := heldSocket(a, 0)
		s.Zone = zone
		e.sockets = append(e.sockets, s)
	}
	for zone := uint32(2); zone <= 3; zone++ {
		if s, err := e.socketOf(&gid{addr: a, zone: zone}); err != nil || s.Zone != zone {
			t.Errorf("the GID of interface %d leaves by %+v (%v)", zone, s, err)
		}
	}
}

// TestActiveMTU: the longest packet of a path MTU fits the interface.
func TestActiveMTU(t *testing.T) {
	for mtu, want := range map[int]verbs.MTU{
		65536: verbs.MTU4096, 4180: verbs.MTU4096, 4179: verbs.MTU2048, 1500: verbs.MTU1024, 68: verbs.MTU256,
	} {
		if got := activeMTU(mtu); got != want {
			t.Errorf("an interface of MTU %d carries %v, want %v", mtu, got, want)
		}
	}
}

// TestPathMTUAboveInterface: a path MTU that the interface does not carry is refused, as by rxe.
func TestPathMTUAboveInterface(t *testing.T) {
	d := OpenFree(t, Options{Address: verbstest.Address()}).(*device)
	pd, err := d.AllocPD()
	check(t, err)
	cq, err := d.CreateCQ(verbs.CompletionQueueOptions{})
	check(t, err)
	qp, err := pd.CreateQP(verbs.QueuePairOptions{SendCQ: cq})
	check(t, err)
	home, err := d.DefaultGID()
	check(t, err)
	o := verbs.ConnectOptions{
		PathMTU: verbs.MTU4096, AddressVector: verbs.AddressVector{DGID: home.GID, SGIDIndex: home.Index, UseGID: true},
	}
	check(t, verbs.InitQP(qp, o))
	narrow := d.gids[home.Index]
	narrow.mtu = 1500
	if err := qp.(*queuePair).mayUse(&narrow,
		&verbs.QueuePairAttributes{Mask: verbs.AttrPathMTU, PathMTU: verbs.MTU4096}); err == nil {
		t.Error("a path MTU of 4096 on an interface of 1500")
	}
	check(t, qp.(*queuePair).mayUse(&narrow, &verbs.QueuePairAttributes{Mask: verbs.AttrPathMTU, PathMTU: verbs.MTU1024}))
	check(t, verbs.ConnectQP(qp, o))
	for _, c := range []interface{ Close() error }{qp, cq, pd, d} {
		check(t, c.Close())
	}
}

// TestResetForgetsPeer: after RESET nothing is taken for granted of the next peer.
func TestResetForgetsPeer(t *testing.T) {
	s := newStage(t, everything)
	s.keepsBehindGaps()
	s.q.enterState(verbs.StateReset)
	if s.q.peerWindow != 0 {
		t.Errorf("the next peer is taken for a device like this, with a window of %d", s.q.peerWindow)
	}
}

// TestPartOfREAD asks for the tail of a READ again: a NIC, and this device, wants it from FIRST to
// LAST, rxe the packets that it misses.
func TestPartOfREAD(t *testing.T) {
	for _, tt := range []struct {
		migrated bool
		want     []wire.Operation
	}{
		{
			true,
			[]wire.Operation{wire.ReadResponseFirst, wire.ReadResponseMiddle, wire.ReadResponseLast, wire.ReadResponseOnly},
		},
		{
			false,
			[]wire.Operation{wire.ReadResponseMiddle, wire.ReadResponseMiddle, wire.ReadResponseLast, wire.ReadResponseLast},
		},
	} {
		s := newStage(t, everything)
		s.q.onRequest(s.packet(request{op: wire.ReadRequest, length: 5 * stageMTU}))
		s.e.transmit(0)
		s.answered()
		for _, x := range []request{{psn: 2, length: 3 * stageMTU}, {psn: 4, length: stageMTU}} {
			x.op = wire.ReadRequest
			x.addr = s.mr.Addr() + uint64(x.psn*stageMTU)
			p := s.packet(x)
			if tt.migrated {
				p.Raw[1] |= byte(wire.FlagMigrated >> 8)
			}
			s.q.onRequest(p)
		}
		s.e.transmit(0)
		if ops, _, psns := s.answered(); !slices.Equal(ops, tt.want) || !slices.Equal(psns, []int{2, 3, 4, 4}) {
			t.Errorf("migrated %v: %v for %v, want %v", tt.migrated, ops, psns, tt.want)
		}
	}
}

// TestMigrated: every packet says that its path does not migrate (IBTA 17.2.8).
func TestMigrated(t *testing.T) {
	s := newStage(t, everything)
	s.post(verbs.OpWrite, 600)
	s.e.transmit(0)
	s.q.onRequest(s.packet(request{op: wire.WriteOnly, bytes: 4, length: 4, ack: true}))
	s.e.flushAcks()
	s.e.out.Flush()
	for _, p := range s.sent {
		if !p.Migrated() {
			t.Errorf("%v says that it migrates", p.Opcode)
		}
	}
	if len(s.sent) != 4 {
		t.Errorf("%d packets, want three and an ACK", len(s.sent))
	}
}

// TestReadWithoutResources posts a READ on a queue pair that may have none in flight:
// it fails, in place of waiting for ever.
func TestReadWithoutResources(t *testing.T) {
	s := newStage(t, everything)
	s.q.attr.MaxRDAtomic = 0
	s.q.request.Change(s.q.requesterSetup())
	s.post(verbs.OpRead, 10)
	s.wantSent(0)
	if ids, status := s.completions(); len(ids) != 1 || status != verbs.LocalQPOperationError {
		t.Errorf("completions %v, %v: want LOC_QP_OP_ERR", ids, status)
	}
}

// TestConnectedSenders: over IPv6 packets of connected queue pairs leave by a socket of their own, one for each address
// and flow label up to a limit, and by the common one where there are too many.
func TestConnectedSenders(t *testing.T) {
	o := pairOptions{transport: verbs.RC, mtu: verbs.MTU4096, depth: 64, sges: 1, timeout: 14, bytes: 1 << 16}
	x := newEnd(t, Options{Address: netip.IPv6Loopback()}, o)
	connect(t, x.device, x.qp, x.device, x.qp, o) // to itself
	q, e := x.qp.(*queuePair), x.device.e
	check(t, x.qp.PostSend([]verbs.SendRequest{{
		Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: []verbs.SGE{x.sge(0, 9000)}, RemoteAddr: x.mr.Addr() + 1<<15,
		RKey: x.mr.RKey(),
	}}))
	if c := x.await(nil); c.Status != verbs.Success {
		t.Fatal(c)
	}
	home, err := x.device.DefaultGID()
	check(t, err)
	g := x.device.gids[home.Index]
	e.held(func() {
		s := q.path.socket
		if q.path.Socket == s.Socket || len(s.senders) != 1 || q.path.Segments != link.MaxSegments {
			t.Errorf("by port %d, %d packets a send, of %d senders", q.path.Socket.Port, q.path.Segments, len(s.senders))
		}
		common := 0
		for label := range uint32(2 * mostSenders) {
			for range 2 {
				p, err := e.pathTo(&g, verbs.AddressVector{UseGID: true, DGID: home.GID, FlowLabel: label}, 0xc123)
				check(t, err)
				if p.Socket == s.Socket {
					common++
				}
			}
		}
		if len(s.senders) != mostSenders || common != 2*mostSenders {
			t.Errorf("%d senders, %d paths by the common socket", len(s.senders), common)
		}
	})
}

// TestSourcePortsOfManyPeers: over IPv6, too, the queue pairs to each of several peers are spread.
func TestSourcePortsOfManyPeers(t *testing.T) {
	o := pairOptions{transport: verbs.RC, mtu: verbs.MTU4096, depth: 64, sges: 1, timeout: 14, bytes: 1 << 16}
	x := newEnd(t, WithoutOffload(Options{Address: netip.IPv6Loopback()}), o)
	connect(t, x.device, x.qp, x.device, x.qp, o)
	e := x.device.e
	e.held(func() {
		s := x.qp.(*queuePair).path.socket
		for _, peer := range []string{"::1", "fd00::9", "fd00::a"} {
			ports := map[uint16]bool{}
			for qpn := range uint32(256) {
				ports[e.senderAt(s, sourcePort(0, qpn+2, 77), netip.MustParseAddr(peer), 0).Port] = true
			}
			if len(ports) < mostSenders/2 {
				t.Errorf("256 queue pairs to %s leave by %d ports", peer, len(ports))
			}
		}
	})
}

// TestSourcePorts: where the kernel cuts no batches, queue pairs send by ports of their own, so that switches can
// spread them, and share what is known of the way to the peer. A flow label chooses the port.
func TestSourcePorts(t *testing.T) {
	a, b := newPair(t, pairOptions{a: WithoutOffload(Options{}), b: WithoutOffload(Options{})})
	q := a.qp.(*queuePair)
	home, err := a.device.DefaultGID()
	check(t, err)
	peer, err := b.device.DefaultGID()
	check(t, err)
	if q.path.Socket.Port < 0xc000 {
		t.Errorf("packets leave by port %d, want one of 49152 and more", q.path.Socket.Port)
	}
	check(t, a.qp.PostSend([]verbs.SendRequest{{
		Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: []verbs.SGE{a.sge(0, 8)}, RemoteAddr: b.mr.Addr(),
		RKey: b.mr.RKey(),
	}}))
	if c := a.await(b); c.Status != verbs.Success {
		t.Fatal(c)
	}
	ports := map[uint16]bool{}
	g := a.device.gids[home.Index]
	a.device.e.held(func() {
		for label := range uint32(200) {
			v := verbs.AddressVector{UseGID: true, DGID: peer.GID, FlowLabel: label + 1}
			p, err := a.device.e.pathTo(&g, v, sourcePort(label+1, 5, 6))
			check(t, err)
			ports[p.Socket.Port] = true
			if p.Flow != q.path.Flow {
				t.Error("the flow to one address is not shared")
			}
		}
	})
	if len(ports) < mostSenders/2 || len(ports) > mostSenders {
		t.Errorf("200 flow labels leave by %d ports, want %d", len(ports), mostSenders)
	}
	if sourcePort(0, 17, 19) != sourcePort(0, 19, 17) || sourcePort(0, 17, 19) == sourcePort(0, 17, 21) {
		t.Error("the port does not follow from both numbers")
	}
}
