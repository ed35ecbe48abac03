package roce

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/gobw/gobw/verbs/roce/link"
	"github.com/gobw/gobw/verbs/tick"
)

// background drives the device when nobody else does: it wakes about every millisecond to look, and once nobody has
// polled for that long it blocks in the kernel until a packet or a deadline comes. An idle device uses no CPU.
type background struct {
	asleep   bool            // the background goroutine is blocked in the kernel: whoever drives sends it away
	sentry   *link.Sleeper   // the background goroutine
	sleepers []*link.Sleeper // others who are blocked in the kernel
	spare    []*link.Sleeper // to be used again
	quit     chan struct{}
	done     sync.WaitGroup
}

const (
	silence = time.Millisecond
	// heldGap is how long it lets a job alone, which holds the lock.
	heldGap = 20 * time.Millisecond
)

// wakeSentry sends the background goroutine away where it is blocked in the kernel.
func (e *engine) wakeSentry() {
	if e.asleep {
		e.asleep = false
		e.sentry.Wake()
	}
}

// wakeSleepers makes those who are blocked in the kernel look again: at events, deadlines and sockets.
func (e *engine) wakeSleepers() {
	e.wakeSentry()
	for _, s := range e.sleepers {
		s.Wake()
	}
}

// await blocks a goroutine until something arrives, a deadline or limit comes, or somebody
// wakes it. The lock is released meanwhile.
func (e *engine) await(limit tick.Time) {
	var s *link.Sleeper
	if n := len(e.spare); n > 0 {
		s, e.spare = e.spare[n-1], e.spare[:n-1]
	} else {
		var err error
		if s, err = link.NewSleeper(); err != nil { // no descriptor is left: come again soon
			e.unlock()
			runtime.Gosched() //nolint:forbidigo // this goroutine serves while nobody measures
			e.lock()
			return
		}
	}
	e.sleepers = append(e.sleepers, s)
	if !e.sleep(limit, s, e.sockets) {
		e.letIn() // no loop around this keeps the lock, whatever its deadlines are
	}
	e.sleepers = slices.DeleteFunc(e.sleepers, func(x *link.Sleeper) bool { return x == s })
	e.spare = append(e.spare, s)
	if len(e.sleepers) == 0 { // the background goroutine watches no socket while others do
		e.wakeSentry()
	}
}

// blockBackground blocks the background goroutine likewise; who drives the device meanwhile wakes it. It returns false
// if a deadline was already due: then it did not sleep and did not release the lock.
func (e *engine) blockBackground(sockets []*socket) bool {
	e.asleep = true
	slept := e.sleep(tick.Never, e.sentry, sockets)
	e.asleep = false
	return slept
}

func (e *engine) sleep(limit tick.Time, s *link.Sleeper, sockets []*socket) bool {
	at := min(limit, e.nextTimer)
	if e.network != nil {
		at = min(at, tick.Time(e.network.Next()))
	}
	ns := int64(-1)
	if at != tick.Never {
		ns = int64(e.clock.Duration(at - tick.Now()))
		if ns <= 0 {
			return false
		}
	}
	for _, x := range sockets {
		s.Watch(x.Socket)
	}
	e.unlock()
	s.Sleep(ns)
	e.lock()
	return true
}

// closeSleepers frees what nobody sleeps with any more.
func (e *engine) closeSleepers() error {
	var errs []error
	for _, s := range append(e.spare, e.sentry) {
		errs = append(errs, s.Close())
	}
	e.spare = nil
	return errors.Join(errs...)
}

// serve is the background goroutine.
func (e *engine) serve() {
	defer e.done.Done()
	timer, held := time.NewTimer(silence), false
	defer timer.Stop()
	for {
		select {
		case <-e.quit:
			return
		case <-timer.C:
		}
		gap := silence
		if !e.tryLock() { // who holds the lock drives: a job, where it is held twice in a row
			if held {
				gap = heldGap
			}
			held = true
			timer.Reset(gap)
			continue
		}
		held = false
		if since := e.clock.Duration(tick.Now() - e.lastRound); since < -silence || since >= silence-silence/8 {
			e.takeOver()
		}
		e.unlock()
		timer.Reset(silence)
	}
}

// takeOver drives the device until somebody else does, or it is closed.
func (e *engine) takeOver() {
	for !e.closed {
		if len(e.sleepers) > 0 { // they drive: only wait until they stop
			mine := e.lastRound
			if !e.blockBackground(nil) || e.lastRound != mine { // a deadline is due: they must have the lock to see to it
				return
			}
			continue
		}
		busy := e.progress(tick.Now(), receiveBudget)
		mine := e.lastRound
		if e.waiting.Load() > 0 {
			return
		}
		if busy {
			e.unlock() // let others in
			e.lock()
		} else {
			e.blockBackground(e.sockets)
		}
		if e.lastRound != mine {
			return
		}
	}
}
