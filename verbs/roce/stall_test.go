package roce

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
	"github.com/gobw/gobw/verbs/tick"
)

// TestLateReceiver streams SENDs to a peer whose application starts late: the background goroutine uses up the receives
// and answers with RNR NAKs until the application reposts.
func TestLateReceiver(t *testing.T) {
	a, b := newPair(t, pairOptions{bytes: 1 << 20})
	for round := range 3 {
		const count, size = 600, 65536
		drain(b)
		receive := job.Lane{QP: b.qp, Receives: []verbs.ReceiveRequest{{SGEs: []verbs.SGE{b.sge(0, size)}}}, Expect: count}
		check(t, receive.PostInitial(b.qp.Capabilities().RecvDepth))
		var stop atomic.Uint32
		late := make(chan error, 1)
		timer := time.AfterFunc(time.Duration(5*(round+1))*time.Millisecond, func() {
			_, err := runJob(t, b.device,
				&job.Job{Shape: job.Stream, CQs: []verbs.CompletionQueue{b.cq}, Lanes: []job.Lane{receive}, Stop: &stop}, 1)
			late <- err
		})
		defer timer.Stop()
		send := job.Lane{
			QP: a.qp, Count: count, Window: 32, Signal: 4, Batch: 4,
			Ring: []job.Message{{Bytes: size, Steps: []job.Step{{
				Requests: []verbs.SendRequest{{Opcode: verbs.OpSend, SGEs: []verbs.SGE{a.sge(0, size)}}},
			}}}},
		}
		p, err := runJob(t, a.device,
			&job.Job{Shape: job.Stream, CQs: []verbs.CompletionQueue{a.cq}, Lanes: []job.Lane{send}}, 0)
		if err != nil {
			q, r := a.qp.(*queuePair), b.qp.(*queuePair)
			t.Fatalf("round %d: %v (%+v)\nours %v\ntheirs %v\n%+v\n%+v\n%+v", round, err, p, counters(t, a), counters(t, b),
				q.request, r.respond, q.path.Flow)
		}
		check(t, <-late)
		if sent, _ := inFlight(a.qp.(*queuePair).path); sent != 0 {
			t.Errorf("round %d: %d bytes in flight with nothing outstanding", round, sent)
		}
	}
}

// TestSleeperLeaves has somebody sleep in the kernel for the device, and then drive it no
// more: the background goroutine takes over.
func TestSleeperLeaves(t *testing.T) {
	a, b := newPair(t, pairOptions{})
	e := b.device.e
	e.held(func() { // meanwhile the background goroutine leaves the sockets to this sleeper
		e.await(tick.Now() + e.clock.Ticks(50*time.Millisecond))
	})
	check(t, a.qp.PostSend([]verbs.SendRequest{{
		Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: []verbs.SGE{a.sge(0, 8)}, RemoteAddr: b.mr.Addr(),
		RKey: b.mr.RKey(),
	}}))
	if c := a.await(nil); c.Status != verbs.Success {
		t.Error(c.Status)
	}
}

// drain forgets the receives and completions that an earlier job left behind.
func drain(e *end) {
	q := e.qp.(*queuePair)
	q.e.held(func() {
		q.receives.head = q.receives.tail
		q.recvCQ.head = q.recvCQ.tail
	})
}
