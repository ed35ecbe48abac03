package roce

import (
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
	"github.com/gobw/gobw/verbs/tick"
)

// TestEventMode runs jobs that sleep until a completion event, against a peer that nobody drives but its device.
func TestEventMode(t *testing.T) {
	for _, op := range []verbs.Opcode{verbs.OpRead, verbs.OpWrite} {
		t.Run(op.String(), func(t *testing.T) {
			a, b := newPair(t, pairOptions{bytes: 4096})
			ch, err := a.device.CreateCompletionChannel()
			check(t, err)
			cq, err := a.device.CreateCQ(verbs.CompletionQueueOptions{Depth: 64, Channel: ch})
			check(t, err)
			qp, err := a.pd.CreateQP(verbs.QueuePairOptions{SendCQ: cq})
			check(t, err)
			peer, err := b.pd.CreateQP(verbs.QueuePairOptions{SendCQ: b.cq})
			check(t, err)
			o := pairOptions{transport: verbs.RC, mtu: verbs.MTU1024, timeout: 14, rdAtomic: 1}
			connect(t, a.device, qp, b.device, peer, o)
			connect(t, b.device, peer, a.device, qp, o)
			const count = 300
			j := &job.Job{Shape: job.PingPong, First: true, CQs: []verbs.CompletionQueue{cq}, Channel: ch, Lanes: []job.Lane{{
				QP: qp, Count: count, Window: 1, Signal: 1, Batch: 1, Await: job.AwaitCompletion,
				Ring: []job.Message{{Bytes: 8, Steps: []job.Step{{Requests: []verbs.SendRequest{{
					Opcode: op, SGEs: []verbs.SGE{a.sge(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
				}}}}}},
			}}}
			r, err := job.Prepare(a.device, j)
			check(t, err)
			start := time.Now()
			for {
				p, err := r.Run(tick.Now() + a.device.e.clock.Ticks(10*time.Millisecond))
				check(t, err)
				if p.Done {
					break
				}
				if time.Since(start) > time.Minute {
					t.Fatalf("%d of %d after %v; ours %v theirs %v", p.Completed, count, time.Since(start), counters(t, a),
						counters(t, b))
				}
			}
			t.Logf("%v each; ours %v", time.Since(start)/count, counters(t, a))
			check(t, r.Close())
			check(t, qp.Close())
			check(t, peer.Close())
			check(t, cq.Close())
			check(t, ch.Close())
		})
	}
}

// TestLastReceiveTaken: a queue pair in ERR takes no more of a shared receive queue, and says so once. One with
// receives of its own does not: it flushes them.
func TestLastReceiveTaken(t *testing.T) {
	for _, shared := range []bool{true, false} {
		a, b := newPair(t, pairOptions{})
		o := verbs.QueuePairOptions{SendCQ: a.cq}
		if shared {
			srq, err := a.pd.CreateSRQ(verbs.SharedReceiveQueueOptions{})
			check(t, err)
			defer func() { check(t, srq.Close()) }()
			o.SRQ = srq
		}
		qp, err := a.pd.CreateQP(o)
		check(t, err)
		connect(t, a.device, qp, b.device, b.qp, pairOptions{transport: verbs.RC, mtu: verbs.MTU1024})
		for range 2 {
			check(t, qp.Modify(verbs.QueuePairAttributes{Mask: verbs.AttrState, State: verbs.StateError}))
		}
		var events []verbs.AsyncEvent
		for len(a.device.e.events) > 0 {
			events = append(events, <-a.device.e.events)
		}
		if shared && (len(events) != 1 || events[0].Type != verbs.EventQPLastWQEReached || events[0].QP != qp) ||
			!shared && len(events) > 0 {
			t.Errorf("shared receives %v: events %v, want one that it was the last, of shared receives alone", shared, events)
		}
		check(t, qp.Close())
	}
}
