package verbstest

import (
	"testing"

	"github.com/gobw/gobw/verbs"
)

func testSharedReceives(t *testing.T, s *suite) {
	if s.pair.B.Device.Info().Limits.MaxSRQ == 0 {
		t.Skip("the device has no shared receive queues")
	}
	// shared makes two rigs whose B ends take receives from one queue.
	shared := func(t *testing.T, connect func(string, *verbs.ConnectOptions)) (verbs.SharedReceiveQueue, *rig, *rig) {
		pd := must[verbs.ProtectionDomain](t, "allocate domain")(s.pair.B.Device.AllocPD())
		closing(t, "domain", pd)
		srq := must[verbs.SharedReceiveQueue](t, "create SRQ")(pd.CreateSRQ(verbs.SharedReceiveQueueOptions{Depth: 16, SGEs: 2}))
		closing(t, "SRQ", srq)
		o := rigOptions{srq: srq, pdB: pd, connect: connect}
		return srq, newRig(t, s, o), newRig(t, s, o)
	}
	post := func(t *testing.T, srq verbs.SharedReceiveQueue, x *side, id uint64) {
		t.Helper()
		at := int(id%64) * 256
		if err := srq.PostReceive([]verbs.ReceiveRequest{{ID: id, SGEs: x.split(at, 256, 2)}}); err != nil {
			t.Fatalf("post shared receive: %v", err)
		}
	}
	t.Run("two queue pairs", func(t *testing.T) {
		srq, r1, r2 := shared(t, nil)
		for id := range uint64(8) {
			post(t, srq, r1.b, id)
		}
		for id := range uint64(8) {
			r := []*rig{r1, r2, r2, r1}[id%4]
			source := r.a.buf.Bytes()[:200]
			fill(source, uint32(id))
			r.a.post(r.a.request(id, verbs.OpSend, 200))
			r.a.wantSent(id, verbs.Success)
			if c := r.b.wantReceived(id, verbs.Success); c.Bytes != 200 {
				t.Errorf("received %d bytes, want 200", c.Bytes)
			}
			if d := firstDifference(source, r1.b.buf.Bytes()[int(id)*256:]); d >= 0 {
				t.Errorf("message %d: byte %d differs", id, d)
			}
		}
	})
	t.Run("empty", func(t *testing.T) {
		srq, r1, r2 := shared(t, nil)
		r1.a.post(r1.a.request(1, verbs.OpSend, 100))
		r1.quiet("without a shared receive")
		post(t, srq, r1.b, 5)
		r1.a.wantSent(1, verbs.Success)
		r1.b.wantReceived(5, verbs.Success)
		r2.quiet("on the other queue pair")
	})
	t.Run("limit", func(t *testing.T) {
		srq, r1, _ := shared(t, nil)
		for id := range uint64(4) {
			post(t, srq, r1.b, id)
		}
		if err := srq.SetLimit(3); err != nil {
			t.Fatalf("arm the limit: %v", err)
		}
		if n, err := srq.Limit(); err != nil || n != 3 {
			t.Errorf("limit %d, %v; want 3", n, err)
		}
		for id := range uint64(3) {
			r1.a.post(r1.a.request(id, verbs.OpSend, 10))
			r1.a.wantSent(id, verbs.Success)
			r1.b.wantReceived(id, verbs.Success)
		}
		if e := r1.wantEvent(r1.b, verbs.EventSRQLimitReached); e.SRQ != srq {
			t.Errorf("the event names the queue %v, want the one whose limit was reached", e.SRQ)
		}
		if n, err := srq.Limit(); err != nil || n != 0 {
			t.Errorf("limit %d, %v after it fired; want 0", n, err)
		}
	})
	t.Run("not flushed", func(t *testing.T) {
		srq, r1, r2 := shared(t, nil)
		post(t, srq, r1.b, 1)
		if err := r1.b.qp.Modify(verbs.QueuePairAttributes{Mask: verbs.AttrState, State: verbs.StateError}); err != nil {
			t.Fatal(err)
		}
		r1.quiet("a shared receive of a queue pair in ERR")
		r2.a.post(r2.a.request(2, verbs.OpSend, 10))
		r2.a.wantSent(2, verbs.Success)
		r2.b.wantReceived(1, verbs.Success)
	})
	t.Run("posting past it", func(t *testing.T) {
		_, r1, _ := shared(t, nil)
		if err := r1.b.qp.PostReceive([]verbs.ReceiveRequest{{SGEs: []verbs.SGE{r1.b.sge(0, 64)}}}); err == nil {
			t.Error("a queue pair with an SRQ took a receive of its own")
		}
	})
	t.Run("full", func(t *testing.T) {
		srq, r1, _ := shared(t, nil)
		var list []verbs.ReceiveRequest
		for i := range uint64(80) {
			list = append(list, verbs.ReceiveRequest{ID: i, SGEs: []verbs.SGE{r1.b.sge(0, 64)}})
		}
		wantFull(t, nil, srq.PostReceive(list), 16)
	})
}
