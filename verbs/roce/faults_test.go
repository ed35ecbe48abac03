package roce

import (
	"slices"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
	"github.com/gobw/gobw/verbs/tick"
)

// postBind posts a BIND_MW: a request that sends nothing.
func (s *stage) postBind() {
	s.t.Helper()
	w, err := s.q.pd.AllocMW()
	check(s.t, err)
	mr, err := s.q.pd.RegisterMemory(verbs.Borrow(s.b.Bytes()), 0, 64, everything|verbs.AccessMWBind)
	check(s.t, err)
	check(s.t, s.q.post(&verbs.SendRequest{
		ID: uint64(s.q.request.Tail), Opcode: verbs.OpBindMW, Flags: verbs.Signaled,
		Bind: &verbs.MemoryWindowBind{
			Window: w, Region: mr, RKey: w.RKey(), Addr: mr.Addr(), Length: 64, Access: verbs.AccessRemoteRead,
		},
	}))
	s.q.kick()
}

// TestLocalRequestIsNotSent goes back over a local request that was executed:
// nothing of it leaves, and it completes once.
func TestLocalRequestIsNotSent(t *testing.T) {
	s := newStage(t, everything)
	s.post(verbs.OpWrite, 10) // PSN 0
	s.postBind()
	s.post(verbs.OpWrite, 10) // 1
	s.wantSent(0, 0, 1)
	s.ack(0, wire.NAKSequenceError, 10)
	s.wantSent(10, 0, 1)
	s.ack(1, wire.SyndromeAck, 20)
	if ids, status := s.completions(); len(ids) != 3 || status != verbs.Success {
		t.Errorf("completions %v, %v: want three", ids, status)
	}
}

// TestReadLearnsRoundTrip takes the round trip from the first packet of an answer of several.
func TestReadLearnsRoundTrip(t *testing.T) {
	s := newStage(t, everything)
	s.post(verbs.OpRead, 600) // PSN 0…2
	s.wantSent(0, 0)
	const late = tick.Time(100 * time.Millisecond)
	for now := tick.Time(0); now < late; now += tick.Time(time.Millisecond) {
		s.e.runTimers(now)
		s.wantSent(now) // asked once, however far the peer is
	}
	for k, n := range []int{256, 256, 88} {
		s.answer(k, n, late+tick.Time(k))
	}
	if got := tick.Time(inside(s.q.path.Flow, "trip", "smoothed").Int()); got != late {
		t.Errorf("round trip %v, want %v", time.Duration(got), time.Duration(late))
	}
	if ids, status := s.completions(); len(ids) != 1 || status != verbs.Success {
		t.Errorf("completions %v, %v: want the READ's", ids, status)
	}
}

// TestReplayedReads has somebody repeat an old READ request all the time: the READ
// that is new is answered nevertheless.
func TestReplayedReads(t *testing.T) {
	s := newStage(t, everything)
	old := request{op: wire.ReadRequest, length: 250 * stageMTU}
	s.q.onRequest(s.packet(old))
	for s.q.respond.OwesAnswers() {
		s.e.transmit(0)
		s.answered()
	}
	s.q.onRequest(s.packet(old))
	s.q.onRequest(s.packet(request{op: wire.ReadRequest, psn: 250, length: 250 * stageMTU}))
	for range 20 {
		s.q.onRequest(s.packet(old))
		s.e.transmit(0)
		if _, _, psns := s.answered(); slices.Contains(psns, 499) {
			return
		}
	}
	t.Error("the new READ is not answered while the old one is repeated")
}

// TestClosedQueuePairIsSilent closes a queue pair that still has something to send.
func TestClosedQueuePairIsSilent(t *testing.T) {
	s := newStage(t, everything)
	s.post(verbs.OpWrite, 600)
	check(t, s.q.Close())
	if err := s.q.PostSend([]verbs.SendRequest{{Opcode: verbs.OpSend}}); err == nil {
		t.Error("a closed queue pair takes a request")
	}
	s.wantSent(0)
}

// TestMemoryGoes deregisters a region while the message that it holds is being
// sent, behind one that is not acknowledged.
func TestMemoryGoes(t *testing.T) {
	for _, first := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead} {
		t.Run(first.String(), func(t *testing.T) {
			s := newStage(t, everything)
			s.post(first, 10) // PSN 0
			other, err := s.q.pd.RegisterMemory(verbs.Borrow(s.b.Bytes()), 0, s.b.Len(), everything)
			check(t, err)
			check(t, s.q.post(&verbs.SendRequest{ // 1…3
				ID: 1, Opcode: verbs.OpWrite, Flags: verbs.Signaled, RemoteAddr: 0x1000, RKey: 1,
				SGEs: []verbs.SGE{{Addr: other.Addr(), Length: 600, LKey: other.LKey()}},
			}))
			s.q.kick()
			n, _ := s.q.sendSome(0, 2)
			if n != 2 {
				t.Fatalf("%d packets sent, want 2", n)
			}
			check(t, other.Close())
			s.wantSent(0, 0, 1)
			s.e.transmit(0)
			if first == verbs.OpRead {
				s.answer(0, 10, 10)
			} else {
				s.ack(0, wire.SyndromeAck, 10)
			}
			s.e.transmit(10)
			if ids, status := s.completions(); len(ids) != 2 || status != verbs.LocalProtectionError {
				t.Errorf("completions %v, %v: want two, the second LOC_PROT_ERR", ids, status)
			}
		})
	}
}

// TestMemoryGoesBeforeProbe deregisters what a probe would send.
func TestMemoryGoesBeforeProbe(t *testing.T) {
	s := newStage(t, everything)
	s.post(verbs.OpWrite, 10)
	s.wantSent(0, 0)
	check(t, s.mr.Close())
	s.e.runTimers(tick.Time(time.Second))
	s.e.transmit(tick.Time(time.Second))
	if ids, status := s.completions(); len(ids) != 1 || status != verbs.LocalProtectionError {
		t.Errorf("completions %v, %v: want LOC_PROT_ERR", ids, status)
	}
}

// TestLeavingSQE brings a UC queue pair back from SQE while its completion queue is full: what is flushed is what was
// posted before, and what is posted after is sent from its first packet on.
func TestLeavingSQE(t *testing.T) {
	s := newStage(t, everything)
	cq, err := s.e.device.CreateCQ(verbs.CompletionQueueOptions{Depth: 3})
	check(t, err)
	qp, err := s.q.pd.CreateQP(verbs.QueuePairOptions{Transport: verbs.UC, SendCQ: cq, SendDepth: 32, SendSGEs: 2})
	check(t, err)
	q := qp.(*queuePair)
	q.path, q.mtu, q.attr.PathMTU, q.attr.DestQPN = s.q.path, stageMTU, verbs.MTU256, peerQPN
	q.state = verbs.StateRTR
	q.enterState(verbs.StateRTS)
	send := func(id uint64, key uint32) {
		check(t, q.PostSend([]verbs.SendRequest{{
			ID: id, Opcode: verbs.OpSend, Flags: verbs.Signaled, SGEs: []verbs.SGE{{Addr: s.mr.Addr(), Length: 10, LKey: key}},
		}}))
	}
	s.e.held(func() {
		for id := range uint64(4) { // a packet of the first leaves
			check(t, q.post(&verbs.SendRequest{
				ID: id, Opcode: verbs.OpSend, Flags: verbs.Signaled,
				SGEs: []verbs.SGE{{Addr: s.mr.Addr(), Length: stageMTU, LKey: s.mr.LKey()}, {Addr: 1, Length: 10, LKey: 1}},
			}))
		}
		q.sendPosted()
	})
	if q.state != verbs.StateSQE {
		t.Fatalf("state %v, want SQE", q.state)
	}
	check(t, q.Modify(verbs.QueuePairAttributes{Mask: verbs.AttrState, State: verbs.StateRTS}))
	send(4, s.mr.LKey())
	var got []verbs.Completion
	for range 10 {
		var list [2]verbs.Completion
		n, err := cq.Poll(list[:])
		check(t, err)
		got = append(got, list[:n]...)
	}
	want := []verbs.Status{verbs.LocalProtectionError, verbs.FlushError, verbs.FlushError, verbs.FlushError, verbs.Success}
	if len(got) != len(want) {
		t.Fatalf("completions %+v, want %v", got, want)
	}
	for i, c := range got {
		if c.ID != uint64(i) || c.Status != want[i] {
			t.Errorf("completion %d: request %d, %v; want %v", i, c.ID, c.Status, want[i])
		}
	}
}

// answer has packet k from firstPSN on arrive of a READ's answer, with n bytes.
func (s *stage) answer(psn, n int, now tick.Time) {
	s.t.Helper()
	op := wire.RCReadResponseOnly
	if n == stageMTU {
		op = wire.RCReadResponseMiddle
	}
	b := make([]byte, op.HeaderBytes()+n+wire.PadBytes(n)+wire.ICRCBytes)
	wire.PutBTH(b, op, wire.PadFlag(n), s.q.qpn, uint32(firstPSN+psn)&wire.Mask24)
	p, err := wire.ParsePacket(b)
	check(s.t, err)
	s.q.onResponse(&p, now)
}
