package bench

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
	"time"

	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// CPUChoice says where the measuring thread runs. The zero value leaves it to the kernel.
type CPUChoice struct {
	CPUs []int // pinned to these, one for each thread
	// AnyMask has one thread take the first of CPUs that the kernel lets it have, whatever mask (taskset) the process was
	// started with.
	AnyMask bool
	Last    int // else: how many CPUs from the end of those allowed: 1 is the last, 2 the one before; 0: not pinned
}

// quiet is the calm that a measurement needs of the process: a locked and pinned thread, no garbage collection, and
// processors left over for the goroutines that watch. It belongs to the goroutine that measures.
type quiet struct {
	cpu            int   // pinned to, -1: not pinned
	threads        int   // that measure
	pins           []int // the CPU of each thread; nil: not pinned
	others         followers
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

// beQuiet prepares the calling goroutine's thread, the first of those that measure: one for each of
// the nodes, which is its device's, -1 if unknown.
func beQuiet(choice CPUChoice, nodes []int) (*quiet, error) {
	threads := len(nodes)
	runtime.LockOSThread()
	nothing := func() error { return nil }
	q := &quiet{cpu: -1, threads: threads, restoreCPU: nothing, restoreSignals: nothing}
	q.schedule, q.unfollow = followThread()
	var err error
	if q.pins, err = choice.pickOn(nodes); err == nil && q.pins != nil {
		q.cpu, q.cpus = q.pins[0], q.pins
		q.restoreCPU, err = pinThread(q.cpu)
		if err == nil && choice.CPUs == nil && threads == 1 && crowded(q.schedule) {
			err = q.restoreCPU()
			q.cpu, q.cpus, q.pins, q.restoreCPU = -1, nil, nil, nothing
		}
	}
	if err != nil {
		runtime.UnlockOSThread()
		return nil, errors.Join(err, q.unfollow())
	}
	if q.cpu < 0 {
		if q.cpus, err = allowedCPUs(); err != nil {
			q.cpus = nil // whose steal nobody knows
		}
	}
	if restoreSignals, err := blockPreemption(); err == nil { // without it, slices keep most of the signals out
		q.blocked, q.restoreSignals = true, restoreSignals
	}
	// The spinners keep their processors; heartbeats and signals need others, however few CPUs there are.
	q.oldProcs = runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), threads+2))
	q.maxProcs = runtime.GOMAXPROCS(0)
	q.oldLimit = debug.SetMemoryLimit(-1)
	q.collectNow()
	q.oldGC = debug.SetGCPercent(-1)
	return q, nil
}

// crowdedLook is for how long a CPU is tried out: long enough for whoever else wants it to get a turn.
const crowdedLook = 8 * time.Millisecond

// crowded tells whether the calling thread, just pinned, has to share its CPU: it wants it for a while and looks how long it
// had to wait. A pinned thread cannot go where there is room, and one that gets no CPU for seconds loses its peer.
func crowded(read func() schedule) bool {
	began, before := time.Now(), read()
	for time.Since(began) < crowdedLook {
		_ = job.Now()
	}
	return read().minus(before).waited > crowdedLook/10
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

func (s schedule) plus(o schedule) schedule { return schedule{s.waited + o.waited, s.waits + o.waits} }

func (s schedule) minus(o schedule) schedule { return schedule{s.waited - o.waited, s.waits - o.waits} }

// followers add up the accounts of the other threads, each from when it was ready to when it ended.
type followers struct {
	mu    sync.Mutex
	ended schedule
	begun map[int]func() schedule // of those at work, what they have waited so far
}

func (f *followers) begin(n int, so func() schedule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.begun == nil {
		f.begun = map[int]func() schedule{}
	}
	f.begun[n] = so
}

func (f *followers) end(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = f.ended.plus(f.begun[n]())
	delete(f.begun, n)
}

// counted is what they have waited since the last call.
func (f *followers) counted() schedule {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum := f.ended
	f.ended = schedule{}
	for _, so := range f.begun {
		sum = sum.plus(so())
	}
	return sum
}

// pin makes the calling goroutine's thread, the n-th of those that measure, as quiet as the first.
func (q *quiet) pin(n int) (undo func(), err error) {
	restoreCPU, restoreSignals := func() error { return nil }, func() error { return nil }
	if q.pins != nil {
		if restoreCPU, err = pinThread(q.pins[n]); err != nil {
			return nil, err
		}
	}
	if q.blocked {
		if restore, err := blockPreemption(); err == nil {
			restoreSignals = restore
		}
	}
	read, unfollow := followThread()
	before := read()
	q.others.begin(n, func() schedule { return read().minus(before) })
	return func() {
		q.others.end(n)
		if errors.Join(restoreSignals(), restoreCPU(), unfollow()) != nil {
			runtime.LockOSThread() // once more than is undone: the thread ends with its goroutine
		}
	}, nil
}

// disturbance is what happened to the measuring thread and the process since watch.
type disturbance struct {
	taken
	Waited     time.Duration // the measuring thread was ready and had no CPU; of several the mean
	Waits      int64         // how often it got one
	ProcessCPU time.Duration
	Wall       time.Duration
}

func (q *quiet) counted() disturbance {
	now := q.schedule().minus(q.waits).plus(q.others.counted())
	d := disturbance{
		Waited: now.waited / time.Duration(q.threads), Waits: now.waits, ProcessCPU: processCPU() - q.process, Wall: time.Since(q.started),
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

// pickOn chooses a CPU for each thread, at its device's node where they differ and all are known.
func (c CPUChoice) pickOn(nodes []int) ([]int, error) {
	members := map[int][]int{} // threads of a node
	for n, node := range nodes {
		members[node] = append(members[node], n)
	}
	switch unknown := members[-1] != nil; {
	case len(members) == 1:
		return c.pick(nodes[0], len(nodes))
	case unknown || c.CPUs != nil:
		return c.pick(-1, len(nodes))
	}
	out := make([]int, len(nodes))
	for node, threads := range members {
		cpus, err := c.pick(node, len(threads))
		if err != nil || cpus == nil {
			return nil, err
		}
		for i, n := range threads {
			out[n] = cpus[i]
		}
	}
	return out, nil
}

// Check tells whether there is a CPU for the measuring thread.
func (c CPUChoice) Check() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, err := c.pick(-1, 1)
	return err
}

// pick chooses a CPU for each thread: those asked for, or the last of those allowed on the device's node. Nil: none is
// pinned.
func (c CPUChoice) pick(numa, threads int) ([]int, error) {
	allowed, err := allowedCPUs()
	if err != nil {
		if c.CPUs != nil {
			return nil, err
		}
		return nil, nil //nolint:nilerr // without affinity there is no pinning, which the result says
	}
	refuse := func(format string, args ...any) error {
		return &verbs.Error{Verb: "choose CPU", Err: fmt.Errorf(format, args...)}
	}
	if c.AnyMask {
		for _, cpu := range c.CPUs {
			if undo, err := pinThread(cpu); err == nil {
				return []int{cpu}, undo()
			}
		}
		return nil, refuse("the kernel lets this process have none of the CPUs %v", c.CPUs)
	}
	for _, cpu := range c.CPUs {
		if !slices.Contains(allowed, cpu) {
			return nil, refuse("--cpu %d: this process may run on CPUs %v", cpu, allowed)
		}
	}
	switch {
	case c.CPUs != nil && len(c.CPUs) < threads:
		return nil, refuse("--cpu names %d CPUs for %d threads: name one for each, as in --cpu 2,3", len(c.CPUs), threads)
	case c.CPUs != nil:
		return c.CPUs[:threads], nil
	case c.Last == 0:
		return nil, nil
	}
	if near := nodeCPUs(numa, allowed); len(near) >= max(threads, 2) {
		allowed = near
	}
	if len(allowed) < 2 {
		return nil, nil
	}
	out, n := make([]int, threads), len(allowed)
	if threads == 1 && c.Last == n { // the second of two ends on a host of two CPUs: one is left to everybody else
		return nil, nil
	}
	for i := range out { // two ends on this host take different ones, as long as there are
		from := (c.Last-1)*threads + i + 1
		out[i] = allowed[(n-from%n)%n]
	}
	return out, nil
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
