package roce

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/cputime"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
	"github.com/gobw/gobw/verbs/tick"
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
				tick.Now()
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
			if _, err := runJob(t, e.device, &job.Job{
				Shape: job.PingPong, First: first, CQs: []verbs.CompletionQueue{e.cq}, Lanes: []job.Lane{l},
			}, 0); err != nil {
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

// TestSpin gives a wait whose rounds take a microsecond, and yields that return after a while.
func TestSpin(t *testing.T) {
	c := tick.Rate(1)
	const us = tick.Time(1000)
	for _, tt := range []struct {
		name           string
		yield          tick.Time // how long each takes
		wait           tick.Time
		yields, blocks int
	}{
		{"a short answer", us, 12 * us, 0, 0},
		{"a peer on this processor", 100 * us, 340 * us, 3, 0},
		{"a free processor and a long path", 0, 1600 * us, 100, 0},
		{"no answer under way", 0, 4000 * us, 125, 125},
		{"others compute here", 3000 * us, 3000*us + 160*us, 1, 9},
		{"others computed here a while ago", 400 * us, 9000 * us, 1, 536},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s spin
			yields, blocks := 0, 0
			for now := us; now <= tt.wait; now += us {
				switch yield, block := s.next(now, c); {
				case yield:
					yields++
					s.returned(now, now+tt.yield, c)
					now += tt.yield
				case block:
					blocks++
				}
			}
			if yields != tt.yields || blocks != tt.blocks {
				t.Errorf("%d yields and %d blocks, want %d and %d", yields, blocks, tt.yields, tt.blocks)
			}
		})
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
		x.device.e.held(func() { cq.(*completionQueue).push(&entry{}, true) })
		check(t, <-done)
	}
	const idle = 200 * time.Millisecond
	var used time.Duration
	for range 20 {
		before := cputime.Process()
		<-time.After(idle) // the test is about doing nothing for a while
		if used = cputime.Process() - before; used <= idle/20 {
			break
		}
	}
	if used > idle/20 {
		t.Errorf("%v of CPU time in %v while %d wait", used, idle, waiters)
	}
	cancel()
	asleep.Wait()
}
