package roce

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
)

// UC and UD over the model's network. Nothing is promised but this: a request completes when it has
// left, what arrives is whole, from a request that was posted, in a receive that was posted, and
// memory that no WRITE names is not touched.

// unreliableFlow sends from one site to the other.
type unreliableFlow struct {
	q, peer  *queuePair
	from, to *modelEnd
	handle   *addressHandle // UD
	qkey     uint32         // of the peer, or another: then nothing may arrive

	slotsAt, targetAt int
	receives          *modelReceives // of peer

	requests  []modelRequest
	wrote     [modelTarget][]byte // what WRITEs may have put where
	retired   int
	delivered int
	latest    int // the request received last; -1: none
	left      int
}

// FuzzUnreliable takes a seed.
func FuzzUnreliable(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, seed uint64) {
		t.Parallel()
		m := newModelNetwork(t, seed)
		transport := []verbs.Transport{verbs.UC, verbs.UD}[m.r.IntN(2)]
		a := newUnreliableFlow(m, transport, 0)
		b := newUnreliableFlow(m, transport, 1)
		a.connect(b)
		b.connect(a)
		flows := []*unreliableFlow{a, b}
		for step := 0; slices.ContainsFunc(flows, (*unreliableFlow).busy); step++ {
			if step > 100_000 {
				t.Fatalf("stuck: %d and %d requests complete\n%s", a.retired, b.retired, m.dump())
			}
			m.stepUnreliable(flows)
		}
		for range 200 { // what is under way arrives
			m.stepUnreliable(flows)
		}
		for _, f := range flows {
			f.settled()
		}
	})
}

func newUnreliableFlow(m *model, transport verbs.Transport, site int) *unreliableFlow {
	s := m.sites[site]
	f := &unreliableFlow{from: s, to: m.sites[1-site], left: 50 + m.r.IntN(150), latest: -1}
	f.targetAt = f.to.take(modelTarget)
	f.slotsAt = s.take(modelDepth * modelSlot)
	qp, err := s.pd.CreateQP(verbs.QueuePairOptions{
		Transport: transport, SendCQ: s.cq, SendDepth: modelDepth, RecvDepth: modelDepth, SendSGEs: 3, RecvSGEs: 2,
		InlineBytes: 64, SRQ: s.srq,
	})
	check(m.t, err)
	f.q = qp.(*queuePair)
	return f
}

// connect brings the queue pair to RTS. Packet numbers wrap soon.
func (f *unreliableFlow) connect(to *unreliableFlow) {
	m, q := f.from.m, f.q
	f.peer, f.receives = to.q, to.to.m.sites[to.from.index].shared
	if f.receives == nil {
		f.receives = f.to.newReceives()
	}
	psn := func(index int) uint32 { return (uint32(index+1)<<22 - 20) & wire.Mask24 }
	q.attr = verbs.QueuePairAttributes{
		Access: everything, PathMTU: m.mtu, SendPSN: psn(f.from.index), RecvPSN: psn(f.to.index), DestQPN: to.q.qpn,
		QKey: 0x1111 * uint32(1+f.from.index),
	}
	q.mtu = uint32(m.mtu.Bytes())
	q.state = verbs.StateRTR
	q.beginReceiving()
	if q.transport == verbs.UC {
		q.path = f.from.path
	} else {
		f.handle = &addressHandle{object: object{e: f.from.e}, pd: q.pd, path: f.from.path}
		f.qkey = 0x1111 * uint32(1+f.to.index)
		if m.r.IntN(4) == 0 {
			f.qkey++
		}
	}
	q.enterState(verbs.StateRTS)
	fill := m.sites[f.to.index].memory(f.targetAt, modelTarget)
	for i := range fill {
		f.wrote[i] = append(f.wrote[i], fill[i])
	}
}

func (f *unreliableFlow) busy() bool { return f.left > 0 || f.retired < len(f.requests) }

func (m *model) stepUnreliable(flows []*unreliableFlow) {
	m.exchange()
	for _, f := range flows {
		if m.r.Float64() < m.slowReceiver {
			f.postReceives()
		}
		for n := m.r.IntN(4); n > 0 && f.left > 0 && len(f.requests)-f.retired < modelDepth; n-- {
			f.post()
		}
	}
	for _, s := range m.sites {
		for s.cq.head != s.cq.tail {
			var list [5]verbs.Completion
			n, err := s.cq.Poll(list[:])
			check(m.t, err)
			for i := range list[:n] {
				c := &list[i]
				f := flows[0]
				received := c.Opcode == verbs.CompletedReceive || c.Opcode == verbs.CompletedReceiveWithImmediate
				if (f.q.qpn == c.QPN && f.from == s) == received {
					f = flows[1]
				}
				if received {
					f.onReceived(c)
				} else {
					f.onSent(c)
				}
			}
		}
	}
}

func (f *unreliableFlow) postReceives() {
	m, v := f.from.m, f.receives
	for n := m.r.IntN(6); n > 0 && len(v.free) > 0; n-- {
		slot := v.free[0]
		x := []verbs.ReceiveRequest{{ID: uint64(slot), SGEs: m.pieces(f.to, v.at+slot*modelSlot, modelSlot, 2)}}
		clear(f.to.memory(v.at+slot*modelSlot, modelSlot))
		var err error
		if f.to.srq != nil {
			err = f.to.srq.PostReceive(x)
		} else {
			err = f.peer.PostReceive(x)
		}
		check(m.t, err)
		v.free = v.free[1:]
	}
}

// post sends something at random. The first bytes, and the immediate data, say which request it is.
func (f *unreliableFlow) post() {
	m := f.from.m
	r := m.r
	k := len(f.requests)
	slot := f.slotsAt + k%modelDepth*modelSlot
	x := modelRequest{
		length: []int{8, 60, m.mtu.Bytes(), m.mtu.Bytes() + 1, 8 + r.IntN(modelMost-8), modelMost}[r.IntN(6)],
	}
	x.ID, x.Immediate, x.Flags = uint64(k), uint32(k), verbs.Signaled
	x.Opcode = []verbs.Opcode{
		verbs.OpSend, verbs.OpSendWithImmediate, verbs.OpWrite, verbs.OpWriteWithImmediate,
	}[r.IntN(4)]
	if f.handle != nil {
		x.length = min(x.length, m.mtu.Bytes())
		x.Opcode = []verbs.Opcode{verbs.OpSend, verbs.OpSendWithImmediate}[r.IntN(2)]
		x.AH, x.RemoteQPN, x.RemoteQKey = f.handle, f.peer.qpn, f.qkey
	}
	source := f.from.memory(slot, modelSlot)
	for i := range source {
		source[i] = byte(r.Uint32())
	}
	binary.BigEndian.PutUint32(source, uint32(k))
	x.data = bytes.Clone(source[:x.length])
	if x.Opcode == verbs.OpWrite || x.Opcode == verbs.OpWriteWithImmediate {
		x.at = r.IntN(modelWords - x.length + 1)
		x.RemoteAddr, x.RKey = f.to.mr.Addr()+uint64(f.targetAt+x.at), f.to.mr.RKey()
		if r.IntN(10) == 0 {
			x.RKey = 0xdead // dropped without a word
		} else {
			for i, b := range x.data {
				f.wrote[x.at+i] = append(f.wrote[x.at+i], b)
			}
		}
	}
	x.SGEs = m.pieces(f.from, slot, x.length, 3)
	if x.length <= 60 && r.IntN(2) == 0 {
		x.Flags |= verbs.Inline
	}
	check(m.t, f.q.post(&x.SendRequest))
	f.q.kick()
	f.requests = append(f.requests, x)
	f.left--
}

// onSent: each request completes, in order, and never with an error.
func (f *unreliableFlow) onSent(c *verbs.Completion) {
	if t := f.from.m.t; int(c.ID) != f.retired || c.Status != verbs.Success {
		t.Fatalf("qp %#x: completion %+v, want request %d's", f.q.qpn, *c, f.retired)
	}
	f.retired++
}

// onReceived: a whole message of those sent; in order, where the network keeps it.
func (f *unreliableFlow) onReceived(c *verbs.Completion) {
	m, v := f.from.m, f.receives
	t, slot := m.t, int(c.ID)
	if slices.Contains(v.free, slot) {
		t.Fatalf("qp %#x: completion of receive %d, which is not posted", c.QPN, slot)
	}
	v.free = append(v.free, slot)
	got := f.to.memory(v.at+slot*modelSlot, modelSlot)
	if c.Status != verbs.Success {
		t.Fatalf("qp %#x: receive: %v", c.QPN, c.Status)
	}
	if f.handle != nil {
		if c.Flags&verbs.WithGRH == 0 || c.SourceQPN != f.q.qpn || f.qkey != f.peer.attr.QKey {
			t.Fatalf("qp %#x: %+v from qp %#x with Q_Key %#x", c.QPN, *c, f.q.qpn, f.qkey)
		}
		got, c.Bytes = got[wire.GRHBytes:], c.Bytes-wire.GRHBytes
	}
	k := int(c.Immediate)
	if c.Flags&verbs.WithImmediate == 0 {
		k = int(binary.BigEndian.Uint32(got))
	}
	if k >= len(f.requests) {
		t.Fatalf("qp %#x: received %d of %d messages sent", c.QPN, k, len(f.requests))
	}
	x := &f.requests[k]
	// a WRITE's receive may have begun a SEND
	intact := x.Opcode == verbs.OpWriteWithImmediate || bytes.Equal(got[:x.length], x.data)
	if int(c.Bytes) != x.length || x.Opcode == verbs.OpWrite ||
		x.Opcode.HasImmediate() != (c.Flags&verbs.WithImmediate != 0) || !intact {
		t.Fatalf("qp %#x: %v %d of %d bytes arrived as something else: %+v", c.QPN, x.Opcode, k, x.length, *c)
	}
	if k <= f.latest && m.twice == 0 && m.jitter == 0 && m.hostile == 0 {
		t.Fatalf("qp %#x: message %d after %d", c.QPN, k, f.latest)
	}
	f.latest = k
	f.delivered++
}

// settled looks at the memory that was written, and for what is left over.
func (f *unreliableFlow) settled() {
	m := f.from.m
	for i, b := range f.to.memory(f.targetAt, modelTarget) {
		if !bytes.Contains(f.wrote[i], []byte{b}) {
			m.t.Fatalf("qp %#x: byte %d of the target is %#x, which nobody wrote", f.q.qpn, i, b)
		}
	}
	if f.q.state != verbs.StateRTS || f.q.request.Done != f.q.request.Tail {
		m.t.Errorf("qp %#x: %v, %d requests left", f.q.qpn, f.q.state, f.q.request.Tail-f.q.request.Done)
	}
	if perfect := m.loss+m.twice+m.corrupt == 0 && m.jitter == 0 && m.slowReceiver == 1; perfect && f.delivered == 0 &&
		f.qkey == f.peer.attr.QKey {
		m.t.Errorf("qp %#x: nothing arrived over a good network", f.q.qpn)
	}
	if e := f.from.e; len(e.timed) != 0 || len(e.busy) != 0 || len(e.acks) != 0 ||
		inside(f.from.path.Flow, "window", "inFlight").Int() != 0 {
		m.t.Errorf("left over: %d clocks, %d paths, %d acknowledgements, %d bytes in flight", len(e.timed), len(e.busy),
			len(e.acks), inside(f.from.path.Flow, "window", "inFlight").Int())
	}
}
