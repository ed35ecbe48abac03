package job

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobw/gobw/verbs"
)

// ThreadOptions say how the threads of [PrepareThreads] are made.
type ThreadOptions struct {
	// Slice is how long a thread works before it tells how far it has come; First is the same until it has posted or
	// received its first message.
	Slice, First Ticks
	// Pin makes the calling goroutine's thread, the n-th from 1 on, fit to measure, and returns
	// how to undo it; nil: nothing is done.
	Pin func(n int) (undo func(), err error)
}

// Threads runs the parts of one job at the same time: each has its own lanes, completion queues and recorder. The first
// runs on the goroutine that calls Run, the others on threads of their own, which do not wait for each other: they are
// ready when PrepareThreads returns, and begin with the first Run. It is a [Runner]: its progress is the sum, and when
// it is closed it has added the recorders to that of the whole job.
type Threads struct {
	whole   *Job
	parts   []*part
	o       ThreadOptions
	begin   func() // lets the threads go: the first Run, or Close
	closing atomic.Bool
	workers sync.WaitGroup
	summed  []Progress // of each part, as of the last sum
}

// part is what one thread runs.
type part struct {
	job    *Job
	runner Runner
	over   atomic.Bool   // it is done, and has nothing to do for the peer
	worked atomic.Uint64 // slices so far
	seen   uint64        // worked, when Looked was last true

	mu       sync.Mutex
	progress Progress
	received []uint64 // of each lane
	err      error
}

// ThreadQueues are the completion queues of one thread's lanes, and the channel
// that they announce events on; nil: none.
type ThreadQueues struct {
	CQs     []verbs.CompletionQueue
	Channel verbs.CompletionChannel
}

// PrepareThreads compiles the parts of a job, one for each thread, on the device of each. The lanes are dealt out in
// turn. The parts share the stop word, without which the job could not end when one of them fails.
func PrepareThreads(whole *Job, queues []ThreadQueues, o ThreadOptions,
	prepare func(thread int, j *Job) (Runner, error),
) (*Threads, error) {
	n := len(queues)
	if whole.Shape == PingPong || whole.Stop == nil || n < 1 {
		return nil, fmt.Errorf("%v job in %d parts: threads share what can be dealt out, and has a stop word", whole.Shape, n)
	}
	begun := make(chan struct{})
	t := &Threads{whole: whole, summed: make([]Progress, n), o: o, begin: sync.OnceFunc(func() { close(begun) })}
	for i := range queues {
		j := *whole
		j.CQs, j.Channel, j.Lanes, j.Record = queues[i].CQs, queues[i].Channel, nil, NewRecorder(0)
		for q := i; q < len(whole.Lanes); q += n {
			j.Lanes = append(j.Lanes, whole.Lanes[q])
		}
		if w := whole.Record; w != nil {
			j.Record = NewRecorder(len(w.Raw) / n)
			j.Record.Samples, j.Record.CPU = w.Samples, w.CPU // the peaks of parts are not that of the whole
		}
		r, err := prepare(i, &j)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("thread %d: %w", i, err), t.Close())
		}
		t.parts = append(t.parts, &part{job: &j, runner: r, received: make([]uint64, len(j.Lanes))})
	}
	ready := make(chan error, n)
	for i := range t.parts[1:] {
		t.workers.Go(func() { t.work(i+1, ready, begun) })
	}
	var err error
	for range t.parts[1:] {
		err = errors.Join(err, <-ready)
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Run implements [Runner].
func (t *Threads) Run(until Ticks) (Progress, error) {
	t.begin()
	if !t.parts[0].over.Load() {
		t.slice(0, until)
	}
	for t.parts[0].over.Load() && Now() < until &&
		slices.ContainsFunc(t.parts, func(p *part) bool { return !p.over.Load() }) {
		time.Sleep(50 * time.Microsecond) // the other threads are at work
	}
	return t.sum()
}

// work runs a part on a thread of its own.
func (t *Threads) work(n int, ready chan<- error, begun <-chan struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p := t.parts[n]
	if t.o.Pin != nil {
		undo, err := t.o.Pin(n)
		if err != nil {
			ready <- fmt.Errorf("thread %d: %w", n, err)
			return
		}
		defer undo()
	}
	ready <- nil
	<-begun
	for length := cmp.Or(t.o.First, t.o.Slice); !t.closing.Load(); {
		progress := t.slice(n, Now()+length)
		if p.over.Load() {
			return
		}
		if progress.Posted+progress.Received > 0 || p.job.Shape == Serve { // which has no first message
			length = t.o.Slice
		}
	}
}

// slice lets a part work once. One that is done, and keeps receives posted, goes on with them: the peer may still send
// on its queue pairs, and would wait for ever where none is posted.
func (t *Threads) slice(n int, until Ticks) Progress {
	p := t.parts[n]
	began := Now()
	progress, err := p.runner.Run(until)
	progress.Since(p.progress, began)
	p.mu.Lock()
	p.progress, p.err = progress, err
	for i := range p.received {
		p.received[i] = p.runner.Received(i)
	}
	p.mu.Unlock()
	p.over.Store(err != nil || progress.Done && !p.job.KeepsReceives())
	p.worked.Add(1)
	return progress
}

// sum is how far all have come. When one has failed, the others are told to stop.
func (t *Threads) sum() (Progress, error) {
	all := Progress{Done: true}
	for i, p := range t.parts {
		p.mu.Lock()
		progress, err := p.progress, p.err
		p.mu.Unlock()
		if err != nil {
			t.whole.Stop.Store(1)
			return all, err
		}
		t.summed[i] = progress
		all.Add(progress)
	}
	return all, nil
}

// Add adds what another job has done at the same time.
func (p *Progress) Add(o Progress) {
	p.Done = p.Done && o.Done
	p.Posted += o.Posted
	p.Completed += o.Completed
	p.Received += o.Received
	p.BytesOut += o.BytesOut
	p.BytesIn += o.BytesIn
	if p.FirstPost == 0 || o.FirstPost != 0 && o.FirstPost < p.FirstPost {
		p.FirstPost = o.FirstPost
	}
	if p.FirstIn == 0 || o.FirstIn != 0 && o.FirstIn < p.FirstIn {
		p.FirstIn = o.FirstIn
	}
	p.LastDone = max(p.LastDone, o.LastDone)
}

// Since notes when the Run began that saw the first receive, from the progress before that Run.
func (p *Progress) Since(before Progress, began Ticks) {
	if p.FirstIn == 0 {
		p.FirstIn = before.FirstIn
	}
	if p.FirstIn == 0 && p.Received > 0 {
		p.FirstIn = began
	}
}

// Parts is how far each thread had come when Run returned: their sum is what it returned.
func (t *Threads) Parts() []Progress { return slices.Clone(t.summed) }

// Looked tells whether every thread that is still at work has looked for completions since this was last true. A thread
// that gets no CPU has seen nothing of what has arrived, however often it had looked before.
func (t *Threads) Looked() bool {
	starved := slices.ContainsFunc(t.parts, func(p *part) bool { return !p.over.Load() && p.worked.Load() == p.seen })
	for _, p := range t.parts {
		if !starved {
			p.seen = p.worked.Load()
		}
	}
	return !starved
}

// Received implements [Runner].
func (t *Threads) Received(lane int) uint64 {
	n := len(t.parts)
	p := t.parts[lane%n]
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.received[lane/n]
}

// Close ends the threads, and adds what they recorded.
func (t *Threads) Close() error {
	if t.closing.Swap(true) {
		return nil
	}
	t.begin()
	t.workers.Wait()
	var errs []error
	for i := range t.parts {
		p := t.parts[i]
		errs = append(errs, p.runner.Close())
		if t.whole.Record != nil {
			t.whole.Record.Merge(p.job.Record)
		}
	}
	return errors.Join(errs...)
}
