package machine

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gobw/gobw/internal/cputime"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/verbs/job"
)

// Quiet is the calm that a measurement needs of the process: a locked and pinned thread, no garbage collection, and
// processors left over for the goroutines that watch. It belongs to the goroutine that measures.
type Quiet struct {
	Pins      []int // the CPU of each thread; nil: not pinned
	tids      []int // of the threads that measure, or did last
	waited    time.Duration
	blocked   bool // Go's preemption signals cannot reach the threads that measure
	oldProcs  int
	oldGC     int
	oldLimit  int64
	collectAt uint64       // bytes in the heap from which on there is much garbage; 0: not known yet
	undo      func() error // leaves the first thread as it was
	watched   watched
	losses    cpuLosses
	process   time.Duration // CPU time of the process before
	started   time.Time
	rested    time.Time // when it last gave the kernel its share
}

// BeQuiet prepares the calling goroutine's thread, the first of those that measure: one for each of
// the nodes, which is its device's, -1 if unknown.
func BeQuiet(choice CPUChoice, nodes []int) (*Quiet, error) {
	runtime.LockOSThread()
	q := &Quiet{tids: make([]int, len(nodes))}
	allowed, _ := AllowedCPUs() // none are known on other systems, nor is what is stolen
	q.watched = watched{allowed, allowed, choice.OtherEnd}
	var err error
	if q.Pins, err = choice.pick(nodes); err == nil {
		q.undo, err = q.calm(0)
	}
	if err == nil && q.Pins != nil && choice.CPUs == nil && len(nodes) == 1 && crowded(q.waits) {
		if err = q.undo(); err == nil {
			q.Pins = nil
			q.undo, err = q.calm(0)
		}
	}
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	if q.Pins != nil {
		q.watched.cpus = q.Pins
		q.watched.all = slices.Compact(slices.Sorted(slices.Values(slices.Concat(allowed, q.Pins))))
	}
	// The spinners keep their processors; heartbeats and signals need others, however few CPUs there are.
	q.oldProcs = runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), len(nodes)+2))
	q.oldLimit = debug.SetMemoryLimit(-1)
	q.Collect()
	q.oldGC = debug.SetGCPercent(-1)
	return q, nil
}

// Describe adds what is in force to what a result says of this end.
func (q *Quiet) Describe(e *report.Environment) {
	e.GOMAXPROCS, e.PreemptSignal, e.Priority = runtime.GOMAXPROCS(0), !q.blocked, Priority()
	if q.Pins != nil {
		e.PinnedCPU = q.Pins[0]
	}
}

// garbageMost is how much garbage a job may make before it is collected while it runs. An eighth of it is collected
// between two jobs, so that each may make nearly all of it.
const garbageMost = 64 << 20

// Collect takes away the garbage of the jobs so far, if there is much; nothing is measured now. A test of any length
// holds no more than one of its jobs does.
func (q *Quiet) Collect() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	first := q.collectAt == 0
	if first { // Go itself lets the heap grow to twice what was in use
		q.collectAt = m.NextGC/2 + garbageMost/8
	}
	if m.HeapAlloc >= q.collectAt {
		runtime.GC()
		if runtime.ReadMemStats(&m); m.HeapIdle-m.HeapReleased > garbageMost {
			debug.FreeOSMemory() // a list leaves much; the pages of less are faulted in again by the next job
			runtime.ReadMemStats(&m)
		}
		q.collectAt = m.HeapAlloc + garbageMost/8
	} else if !first {
		return
	}
	debug.SetMemoryLimit(min(q.oldLimit, int64(m.Sys-m.HeapReleased)+garbageMost))
}

// PrepareWatch does what takes a while, so that Watch, between the ends' meeting and the first message, does not.
func (q *Quiet) PrepareWatch() {
	q.rest()
	q.losses = readCPULosses("/", q.watched)
}

// kernelShare is what the kernel keeps of each second from threads of realtime priority (sched_rt_runtime_us: 5 %), and
// a little more.
const kernelShare = 0.07

// rest gives the kernel its share before a measurement. Otherwise the kernel takes it while it is measured: what ran
// before, such as the warm-up, counts in the same second.
func (q *Quiet) rest() {
	if Priority() == "realtime" {
		time.Sleep(share(time.Since(q.rested)))
	}
	q.rested = time.Now()
}

// share is how long the kernel runs other threads in a time of at most a second.
func share(d time.Duration) time.Duration {
	return time.Duration(kernelShare * float64(min(d, time.Second)))
}

// Watch begins to count what disturbs the measuring thread; PrepareWatch comes before.
func (q *Quiet) Watch() {
	q.waited = q.waits()
	q.process = cputime.Process()
	q.started = time.Now()
}

// calm pins the calling thread, the n-th of those that measure, keeps Go's preemption signals from it, where that can
// be done (else slices keep most of them out), and follows how long it waits for a CPU.
func (q *Quiet) calm(n int) (undo func() error, err error) {
	restoreCPU, restoreSignals := func() error { return nil }, func() error { return nil }
	if q.Pins != nil {
		if restoreCPU, err = pinThread(q.Pins[n]); err != nil {
			return nil, err
		}
	}
	if restore, err := blockPreemption(); err == nil {
		if restoreSignals = restore; n == 0 {
			q.blocked = true
		}
	}
	q.tids[n] = threadID()
	return func() error { return errors.Join(restoreSignals(), restoreCPU()) }, nil
}

// waits is how long the threads that measure have been ready since they were made, and had no CPU: the second figure of
// each one's account (Documentation/scheduler/sched-stats.rst). Where the kernel keeps none nothing is ever waited for.
func (q *Quiet) waits() (sum time.Duration) {
	for _, tid := range q.tids {
		if fields := strings.Fields(textOf(fmt.Sprintf("/proc/self/task/%d/schedstat", tid))); len(fields) > 1 {
			ns, _ := strconv.ParseInt(fields[1], 10, 64)
			sum += time.Duration(ns)
		}
	}
	return sum
}

// Pin makes the calling goroutine's thread, the n-th of those that measure, as quiet as the first.
func (q *Quiet) Pin(n int) (undo func(), err error) {
	back, err := q.calm(n)
	return func() {
		if back() != nil {
			runtime.LockOSThread() // once more than is undone: the thread ends with its goroutine
		}
	}, err
}

// Counted is what has happened since Watch.
func (q *Quiet) Counted() figure.Disturbance {
	waited, process, wall := q.waits()-q.waited, cputime.Process()-q.process, time.Since(q.started)
	now := readCPULosses("/", q.watched)
	d := now.since(q.losses)
	d.Waited, d.ProcessCPU, d.Wall = max(waited, 0)/time.Duration(len(q.tids)), process, wall
	if Priority() != "realtime" { // then it is the kernel that pauses it, and nobody may have the CPU
		d.Shared = max(d.Waited-d.Stopped-now.others(q.losses, len(q.watched.all)), 0)
	}
	return d
}

// Restore undoes BeQuiet.
func (q *Quiet) Restore() error {
	debug.SetGCPercent(q.oldGC)
	debug.SetMemoryLimit(q.oldLimit)
	runtime.GOMAXPROCS(q.oldProcs)
	err := q.undo()
	runtime.UnlockOSThread()
	return err
}

// ClockCost measures what one reading of the cycle counter costs, in ticks.
func ClockCost() float64 {
	const n = 4096
	start := job.Now()
	for range n {
		job.Now()
	}
	return float64(job.Now()-start) / n
}
