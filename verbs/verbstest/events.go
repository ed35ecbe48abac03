package verbstest

import (
	"context"
	"errors"
	"time"

	"github.com/gobw/gobw/verbs"
)

// wantEvent waits for an asynchronous event on one end; other kinds before it are passed over.
func (r *rig) wantEvent(x *side, want verbs.EventType) verbs.AsyncEvent {
	r.Helper()
	var e verbs.AsyncEvent
	r.until("event "+want.String(), func() bool {
		select {
		case e = <-x.end.Device.Events():
			return e.Type == want
		default:
			return false
		}
	})
	return e
}

// eventRig is a rig with a channel on B's receive queue.
type eventRig struct {
	*rig
	ch verbs.CompletionChannel
}

func newEventRig(t *test) eventRig {
	ch := got(t.B.Device.CreateCompletionChannel()).closing(t)
	r := newRig(t, rigOptions{channel: ch})
	r.b.receives(0, 8, 64)
	return eventRig{r, ch}
}

func (r eventRig) arm(n verbs.Notify) {
	r.Helper()
	if err := r.b.recvCQ.Arm(n); err != nil {
		r.Fatalf("arm: %v", err)
	}
}

// next is the next event's queue.
func (r eventRig) next(within time.Duration) (verbs.CompletionQueue, error) {
	ctx, cancel := context.WithTimeout(r.Context(), within)
	defer cancel()
	return r.ch.Wait(ctx)
}

// wait waits for an event, which must be of B's receive queue.
func (r eventRig) wait() {
	r.Helper()
	if cq, err := r.next(patience); err != nil {
		r.Fatalf("wait: %v", err)
	} else if cq != r.b.recvCQ {
		r.Errorf("the event names %v, want B's receive queue", cq)
	}
}

// none sees that no event comes.
func (r eventRig) none(why string) {
	r.Helper()
	if _, err := r.next(silence); !errors.Is(err, context.DeadlineExceeded) {
		r.Errorf("%s: %v instead of the deadline: an event came, or none can", why, err)
	}
}

func testEvents(t *test) {
	t.Run("established", func(t *test) {
		if t.Connect != nil || t.ignored(CommEstablished) {
			return
		}
		r := newRig(t, onB(func(o *verbs.ConnectOptions) { o.StayRTR = true }))
		r.b.receives(0, 2, 64)
		r.exchange(0, 2, 8)
		if e := r.wantEvent(r.b, verbs.EventCommEstablished); e.QP != r.b.qp {
			t.Errorf("the event names %v, want the queue pair that has received in RTR", e.QP)
		}
	})
	run := func(name string, f func(t *test, r eventRig)) {
		t.Run(name, func(t *test) { f(t, newEventRig(t)) })
	}
	run("any", func(t *test, r eventRig) {
		for i := range uint64(4) {
			r.arm(verbs.NotifyAny)
			r.a.postOne(i, send, 8)
			r.wait() // nobody polls meanwhile: the device works by itself
			r.b.recvs.want(i)
			r.a.sends.want(i)
		}
	})
	run("one event per arming", func(t *test, r eventRig) {
		r.arm(verbs.NotifyAny)
		for i := range uint64(3) {
			r.a.sendOne(i, 8)
		}
		r.wait()
		r.none("after one arming")
		r.b.recvs.wantAll(0, 3)
	})
	run("too late", func(t *test, r eventRig) {
		r.a.sendOne(0, 8)
		r.until("the completion", func() bool { return len(r.b.recvs.list) > 0 })
		r.arm(verbs.NotifyAny)
		r.none("armed after the completion")
	})
	run("solicited", func(t *test, r eventRig) {
		r.arm(verbs.NotifySolicited)
		r.a.sendOne(0, 8)
		r.none("an ordinary message")
		for i, op := range []verbs.Opcode{send, writeImmediate} {
			id := uint64(i) + 1
			r.arm(verbs.NotifySolicited)
			q := r.a.request(id, op, 8)
			q.Flags |= verbs.Solicited
			r.a.post(q)
			if t.ignored(SolicitedDelivered) {
				r.none("take the row away: a solicited message")
			} else {
				r.wait()
			}
			r.a.sends.want(id)
		}
	})
	run("cancelled", func(t *test, r eventRig) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(silence, cancel)
		if _, err := r.ch.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("wait ended with %v, want context.Canceled", err)
		}
	})
	t.Run("cancelled beside an event", testCancelledBeside)
	run("one of two queues closed", func(t *test, r eventRig) {
		other := newRig(t, rigOptions{channel: r.ch})
		for _, x := range []*rig{other, r.rig} {
			if err := x.b.recvCQ.Arm(verbs.NotifyAny); err != nil {
				t.Fatal(err)
			}
			x.b.receive(9, x.b.sge(0, 64))
			x.a.sendOne(9, 8)
		}
		closeAll(t, other.b.qp, other.b.recvCQ)
		r.wait()
	})
	t.Run("CQ_ERR", testOverflow)
}

// testCancelledBeside has two events wait, and the wait for the first cancelled at about the time that it ends: what is
// left of the cancelling must not end the next.
func testCancelledBeside(t *test) {
	r := newEventRig(t)
	for range 500 {
		for _, x := range []struct {
			from, to *side
			cq       verbs.CompletionQueue
		}{{r.a, r.b, r.b.recvCQ}, {r.b, r.a, r.b.sendCQ}} {
			if err := x.cq.Arm(verbs.NotifyAny); err != nil {
				t.Fatal(err)
			}
			x.to.receive(1, x.to.sge(0, 64))
			x.from.sendOne(1, 8)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		events := 0
		if _, err := r.ch.Wait(ctx); err == nil {
			events++
		} else if !errors.Is(err, context.Canceled) {
			t.Fatalf("wait ended with %v, want context.Canceled", err)
		}
		for ; events < 2; events++ {
			if _, err := r.ch.Wait(t.Context()); err != nil {
				t.Fatalf("the wait after the cancelled one: %v", err)
			}
		}
		r.b.recvs.next()
		r.a.recvs.next()
	}
}

// testOverflow fills a completion queue that nobody polls.
func testOverflow(t *test) {
	r := newRig(t, rigOptions{cqDepth: 4, qp: verbs.QueuePairOptions{RecvDepth: 256, SendDepth: 256}})
	depth := r.b.recvCQ.Depth()
	if depth > 100 {
		t.Skipf("the device makes no queue smaller than %d", depth)
	}
	r.b.receives(0, depth+8, 64)
	r.unpolled = r.b
	for i := range uint64(depth) {
		r.a.sendOne(i, 8)
	}
	r.a.postOne(uint64(depth), send, 8) // may never be acknowledged
	if e := r.wantEvent(r.b, verbs.EventCQError); e.CQ != r.b.recvCQ {
		t.Errorf("the event names the queue %v, want the one that overflowed", e.CQ)
	}
}
