//go:build linux && cgo

package ibv

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// threadedJob is a stream of WRITEs by n threads, with queue pairs and a completion queue for each.
func threadedJob(tb testing.TB, d verbs.Device, n int, count uint64) *job.Threads {
	tb.Helper()
	whole := &job.Job{Shape: job.Stream, Stop: new(atomic.Uint32), Record: job.NewRecorder(0)}
	var queues []job.ThreadQueues
	for range n {
		x, y := newEndpoint(tb, d, 1, verbs.QueuePairOptions{}), newEndpoint(tb, d, 1, verbs.QueuePairOptions{})
		connect(tb, x, y)
		lane := job.Lane{
			QP: x.qps[0], Ring: x.ring(verbs.OpWrite, 64, 2, y, 0), Count: count, Window: 128, Signal: 100, Batch: 1,
		}
		whole.Lanes = append(whole.Lanes, lane)
		whole.CQs = append(whole.CQs, x.cq)
		queues = append(queues, job.ThreadQueues{CQs: []verbs.CompletionQueue{x.cq}})
	}
	t, err := job.PrepareThreads(whole, queues, job.ThreadOptions{Slice: 10_000_000},
		func(_ int, j *job.Job) (job.Runner, error) { return job.Prepare(d, j) })
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// TestThreads runs a job on several threads: the sum is the whole, each thread has done its part, and a stop ends all.
func TestThreads(t *testing.T) {
	d := anyDevice(t)
	for _, n := range []int{1, 2, 3} {
		r := threadedJob(t, d, n, 20_000)
		var p job.Progress
		for err := error(nil); !p.Done; {
			if p, err = r.Run(job.Now() + 10_000_000); err != nil {
				t.Fatal(err)
			}
		}
		if want := uint64(n) * 20_000; p.Posted != want || p.Completed != want || p.BytesOut != 2*want {
			t.Errorf("%d threads: %+v, want %d messages", n, p, want)
		}
		for i, part := range r.Parts() {
			if part.Completed != 20_000 || part.FirstPost < p.FirstPost || part.LastDone > p.LastDone {
				t.Errorf("thread %d of %d: %+v of %+v", i, n, part, p)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	endless := threadedJob(t, d, 2, 1<<40)
	if p, err := endless.Run(job.Now() + 10_000_000); err != nil || p.Done {
		t.Fatalf("%+v, %v", p, err)
	}
	if err := endless.Close(); err != nil { // as after a failure: the threads are in mid-job
		t.Error(err)
	}
}

// gated is a runner that does not run before it is let: a thread without a CPU.
type gated struct {
	job.Runner
	open chan struct{}
}

func (g gated) Run(until job.Ticks) (job.Progress, error) {
	<-g.open
	return g.Runner.Run(until)
}

// TestThreadsThatAreDoneReceiveOn: in both directions, a thread that has sent all of its own goes on receiving until
// the others have. The peer sends more than receives are posted, and would wait for ever.
func TestThreadsThatAreDoneReceiveOn(t *testing.T) {
	d := anyDevice(t)
	whole := &job.Job{Shape: job.Stream, Stop: new(atomic.Uint32)}
	var queues []job.ThreadQueues
	var first, peer *endpoint
	for n := range 2 {
		x, y := newEndpoint(t, d, 1, verbs.QueuePairOptions{RecvDepth: 16}), newEndpoint(t, d, 1,
			verbs.QueuePairOptions{RecvDepth: 16})
		connect(t, x, y)
		lane := job.Lane{
			QP: x.qps[0], Ring: x.ring(verbs.OpSend, 8, 32, y, 0), Window: 8, Signal: 1, Batch: 1, Receives: x.receives(16, 32),
		}
		if err := lane.PostInitial(16); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			first, peer = x, y
		}
		whole.Lanes, whole.CQs = append(whole.Lanes, lane), append(whole.CQs, x.cq)
		queues = append(queues, job.ThreadQueues{CQs: []verbs.CompletionQueue{x.cq}})
	}
	gate := make(chan struct{})
	threads, err := job.PrepareThreads(whole, queues, job.ThreadOptions{Slice: 1_000_000},
		func(n int, j *job.Job) (job.Runner, error) {
			r, err := job.Prepare(d, j)
			if n == 1 && err == nil {
				return gated{r, gate}, nil
			}
			return r, err
		})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, threads)
	whole.Stop.Store(1) // both have sent all: nothing

	const count = 200
	ring := peer.ring(verbs.OpSend, 8, 32, first, 0)
	sender, err := job.Prepare(d, &job.Job{
		CQs:   []verbs.CompletionQueue{peer.cq},
		Lanes: []job.Lane{{QP: peer.qps[0], Ring: ring, Count: count, Window: 8, Signal: 1, Batch: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, sender)
	var p, sent job.Progress
	for end, open := time.Now().Add(30*time.Second), false; !p.Done; {
		if p, err = threads.Run(job.Now() + 100_000); err != nil {
			t.Fatal(err)
		}
		if !sent.Done {
			if sent, err = sender.Run(job.Now() + 100_000); err != nil {
				t.Fatal(err)
			}
		}
		if !open && threads.Received(0) == count { // the other thread has a CPU from here on, and both end
			open = true
			close(gate)
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d messages have found a receive at a thread that is done", sent.Completed, count)
		}
	}
	if got := threads.Received(0); got != count || p.Received != count {
		t.Errorf("received %d on the queue pair, %d in all; want %d", got, p.Received, count)
	}
}

// BenchmarkThreads is what n threads do in the time of one message.
func BenchmarkThreads(b *testing.B) {
	for _, n := range []int{1, 2} {
		b.Run(map[int]string{1: "threads=1", 2: "threads=2"}[n], func(b *testing.B) {
			r := threadedJob(b, nullDevice(b), n, uint64(max(b.N/n, 1)))
			b.ResetTimer()
			for p, err := (job.Progress{}), error(nil); !p.Done; {
				if p, err = r.Run(job.Now() + 10_000_000); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			if err := r.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
