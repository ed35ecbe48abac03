package roce

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
	"github.com/gobw/gobw/verbs/verbstest"
)

// TestSharedProcessor plays ping-pong between two threads that share their processor with each other and with two that
// compute. A thread that polls on until the kernel stops it makes an exchange take several of the scheduler's slices.
func TestSharedProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(6))
	a, b := newPair(t, pairOptions{bytes: 1 << 16})
	var stop atomic.Bool
	var computing [2]<-chan struct{}
	for i := range computing {
		computing[i] = onThread(0, func() {
			for !stop.Load() {
				job.Now()
			}
		})
	}
	defer func() {
		stop.Store(true)
		for _, c := range computing {
			<-c
		}
	}()
	const exchanges = 500
	play := func(e *end, first bool) <-chan struct{} {
		l := sendLane(e, e, verbs.OpSend, []verbs.SGE{e.sge(0, 2)}, 16, 1, 1)
		l.Count, l.Await, l.Expect = exchanges, job.AwaitReceive, exchanges
		l.Receives = []verbs.ReceiveRequest{{SGEs: []verbs.SGE{e.sge(1024, 2)}}}
		check(t, l.PostInitial(64))
		return onThread(0, func() {
			if _, err := runJob(t, e.device, &job.Job{Shape: job.PingPong, First: first, CQs: []verbs.CompletionQueue{e.cq}, Lanes: []job.Lane{l}}, 0); err != nil {
				t.Error(err)
			}
		})
	}
	start := time.Now()
	second := play(b, false)
	<-play(a, true)
	<-second
	took := time.Since(start)
	t.Logf("%v per exchange", took/exchanges)
	if took > 10*time.Second {
		t.Errorf("%d exchanges took %v", exchanges, took)
	}
}

// TestSpinBlocks gives gaps in which the thread was preempted, and not.
func TestSpinBlocks(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := newClock()
	var s spin
	now := job.Now()
	s.enter(now)
	now += c.ticks(time.Second)
	s.lost = preemptions()
	s.look(now, c)
	if s.blocks && s.lost == preemptions() {
		t.Error("a gap without preemption makes it block")
	}
	s = spin{last: now, lost: preemptions() + 1<<40}
	now += c.ticks(time.Second)
	s.look(now, c)
	if !s.blocks {
		t.Error("a preemption does not make it block")
	}
	first := s.until - now
	s.blocks, s.lost = false, 1<<40
	now = s.until + c.ticks(time.Millisecond)
	s.look(now, c)
	if s.until-now < first*3/2 {
		t.Error("the second time is no longer than the first")
	}
}

// TestWaitersSleep has goroutines wait on channels of their own: events for one leave the others asleep.
func TestWaitersSleep(t *testing.T) {
	const waiters, events = 8, 50
	x := newEnd(t, Options{Address: verbstest.Address()}, pairOptions{transport: verbs.RC, depth: 64, sges: 1})
	ctx, cancel := context.WithCancel(t.Context())
	var asleep sync.WaitGroup
	for range waiters {
		ch, err := x.device.CreateCompletionChannel()
		check(t, err)
		defer func() { check(t, ch.Close()) }()
		asleep.Go(func() {
			if _, err := ch.Wait(ctx); err == nil {
				t.Error("a waiter without completions has an event")
			}
		})
	}
	ch, err := x.device.CreateCompletionChannel()
	check(t, err)
	defer func() { check(t, ch.Close()) }()
	cq, err := x.device.CreateCQ(verbs.CompletionQueueOptions{Depth: 2 * events, Channel: ch})
	check(t, err)
	defer func() { check(t, cq.Close()) }()
	for range events {
		done := make(chan error, 1)
		go func() {
			_, err := ch.Wait(ctx)
			done <- err
		}()
		check(t, cq.Arm(verbs.NotifyAny))
		e := x.device.e
		e.lock()
		cq.(*completionQueue).push(entry{}, true)
		e.unlock()
		check(t, <-done)
		cq.Acknowledge(1)
	}
	const idle = 200 * time.Millisecond
	var used time.Duration
	for range 20 {
		before := processTime(t)
		<-time.After(idle) // the test is about doing nothing for a while
		if used = processTime(t) - before; used <= idle/20 {
			break
		}
	}
	if used > idle/20 {
		t.Errorf("%v of CPU time in %v while %d wait", used, idle, waiters)
	}
	cancel()
	asleep.Wait()
}
