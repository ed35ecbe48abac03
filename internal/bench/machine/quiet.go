package machine

import (
	"errors"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/verbs/job"
)

// Quiet is the calm that a measurement needs of the process: a locked and pinned thread, no garbage collection, and
// processors left over for the goroutines that watch. It belongs to the goroutine that measures.
type Quiet struct {
	CPU      int   // pinned to, -1: not pinned
	threads  int   // that measure
	Pins     []int // the CPU of each thread; nil: not pinned
	waits    waits
	realtime *realtimePriority // nil: normal
	Blocked  bool              // Go's preemption signals cannot reach the threads that measure
	MaxProcs int               // in force
	oldProcs int
	oldGC    int
	oldLimit int64
	live     uint64       // bytes in the heap after the last collection
	undo     func() error // leaves the first thread as it was
	cpus     []int        // that the measuring thread may run on
	losses   cpuLosses
	process  time.Duration // CPU time of the process before
	started  time.Time
}

// BeQuiet prepares the calling goroutine's thread, the first of those that measure: one for each of
// the nodes, which is its device's, -1 if unknown.
func BeQuiet(choice CPUChoice, nodes []int) (*Quiet, error) {
	runtime.LockOSThread()
	q := &Quiet{CPU: -1, threads: len(nodes)}
	if choice.Realtime {
		q.realtime = &realtimePriority{}
	}
	err := q.realtime.raise()
	if err == nil { // before a look at how crowded the CPU is
		q.Pins, err = choice.pickOn(nodes)
	}
	if err == nil {
		q.undo, err = q.calm(0)
	}
	if err == nil && q.Pins != nil && choice.CPUs == nil && q.threads == 1 && crowded(q.waits.counted) {
		if err = q.undo(); err == nil {
			q.Pins = nil
			q.undo, err = q.calm(0)
		}
	}
	if err != nil {
		err = errors.Join(err, q.realtime.lower())
		runtime.UnlockOSThread()
		return nil, err
	}
	if q.cpus = q.Pins; q.Pins != nil {
		q.CPU = q.Pins[0]
	} else if q.cpus, err = AllowedCPUs(); err != nil {
		q.cpus = nil // whose steal nobody knows
	}
	// The spinners keep their processors; heartbeats and signals need others, however few CPUs there are.
	q.oldProcs = runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), q.threads+2))
	q.MaxProcs = runtime.GOMAXPROCS(0)
	q.oldLimit = debug.SetMemoryLimit(-1)
	q.collectNow()
	q.oldGC = debug.SetGCPercent(-1)
	return q, nil
}

// RaisePriority puts what threads the process has by now before all others, where that was asked for.
func (q *Quiet) RaisePriority() error { return q.realtime.raise() }

// Priority is that of the calling thread, which may have been started with it.
func (q *Quiet) Priority() string {
	if realtimeThread() {
		return PriorityRealtime
	}
	return PriorityNormal
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

// Collect takes away the garbage of the jobs so far, if there is much; nothing is measured now. A test of any length holds
// no more than one of its jobs does.
func (q *Quiet) Collect() {
	if objects, _ := heap(); objects > q.live+garbageMost {
		q.collectNow()
	}
}

func (q *Quiet) collectNow() {
	runtime.GC()
	objects, held := heap()
	q.live = objects
	debug.SetMemoryLimit(min(q.oldLimit, int64(held+2*garbageMost)))
}

// PrepareWatch reads what takes a while to read, so that watch, between the ends' meeting and the first message, does not.
func (q *Quiet) PrepareWatch() { q.losses = readCPULosses("/", q.cpus) }

// Watch begins to count what disturbs the measuring thread; prepareWatch comes before.
func (q *Quiet) Watch() {
	q.waits.counted()
	q.process = processCPU()
	q.started = time.Now()
}

// calm pins the calling thread, the n-th of those that measure, keeps Go's preemption signals from it, where that can be done (else
// slices keep most of them out), and follows how long it waits for a CPU.
func (q *Quiet) calm(n int) (undo func() error, err error) {
	restoreCPU, restoreSignals := func() error { return nil }, func() error { return nil }
	if q.Pins != nil {
		if restoreCPU, err = pinThread(q.Pins[n]); err != nil {
			return nil, err
		}
	}
	if restore, err := blockPreemption(); err == nil {
		if restoreSignals = restore; n == 0 {
			q.Blocked = true
		}
	}
	unfollow := q.waits.follow(n)
	return func() error { return errors.Join(restoreSignals(), restoreCPU(), unfollow()) }, nil
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
	waited, process, wall := q.waits.counted(), processCPU()-q.process, time.Since(q.started)
	d := readCPULosses("/", q.cpus).since(q.losses)
	d.Waited, d.ProcessCPU, d.Wall = waited/time.Duration(q.threads), process, wall
	return d
}

// Restore undoes BeQuiet.
func (q *Quiet) Restore() error {
	debug.SetGCPercent(q.oldGC)
	debug.SetMemoryLimit(q.oldLimit)
	runtime.GOMAXPROCS(q.oldProcs)
	err := errors.Join(q.realtime.lower(), q.undo())
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
