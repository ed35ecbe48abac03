package drive

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// TestLull holds that a late look alone ends no wait, that packets and messages
// begin it anew, and that it ends somewhere.
func TestLull(t *testing.T) {
	type look struct {
		now, lastChange int64
		packets         uint64
		want            bool
	}
	for name, looks := range map[string][]look{
		"quiet":    {{10, 5, 7, false}, {20, 5, 7, false}, {30, 5, 7, false}, {31, 5, 7, true}},
		"too soon": {{10, 5, 7, false}, {11, 5, 7, false}, {12, 5, 7, false}, {13, 5, 7, false}},
		"late":     {{10, 5, 7, false}, {100, 5, 7, false}, {101, 5, 7, false}, {102, 5, 7, true}},
		"packets": {
			{10, 5, 7, false}, {20, 5, 8, false}, {41, 5, 9, false}, {62, 5, 9, false}, {63, 5, 9, false}, {64, 5, 9, true},
		},
		"messages": {
			{10, 5, 0, false}, {20, 15, 0, false}, {21, 15, 0, false}, {22, 15, 0, false}, {41, 15, 0, true},
		},
		"found late": {
			{10, 5, 1, false}, {2000, 1999, 1, false}, {2001, 1999, 1, false}, {2002, 1999, 1, false}, {2021, 1999, 1, true},
		},
		"messages for ever": {{10, 5, 1, false}, {9000, 8999, 2, false}, {10_011, 10_010, 3, true}},
		"for ever":          {{10, 5, 1, false}, {500, 5, 2, false}, {1009, 5, 3, false}, {1011, 5, 4, true}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &stillness{}
			for i, k := range looks {
				if got := l.lasts(job.Ticks(k.now), job.Ticks(k.lastChange), 20, 1000, k.packets, 0, true); got != k.want {
					t.Fatalf("look %d: got %v, want %v", i, got, k.want)
				}
			}
		})
	}
}

// stub is a part's runner that finds one message when it is let go, and none before: a thread
// that loses its CPU after some slices.
type stub struct {
	before   int64 // slices that it works first, and finds nothing
	worked   atomic.Int64
	gate     chan struct{} // closed: it may run
	received atomic.Uint64
	stop     *atomic.Uint32
}

func (s *stub) Run(job.Ticks) (job.Progress, error) {
	if s.worked.Add(1) <= s.before {
		return job.Progress{}, nil
	}
	<-s.gate
	s.received.Store(1)
	return job.Progress{Received: 1, Done: s.stop.Load() != 0}, nil
}
func (s *stub) Received(int) uint64 { return s.received.Load() }
func (s *stub) Close() error        { return nil }

// TestArrivedAtEveryThread: an end of two threads whose second has no CPU does not believe that all
// has arrived, however long the first finds nothing, and however often the second had looked before;
// once it runs, what it found is counted.
func TestArrivedAtEveryThread(t *testing.T) {
	for name, before := range map[string]int64{"from the start": 0, "after some slices": 10_000} {
		t.Run(name, func(t *testing.T) { testStarvedThread(t, before) })
	}
}

func testStarvedThread(t *testing.T, before int64) {
	whole := &job.Job{Shape: job.Stream, Stop: &atomic.Uint32{}}
	running, starved := &stub{gate: make(chan struct{}), stop: whole.Stop}, &stub{
		before: before, gate: make(chan struct{}), stop: whole.Stop,
	}
	close(running.gate)
	threads, err := job.PrepareThreads(whole, make([]job.ThreadQueues, 2), job.ThreadOptions{Slice: 1000},
		func(n int, _ *job.Job) (job.Runner, error) { return []*stub{running, starved}[n], nil })
	if err != nil {
		t.Fatal(err)
	}
	d := &Driver{
		Ours: true, Spec: plan.Spec{Transport: verbs.RC}, Trace: &Trace{},
		Task: Task{
			Plan: settled(t, plan.Spec{Operation: plan.Send, Kind: plan.Bandwidth}, false, plan.Peer{}), PerNs: 1, Job: whole,
			Runner: threads,
		},
	}
	look := func() bool {
		d.p, err = threads.Run(job.Now() + 1)
		return d.allArrived(job.Now())
	}
	for starved.worked.Load() < before { // its slices go on beside those of the first
		d.p, err = threads.Run(job.Now() + 1)
		time.Sleep(time.Millisecond)
	}
	for range 1000 {
		if look() {
			t.Fatal("all has arrived, says an end of which one thread has not looked")
		}
	}
	close(starved.gate)
	for end := time.Now().Add(time.Minute); !look(); {
		if time.Now().After(end) {
			t.Fatal("both threads look, and it waits on")
		}
	}
	d.finishStopped()
	if d.p.Received != 2 || !d.p.Done {
		t.Errorf("%+v, want a message of each thread", d.p)
	}
	if err := threads.Close(); err != nil {
		t.Error(err)
	}
}
