package bench

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/gobw/gobw/verbs"
)

// CPUChoice says where the measuring thread runs. The zero value leaves it to the kernel.
type CPUChoice struct {
	Pinned bool // to CPU
	CPU    int
	Last   int // else: how many CPUs from the end of those allowed: 1 is the last, 2 the one before; 0: not pinned
}

// quiet is the calm that a measurement needs of the process: a locked and pinned thread, no garbage collection, and
// processors left over for the goroutines that watch. It belongs to the goroutine that measures.
type quiet struct {
	cpu         int // pinned to, -1: not pinned
	maxProcs    int // in force
	oldProcs    int
	oldGC       int
	restoreCPU  func() error
	urgent      chan os.Signal
	preemptions int64
	switches    int64
	process     time.Duration // CPU time of the process before
	started     time.Time
}

// beQuiet prepares the calling goroutine's thread. numa is the device's node, -1 if unknown.
func beQuiet(choice CPUChoice, numa int) (*quiet, error) {
	runtime.LockOSThread()
	q := &quiet{cpu: -1, restoreCPU: func() error { return nil }}
	cpu, err := choice.pick(numa)
	if err == nil && cpu >= 0 {
		q.restoreCPU, err = pinThread(cpu)
		q.cpu = cpu
	}
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	// The spinner keeps one processor; heartbeats and signals need others, however few CPUs there are.
	q.oldProcs = runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), 3))
	q.maxProcs = runtime.GOMAXPROCS(0)
	runtime.GC()
	q.oldGC = debug.SetGCPercent(-1)
	return q, nil
}

// watchSignals counts the preemption signals of Go's scheduler (SIGURG) from now until counted; nothing else in this
// program uses that signal.
func (q *quiet) watchSignals() {
	q.urgent = make(chan os.Signal, 1024)
	signal.Notify(q.urgent, syscall.SIGURG)
	q.switches = involuntarySwitches()
	q.process = processCPU()
	q.started = time.Now()
}

// disturbance is what happened to the measuring thread and the process since watchSignals.
type disturbance struct {
	Preemptions, Switches int64
	ProcessCPU            time.Duration
	Wall                  time.Duration
}

func (q *quiet) counted() disturbance {
	signal.Stop(q.urgent)
	d := disturbance{
		Preemptions: int64(len(q.urgent)), Switches: involuntarySwitches() - q.switches, ProcessCPU: processCPU() - q.process,
		Wall: time.Since(q.started),
	}
	q.preemptions += d.Preemptions
	return d
}

// restore undoes beQuiet.
func (q *quiet) restore() error {
	debug.SetGCPercent(q.oldGC)
	runtime.GOMAXPROCS(q.oldProcs)
	err := q.restoreCPU()
	runtime.UnlockOSThread()
	return err
}

// pick chooses the CPU: the one asked for, or one of the last of those allowed on the device's node.
func (c CPUChoice) pick(numa int) (int, error) {
	allowed, err := allowedCPUs()
	if err != nil {
		if c.Pinned {
			return -1, err
		}
		return -1, nil //nolint:nilerr // without affinity there is no pinning, which the result says
	}
	switch {
	case c.Pinned && slices.Contains(allowed, c.CPU):
		return c.CPU, nil
	case c.Pinned:
		return -1, fmt.Errorf("--cpu %d: this process may run on CPUs %v", c.CPU, allowed)
	case c.Last == 0:
		return -1, nil
	}
	if near := nodeCPUs(numa, allowed); len(near) >= 2 {
		allowed = near
	}
	if len(allowed) < 2 {
		return -1, nil
	}
	return allowed[(len(allowed)-c.Last%len(allowed))%len(allowed)], nil
}

// clockCost measures what one reading of the cycle counter costs, in ticks.
func clockCost() float64 {
	const n = 4096
	start := verbs.Now()
	for range n {
		verbs.Now()
	}
	return float64(verbs.Now()-start) / n
}
