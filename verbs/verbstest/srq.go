package verbstest

import (
	"fmt"
	"slices"

	"github.com/gobw/gobw/verbs"
)

// sharedRig is two rigs whose B ends take receives from one queue.
type sharedRig struct {
	srq      verbs.SharedReceiveQueue
	one, two *rig
}

func newSharedRig(t *test) sharedRig {
	pd := got(t.B.Device.AllocPD()).closing(t)
	srq := got(pd.CreateSRQ(verbs.SharedReceiveQueueOptions{Depth: 16, SGEs: 2})).closing(t)
	o := rigOptions{srq: srq, pdB: pd}
	return sharedRig{srq, newRig(t, o), newRig(t, o)}
}

// post posts a shared receive into the first rig's memory.
func (x sharedRig) post(id uint64) {
	x.one.Helper()
	at := int(id%64) * 256
	if err := postReceive(x.srq, id, x.one.b.split(at, 256, 2)...); err != nil {
		x.one.Fatalf("post shared receive: %v", err)
	}
}

func testSharedReceives(t *test) {
	if t.B.Device.Info().Limits.MaxSRQ == 0 {
		t.Skip("the device has no shared receive queues")
	}
	run := func(name string, f func(t *test, x sharedRig)) {
		t.Run(name, func(t *test) { f(t, newSharedRig(t)) })
	}
	run("two queue pairs", func(t *test, x sharedRig) {
		for id := range uint64(8) {
			x.post(id)
		}
		for id := range uint64(8) {
			r := []*rig{x.one, x.two, x.two, x.one}[id%4]
			source := r.a.mem[:200]
			fill(source, uint32(id))
			r.a.sendOne(id, 200)
			if c := r.b.recvs.want(id); c.Bytes != 200 {
				t.Errorf("received %d bytes, want 200", c.Bytes)
			}
			same(t, fmt.Sprintf("message %d", id), x.one.b.mem[int(id)*256:], source)
		}
	})
	t.Run("empty", func(t *test) {
		if t.deviates(ReceiverNotReady) {
			return // as without a receive
		}
		x := newSharedRig(t)
		x.one.a.postOne(1, send, 100)
		x.one.quiet("without a shared receive")
		x.post(5)
		x.one.a.sends.want(1)
		x.one.b.recvs.want(5)
		x.two.quiet("on the other queue pair")
	})
	run("limit", func(t *test, x sharedRig) {
		for id := range uint64(4) {
			x.post(id)
		}
		if err := x.srq.SetLimit(3); err != nil {
			t.Fatalf("arm the limit: %v", err)
		}
		x.one.exchange(0, 3, 10)
		if e := x.one.wantEvent(x.one.b, verbs.EventSRQLimitReached); e.SRQ != x.srq {
			t.Errorf("the event names the queue %v, want the one whose limit was reached", e.SRQ)
		}
		x.one.exchange(3, 1, 10)
		select {
		case e := <-t.B.Device.Events():
			t.Errorf("%v behind the event that was asked for", e)
		default:
		}
	})
	t.Run("domain", testSharedDomain)
	// a queue pair that shares receives has none of its own, whatever is asked for
	run("depth", func(t *test, x sharedRig) {
		o := verbs.QueuePairOptions{SendCQ: x.one.b.sendCQ, SRQ: x.srq, RecvDepth: 1 << 30}
		got(x.one.b.pd.CreateQP(o)).closing(t)
	})
	run("not flushed", func(_ *test, x sharedRig) { // shared receives outlive a queue pair that could have taken them
		x.post(1)
		x.one.b.to(verbs.StateError)
		x.one.quiet("a shared receive of a queue pair in ERR")
		x.two.a.sendOne(2, 10)
		x.two.b.recvs.want(1)
	})
	run("posting past it", func(t *test, x sharedRig) {
		if postReceive(x.one.b.qp, 0, x.one.b.sge(0, 64)) == nil {
			t.Error("a queue pair with an SRQ took a receive of its own")
		}
	})
	run("full", func(t *test, x sharedRig) {
		list := slices.Repeat([]verbs.ReceiveRequest{{SGEs: []verbs.SGE{x.one.b.sge(0, 64)}}}, 80)
		wantFull(t, nil, x.srq.PostReceive(list), 16)
	})
}

// testSharedDomain: memory of shared receives is of the shared queue's domain,
// whatever the queue pair's is (IBTA 10.2.9).
func testSharedDomain(t *test) {
	if t.ignored(SharedReceiveDomain) {
		return
	}
	pd := got(t.B.Device.AllocPD()).closing(t)
	srq := got(pd.CreateSRQ(verbs.SharedReceiveQueueOptions{})).closing(t)
	r := newRig(t, rigOptions{srq: srq})
	for id, mr := range []verbs.MemoryRegion{
		got(pd.RegisterMemory(r.b.buf, 0, 64, allRemote)).closing(t), r.b.mr,
	} {
		if err := postReceive(srq, uint64(id), mr.SGE(0, 64)); err != nil {
			t.Fatal(err)
		}
	}
	r.exchange(0, 1, 64)
	r.a.postOne(1, send, 64)
	r.a.sends.want(1, verbs.RemoteOperationError)
	r.b.recvs.want(1, verbs.LocalProtectionError)
}
