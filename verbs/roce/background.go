package roce

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobw/gobw/verbs"
)

// background drives the device when nobody else does: it wakes about every millisecond to look, and once nobody has
// polled for that long it blocks in the kernel until a packet or a deadline comes. An idle device uses no CPU.
type background struct {
	lastDrive atomic.Int64 // ticks, to noteEvery
	noted     verbs.Ticks  // the same
	noteEvery verbs.Ticks
	drives    uint64       // rounds of progress
	running   atomic.Int32 // jobs being run
	asleep    bool         // the background goroutine is blocked in the kernel: whoever drives sends it away
	waiters   int          // goroutines blocked in the kernel that wait for a completion event
	bell      *waker       // wakes them
	sentry    *waker       // wakes the background goroutine
	quit      chan struct{}
	done      sync.WaitGroup
}

const (
	silence    = time.Millisecond
	runningGap = 20 * time.Millisecond
)

// drove notes that somebody drives the device, and sends the background goroutine away when it is blocked in the kernel.
func (e *engine) drove(now verbs.Ticks) {
	if now-e.noted > e.noteEvery || e.asleep {
		e.noted = now
		e.lastDrive.Store(int64(now))
	}
	if e.asleep {
		e.asleep = false
		e.sentry.wake()
	}
}

// wakeSleepers makes those who are blocked in the kernel look again: at events, deadlines and sockets.
func (e *engine) wakeSleepers() {
	if e.asleep {
		e.asleep = false
		e.sentry.wake()
	}
	if e.waiters > 0 {
		e.bell.wake()
	}
}

// announce makes those who are blocked in the kernel look at new deadlines.
func (e *engine) announce() {
	if e.asleep || e.waiters > 0 {
		e.wakeSleepers()
	}
}

// await blocks a goroutine that waits for a completion event until something arrives, a deadline or limit comes, or
// somebody wakes it. The lock is released meanwhile.
func (e *engine) await(limit verbs.Ticks) {
	e.waiters++
	e.sleep(limit, e.bell, e.sockets)
	if e.waiters--; e.waiters == 0 {
		e.bell.drain()
	}
}

// stand blocks the background goroutine likewise; who drives the device meanwhile wakes it. It tells whether it slept at
// all: with a deadline already due it returns at once and the lock was never let go.
func (e *engine) stand(sockets []*socket) bool {
	e.asleep = true
	slept := e.sleep(never, e.sentry, sockets)
	e.asleep = false
	e.sentry.drain()
	return slept
}

func (e *engine) sleep(limit verbs.Ticks, w *waker, sockets []*socket) bool {
	at := min(limit, e.nextTimer)
	if e.fabric != nil {
		if due, ok := e.fabric.next(e.patience); ok {
			at = min(at, due)
		}
	}
	ns := int64(-1)
	if at != never {
		ns = int64(e.clock.duration(at - verbs.Now()))
		if ns <= 0 {
			return false
		}
	}
	set := make([]pollFD, 0, 8)
	set = append(set, w.pollFD())
	for _, s := range sockets {
		set = append(set, awaitReadable(s.fd))
	}
	e.unlock()
	pollUntil(set, ns)
	e.lock()
	return true
}

// serve is the background goroutine.
func (e *engine) serve() {
	defer e.done.Done()
	timer := time.NewTimer(silence)
	defer timer.Stop()
	for {
		gap := silence
		if e.running.Load() > 0 {
			gap = runningGap
		}
		timer.Reset(gap)
		select {
		case <-e.quit:
			return
		case <-timer.C:
		}
		if e.abandoned(gap) && e.mu.TryLock() { // who holds the lock drives
			e.takeOver()
			e.unlock()
		}
	}
}

// takeOver drives the device until somebody else does, or it is closed.
func (e *engine) takeOver() {
	for !e.closed {
		if e.waiters > 0 { // they drive: only wait until they stop
			mine := e.drives
			if !e.stand(nil) || e.drives != mine { // a deadline is due: they must have the lock to see to it
				return
			}
			continue
		}
		busy := e.progress(verbs.Now())
		mine := e.drives
		if e.waiting.Load() > 0 {
			return
		}
		if busy {
			e.unlock() // let others in
			e.lock()
		} else {
			e.stand(e.sockets)
		}
		if e.drives != mine {
			return
		}
	}
}

// abandoned tells whether nobody has driven the device for a while.
func (e *engine) abandoned(gap time.Duration) bool {
	idle := e.clock.duration(verbs.Now() - verbs.Ticks(e.lastDrive.Load()))
	return idle >= gap-gap/8
}
