package machine

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// realtimeRemedy says how to be allowed it.
const realtimeRemedy = "start it with sudo, or once: sudo setcap cap_sys_nice+ep PROGRAM (others: docs/results.md, 'On a busy machine')"

// realtimePriority is what the threads of this process had before they got real-time priority.
type realtimePriority struct{ before map[int]*unix.SchedAttr }

// raiseProcess gives all threads of this process the lowest real-time priority, in turns of 100 ms (SCHED_RR). Not those alone
// that measure: the two ends would then hear of each other too late to begin at once. And nobody above another: threads that
// measure never sleep, and whoever waits in a loop for one below itself, waits for ever. Those that have real-time priority
// already keep it.
func (p *realtimePriority) raiseProcess() error {
	tids, err := threadIDs()
	if err != nil {
		return err
	}
	for _, tid := range tids {
		if err := p.raiseThread(tid); err != nil && !errors.Is(err, unix.ESRCH) { // it has ended
			return err
		}
	}
	return nil
}

// raiseThread notes what a thread had. It is not inherited: a program that is started meanwhile is no part of the measurement.
func (p *realtimePriority) raiseThread(tid int) error {
	old, err := unix.SchedGetAttr(tid, 0)
	if err != nil {
		return fmt.Errorf("sched_getattr: %w", err)
	}
	if realtimePolicy(old.Policy) {
		return nil
	}
	first := unix.SchedAttr{Policy: unix.SCHED_RR, Priority: 1, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
	if err := unix.SchedSetAttr(tid, &first, 0); err != nil {
		return fmt.Errorf("sched_setattr: %w (limit of real-time priority, 'ulimit -r': %s)", err, realtimeLimit())
	}
	if p.before == nil {
		p.before = map[int]*unix.SchedAttr{}
	}
	p.before[tid] = old
	return nil
}

// lower gives all of them back what they had.
func (p *realtimePriority) lower() error {
	if p == nil || len(p.before) == 0 {
		return nil
	}
	tids, err := threadIDs() // a number whose thread has ended may be another process's by now
	errs := []error{err}
	for _, tid := range tids {
		if old := p.before[tid]; old != nil {
			errs = append(errs, lowerThread(tid, old))
		}
	}
	p.before = nil
	return errors.Join(errs...)
}

func lowerThread(tid int, old *unix.SchedAttr) error {
	// Of what sched_getattr tells, kernels since 6.12 would take the time slice for a wish.
	before := unix.SchedAttr{Policy: old.Policy, Nice: old.Nice, Flags: old.Flags & unix.SCHED_FLAG_RESET_ON_FORK}
	err := unix.SchedSetAttr(tid, &before, 0)
	if errors.Is(err, unix.EPERM) { // only CAP_SYS_NICE takes that flag away; without real-time priority it does next to nothing
		before.Flags |= unix.SCHED_FLAG_RESET_ON_FORK
		err = unix.SchedSetAttr(tid, &before, 0)
	}
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("take real-time priority back: sched_setattr: %w", err)
	}
	return nil
}

// threadIDs are the threads of this process.
func threadIDs() ([]int, error) {
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil, fmt.Errorf("list the threads of this process: %w", err)
	}
	out := make([]int, 0, len(entries))
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			return nil, fmt.Errorf("list the threads of this process: %w", err)
		}
		out = append(out, tid)
	}
	return out, nil
}

// realtimeThread tells whether the calling thread runs before all that have no real-time priority.
func realtimeThread() bool {
	a, err := unix.SchedGetAttr(0, 0)
	return err == nil && realtimePolicy(a.Policy)
}

func realtimePolicy(policy uint32) bool {
	return policy == unix.SCHED_FIFO || policy == unix.SCHED_RR || policy == unix.SCHED_DEADLINE
}

// realtimeLimit is what 'ulimit -r' prints.
func realtimeLimit() string {
	var l unix.Rlimit
	switch err := unix.Prlimit(0, unix.RLIMIT_RTPRIO, nil, &l); {
	case err != nil:
		return "unknown"
	case l.Cur == unix.RLIM_INFINITY:
		return "unlimited"
	}
	return strconv.FormatUint(l.Cur, 10)
}
