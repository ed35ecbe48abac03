package verbstest

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/gobw/gobw/verbs"
)

func testFlags(t *test) {
	if !t.lacks(HasUnconnected) { // address handles are for UD, and mean nothing here
		runTrials(t, []trial{{name: "address handle on RC", lands: true, edit: func(p *posting) {
			p.AH, p.RemoteQPN, p.RemoteQKey = p.a.addressHandle(p.a.vector(p.b)), 5, 6
		}}})
	}
	t.on("queue resized", rigOptions{cqDepth: 64}, testResize)
	t.Run("signaled", testSignaled)
	t.on("signal all", rigOptions{qp: verbs.QueuePairOptions{SignalAll: true}}, testSignalAll)
	t.Run("inline", testInline)
	t.on("order", rigOptions{}, testOrder)
	t.on("fence", rigOptions{bytes: 256 << 10}, testFence)
}

// testResize makes a completion queue longer and shorter while completions wait in it: all come, in order.
func testResize(r *rig) {
	for _, depth := range []int{200, 100, 16} {
		r.a.post(r.a.requests(10, write, 8)...)
		if err := r.a.sendCQ.Resize(depth); errors.Is(err, verbs.ErrUnsupported) || errors.Is(err, syscall.EOPNOTSUPP) {
			r.Skipf("the device does not: %v", err)
		} else if err != nil || r.a.sendCQ.Depth() < depth {
			r.Fatalf("resize to %d: %d entries, %v", depth, r.a.sendCQ.Depth(), err)
		}
		r.a.sends.wantAll(0, 10)
	}
	if err := r.a.sendCQ.Resize(1 << 30); err == nil {
		r.Error("a queue of 2^30 entries")
	}
}

// testSignaled posts unsignaled requests between signaled ones: only those complete, in order.
func testSignaled(t *test) {
	for _, transport := range transports() {
		t.on(transport.String(), rigOptions{transport: transport}, func(r *rig) {
			list := r.a.requests(24, send, 64)
			for i := range list {
				list[i].SGEs[0], list[i].RemoteAddr = r.a.sge(64*i, 64), list[i].RemoteAddr+uint64(128*i)
				if i%4 != 3 {
					list[i].Flags = 0
				}
			}
			r.refill(128 * len(list))
			r.move(list...)
			r.quiet("after the last signaled request")
		})
	}
}

// testSignalAll makes a queue pair that signals by itself.
func testSignalAll(r *rig) {
	for _, q := range r.a.requests(5, write, 8) {
		q.Flags = 0
		r.a.post(q)
	}
	r.a.sends.wantAll(0, 5)
}

// testInline sends data that is overwritten the moment the post returns, under a key that means nothing.
func testInline(t *test) {
	for _, transport := range t.transports(transports()...) {
		r := newRig(t,
			rigOptions{transport: transport, qp: verbs.QueuePairOptions{InlineBytes: 64, SendSGEs: 2, RecvSGEs: 2}})
		limit := r.a.qp.Capabilities().InlineBytes
		if limit < 64 {
			t.Fatalf("%v: %d inline bytes granted, want at least 64", transport, limit)
		}
		for _, size := range []int{0, 1, 63, 64} {
			r.refill(256)
			q := r.a.request(1, send, size)
			q.SGEs = r.a.split(0, size, min(size, 2))
			for k := range q.SGEs {
				q.SGEs[k].LKey = 0xdeadbeef
			}
			q.Flags |= verbs.Inline
			r.move(q)
		}
		q := r.a.request(99, send, limit+1)
		q.Flags |= verbs.Inline
		r.a.refuses(fmt.Sprintf("%v: %d bytes inline, the limit is %d", transport, limit+1, limit), q)
		if transport == verbs.RC {
			q := r.a.request(98, read, 8)
			q.Flags |= verbs.Inline
			r.a.refuses("an inline READ", q)
		}
	}
}

// testOrder mixes operations on one queue pair: completions come in the order of posting, and each operation sees what
// the ones before it did.
func testOrder(r *rig) {
	size := 2*r.MTU.Bytes() + 5
	for id := uint64(0); id < 32; id += 4 {
		r.refill(r.a.buf.Len())
		list := []verbs.SendRequest{
			r.a.request(id, write, size), r.a.request(id+1, read, size), r.a.request(id+2, send, 16),
			r.a.request(id+3, fetchAdd, 8),
		}
		list[1].SGEs[0] = r.a.sge(20000, size)
		list[2].RemoteAddr += 50000
		add := &list[3]
		add.SGEs[0], add.RemoteAddr, add.CompareAdd = r.a.sge(40000, 8), add.RemoteAddr+48000, 1
		if r.lacks(HasAtomics) {
			list = list[:3]
		}
		r.move(list...)
	}
}

// testFence sends what a READ before it fetches: without the fence the old bytes could go out.
func testFence(r *rig) {
	size := 16*r.MTU.Bytes() + 3
	for id := uint64(0); id < 20; id += 2 {
		fenced := r.a.request(id+1, send, size)
		fenced.Flags |= verbs.Fence
		fenced.RemoteAddr += 128 << 10
		r.refill(128<<10 + size)
		r.move(r.a.request(id, read, size), fenced)
	}
}

// testQueues fills queues to the brim.
func testQueues(t *test) {
	t.on("send", rigOptions{qp: verbs.QueuePairOptions{SendDepth: 8}}, testSendQueue)
	t.on("receive", rigOptions{qp: verbs.QueuePairOptions{RecvDepth: 8}}, func(r *rig) {
		depth := r.b.qp.Capabilities().RecvDepth
		list := make([]verbs.ReceiveRequest, 3*depth+16)
		for i := range list {
			list[i] = verbs.ReceiveRequest{ID: uint64(i), SGEs: []verbs.SGE{r.b.sge(0, 64)}}
		}
		r.exchange(0, wantFull(r, nil, r.b.qp.PostReceive(list), depth), 64)
	})
	t.on("unsignaled", rigOptions{qp: verbs.QueuePairOptions{SendDepth: 8}}, testUnsignaledSlots)
	t.on("lists too long", rigOptions{qp: verbs.QueuePairOptions{SendSGEs: 2, RecvSGEs: 2}}, func(r *rig) {
		n := r.a.qp.Capabilities().SendSGEs + 1
		q := r.a.request(1, write, 0)
		q.SGEs = r.a.split(0, 640, n)
		r.a.refuses(fmt.Sprintf("a list of %d entries, %d are granted", n, n-1), q)
		n = r.b.qp.Capabilities().RecvSGEs + 1
		if postReceive(r.b.qp, 0, r.b.split(0, 640, n)...) == nil {
			r.Errorf("a receive of %d entries was taken, %d are granted", n, n-1)
		}
	})
	t.Run("above the limits", func(t *test) {
		l := t.A.Device.Info().Limits
		pd := got(t.A.Device.AllocPD()).closing(t)
		cq := got(t.A.Device.CreateCQ(verbs.CompletionQueueOptions{})).closing(t)
		for name, o := range map[string]verbs.QueuePairOptions{
			"send depth":      {SendCQ: cq, SendDepth: l.MaxQPWR + 1},
			"receive depth":   {SendCQ: cq, RecvDepth: l.MaxQPWR + 1},
			"send entries":    {SendCQ: cq, SendSGEs: l.MaxSGE + 1},
			"receive entries": {SendCQ: cq, RecvSGEs: l.MaxSGE + 1},
			"no CQ":           {},
		} {
			if closed(pd.CreateQP(o)) == nil {
				t.Errorf("%s: a queue pair was made beyond the limit", name)
			}
		}
		if closed(t.A.Device.CreateCQ(verbs.CompletionQueueOptions{Depth: l.MaxCQE + 1})) == nil {
			t.Error("a completion queue was made beyond the limit")
		}
	})
}

func testSendQueue(r *rig) {
	depth := r.a.qp.Capabilities().SendDepth
	if depth < 8 {
		r.Fatalf("send depth %d granted, want at least 8", depth)
	}
	list := r.a.requests(3*depth+16, write, 8)
	err := r.a.try(list...)
	if r.ignored(OverfullListTold) {
		if err != nil {
			r.Errorf("%v: the overfull list is told, take the row %q away", err, OverfullListTold)
		}
		return
	}
	r.a.sends.wantAll(0, wantFull(r, r.a.qp, err, depth))
	r.quiet("after what fitted")
	r.a.post(list[:depth]...) // and the slots are free again
	r.a.sends.wantAll(0, depth)
}

// wantFull checks the error of a list that did not fit, and returns how many requests got through. Of sends by ibv_wr_*
// none does: such a list is posted whole or not at all.
func wantFull(t testing.TB, sends verbs.QueuePair, err error, depth int) int {
	t.Helper()
	var p *verbs.PostError
	if !errors.As(err, &p) || !errors.Is(err, verbs.ErrQueueFull) {
		t.Fatalf("list longer than the queue: %v, want a PostError of ErrQueueFull", err)
	}
	if sends != nil && verbs.PostsBy(sends) == verbs.PostWR {
		if p.Index != 0 {
			t.Fatalf("list stopped at request %d, want none of it posted", p.Index)
		}
		return 0
	}
	if p.Index < depth {
		t.Fatalf("list stopped at request %d, want at least the depth of %d", p.Index, depth)
	}
	return p.Index
}

// testUnsignaledSlots is the trap of the course: unsignaled requests hold their slots until a signaled one completes.
func testUnsignaledSlots(r *rig) {
	depth := r.a.qp.Capabilities().SendDepth
	r.b.receives(0, depth, 64)
	for _, q := range r.a.requests(depth, send, 8) {
		q.Flags = 0
		r.a.post(q)
	}
	r.b.recvs.wantAll(0, depth)
	more := r.a.request(99, write, 8)
	if r.ignored(UnsignaledHoldSlots) {
		r.until("a free slot: else take the row away", func() bool { return r.a.try(more) == nil })
		return
	}
	if err := r.a.try(more); !errors.Is(err, verbs.ErrQueueFull) {
		r.Errorf("request %d behind %d unsignaled ones: %v, want ErrQueueFull", depth, depth, err)
	}
}
