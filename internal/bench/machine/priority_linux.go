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

// realtimePriority is what the threads of this process had before they got real-time priority; nil: nothing is to be given back.
type realtimePriority struct{ before *unix.SchedAttr }

// raiseProcess gives all threads of this process the lowest real-time priority, in turns of 100 ms (SCHED_RR). Not those alone
// that measure: the two ends would then hear of each other too late to begin at once. And nobody above another: threads that
// measure never sleep, and whoever waits in a loop for one below itself, waits for ever. A process that was started with real-time
// priority keeps it.
func (p *realtimePriority) raiseProcess() error {
	if p.before == nil {
		before, err := unix.SchedGetAttr(0, 0)
		if err != nil {
			return fmt.Errorf("sched_getattr: %w", err)
		}
		if realtimePolicy(before.Policy) {
			return nil
		}
		p.before = before
	}
	if err := schedule(unix.SchedAttr{Policy: unix.SCHED_RR, Priority: 1}); err != nil {
		return fmt.Errorf("%w (limit of real-time priority, 'ulimit -r': %s)", err, realtimeLimit())
	}
	return nil
}

// lower gives all of them back what the first one had.
func (p *realtimePriority) lower() error {
	if p == nil || p.before == nil {
		return nil
	}
	before := unix.SchedAttr{Policy: p.before.Policy, Nice: p.before.Nice} // kernels since 6.12 would take the time slice for a wish
	p.before = nil
	return schedule(before)
}

// schedule sets how all threads of this process are scheduled. Threads that they start inherit it: one that was started meanwhile by a
// thread whose turn had not come is set in a further pass.
func schedule(a unix.SchedAttr) error {
	for set := map[int]bool{}; ; {
		tids, err := threadIDs()
		if err != nil {
			return err
		}
		before := len(set)
		for _, tid := range tids {
			if set[tid] {
				continue
			}
			if err := unix.SchedSetAttr(tid, &a, 0); err != nil && !errors.Is(err, unix.ESRCH) { // it has ended
				return fmt.Errorf("sched_setattr: %w", err)
			}
			set[tid] = true
		}
		if len(set) == before {
			return nil
		}
	}
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
