package bench

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
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
	cpu            int  // pinned to, -1: not pinned
	blocked        bool // Go's preemption signals cannot reach this thread
	maxProcs       int  // in force
	oldProcs       int
	oldGC          int
	oldLimit       int64
	live           uint64 // bytes in the heap after the last collection
	restoreCPU     func() error
	restoreSignals func() error
	schedule       func() schedule // reads the scheduler's account of the measuring thread
	unfollow       func() error    // ends that
	cpus           []int           // that the measuring thread may run on
	takings        takings
	waits          schedule      // of the measuring thread
	process        time.Duration // CPU time of the process before
	started        time.Time
}

// beQuiet prepares the calling goroutine's thread. numa is the device's node, -1 if unknown.
func beQuiet(choice CPUChoice, numa int) (*quiet, error) {
	runtime.LockOSThread()
	nothing := func() error { return nil }
	q := &quiet{cpu: -1, restoreCPU: nothing, restoreSignals: nothing}
	q.schedule, q.unfollow = followThread()
	cpu, err := choice.pick(numa)
	if err == nil && cpu >= 0 {
		q.restoreCPU, err = pinThread(cpu)
		q.cpu = cpu
	}
	if err != nil {
		runtime.UnlockOSThread()
		return nil, errors.Join(err, q.unfollow())
	}
	if q.cpu >= 0 {
		q.cpus = []int{q.cpu}
	} else if q.cpus, err = allowedCPUs(); err != nil {
		q.cpus = nil // whose steal nobody knows
	}
	if restoreSignals, err := blockPreemption(); err == nil { // without it, slices keep most of the signals out
		q.blocked, q.restoreSignals = true, restoreSignals
	}
	// The spinner keeps one processor; heartbeats and signals need others, however few CPUs there are.
	q.oldProcs = runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), 3))
	q.maxProcs = runtime.GOMAXPROCS(0)
	q.oldLimit = debug.SetMemoryLimit(-1)
	q.collectNow()
	q.oldGC = debug.SetGCPercent(-1)
	return q, nil
}

// garbageMost is how much garbage may lie around before it is collected between two jobs; while a job runs, the collector is
// off until there is twice as much.
const garbageMost = 32 << 20

// heap reads what lies in Go's heap, and what the runtime holds in all.
func heap() (objects, held uint64) {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	return samples[0].Value.Uint64(), samples[1].Value.Uint64() - samples[2].Value.Uint64()
}

// collect takes away the garbage of the jobs so far, if there is much; nothing is measured now. A test of any length holds
// no more than one of its jobs does.
func (q *quiet) collect() {
	if objects, _ := heap(); objects > q.live+garbageMost {
		q.collectNow()
	}
}

func (q *quiet) collectNow() {
	runtime.GC()
	objects, held := heap()
	q.live = objects
	debug.SetMemoryLimit(min(q.oldLimit, int64(held+2*garbageMost)))
}

// prepareWatch reads what takes a while to read, so that watch, between the ends' meeting and the first message, does not.
func (q *quiet) prepareWatch() { q.takings = readTakings("/", q.cpus) }

// watch begins to count what disturbs the measuring thread; prepareWatch comes before.
func (q *quiet) watch() {
	q.waits = q.schedule()
	q.process = processCPU()
	q.started = time.Now()
}

// schedule is the scheduler's account of a thread, whose figures only grow.
type schedule struct {
	waited time.Duration // ready to run, without a CPU
	waits  int64         // how often it got one
}

// disturbance is what happened to the measuring thread and the process since watch.
type disturbance struct {
	taken
	Waited     time.Duration // the measuring thread was ready and had no CPU
	Waits      int64         // how often it got one
	ProcessCPU time.Duration
	Wall       time.Duration
}

func (q *quiet) counted() disturbance {
	now := q.schedule()
	d := disturbance{
		Waited: now.waited - q.waits.waited, Waits: now.waits - q.waits.waits, ProcessCPU: processCPU() - q.process, Wall: time.Since(q.started),
	}
	d.taken = readTakings("/", q.cpus).since(q.takings)
	return d
}

func (d disturbance) plus(e disturbance) disturbance {
	return disturbance{
		taken: d.taken.plus(e.taken), Waited: d.Waited + e.Waited, Waits: d.Waits + e.Waits, ProcessCPU: d.ProcessCPU + e.ProcessCPU, Wall: d.Wall + e.Wall,
	}
}

// fill hands the disturbance to those who judge it.
func (d disturbance) fill(c *figure.Conditions) {
	c.WatchedSeconds, c.WaitedSeconds, c.Waits = d.Wall.Seconds(), d.Waited.Seconds(), d.Waits
	c.StealSeconds, c.ThrottledCount = d.Steal.Seconds(), d.Throttles
	c.QuotaStops, c.QuotaSeconds = d.Stops, d.Stopped.Seconds()
}

// restore undoes beQuiet.
func (q *quiet) restore() error {
	debug.SetGCPercent(q.oldGC)
	debug.SetMemoryLimit(q.oldLimit)
	runtime.GOMAXPROCS(q.oldProcs)
	err := errors.Join(q.restoreSignals(), q.restoreCPU(), q.unfollow())
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
		return -1, &verbs.Error{Verb: "choose CPU", Err: fmt.Errorf("--cpu %d: this process may run on CPUs %v", c.CPU, allowed)}
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
	start := job.Now()
	for range n {
		job.Now()
	}
	return float64(job.Now()-start) / n
}
