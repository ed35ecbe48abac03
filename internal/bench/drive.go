package bench

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

const (
	// slice is how long a runner works before this end looks around: below the 10 ms after which Go's scheduler wants to
	// preempt a goroutine that has not yielded.
	slice = 5 * time.Millisecond
	// undisturbed is the slice of a READ or atomic latency test on a device that needs no Go: where kernel and ping-pong share
	// a CPU, each look around changes the rhythm of the messages after it.
	undisturbed = 25 * time.Millisecond
	// spanSlice is the slice of a point of the non-contiguous experiment: as long as the spans among which the best is sought
	// have to be, so that one fits into the time for which a busy machine lets both ends run.
	spanSlice = time.Millisecond / 2
	// firstSlice is the slice of an end that waits for the first message: it bounds the error of the first stamp.
	firstSlice = 20 * time.Microsecond
)

// driver drives one job in slices.
type driver struct {
	*run
	rd     plan.Round
	job    *job.Job
	runner job.Runner
	later  []uint64 // what each queue pair received after the job had ended; nil: nothing
	t      *trace
	limit  limits

	p        job.Progress
	begun    job.Ticks
	synced   chan error // the peer's Done; nil: not waiting yet
	peerDone bool
	stopping bool
	final    *job.Progress // this end's part was complete
	lull     lull          // since the peer is done
	told     telling
	gauge    steadiness
	signs    signs
}

// drive runs the job to its end and meets the peer at Done.
func (d *driver) drive(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			d.t.last = d.p // what was measured before
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch, unwatch := d.session.Watch(ctx)
	defer unwatch()
	defer d.awaitSync(cancel)
	d.begun = job.Now()
	d.t.lastChange = d.begun
	d.told = telling{at: d.begun, moved: d.begun}
	d.gauge = steadiness{window: d.ticks(steadyWindow)}
	if d.limit.passive {
		d.meet(ctx)
		if d.job.Shape == job.Serve && d.servesItself() {
			return d.sleepUntilDone(watch)
		}
	}
	for {
		done, err := d.slice()
		if err != nil {
			return d.explain(ctx, watch, err)
		}
		if done {
			break
		}
		now := job.Now()
		if err := d.lookAround(watch, now); err != nil {
			return err
		}
		if d.ownPartDone() && d.synced == nil && !d.rd.Alone {
			final := d.p
			d.final = &final
			d.meet(ctx)
		}
		if err := d.pollSync(); err != nil {
			return err
		}
		if !d.peerDone || (!d.limit.passive && d.final == nil) || d.owed() {
			continue
		}
		if d.allArrived(d.runner, d.job.Shape, now) {
			d.finishStopped()
			break
		}
	}
	d.t.last = d.p
	if d.final != nil {
		d.t.last = *d.final
		d.t.last.Received, d.t.last.BytesIn = d.p.Received, d.p.BytesIn
	}
	if err := d.takeLeftovers(); err != nil {
		return d.explain(ctx, watch, err)
	}
	if err := d.postOwed(); err != nil {
		return err
	}
	if d.peerDone || d.endless() {
		return nil
	}
	return d.serveUntilDone(ctx, watch)
}

// sliceLength is how long a runner works at a time.
func (r *run) sliceLength() time.Duration {
	if r.spec.Noncontig != nil {
		return spanSlice
	}
	if r.spec.Kind == plan.Latency && !r.plan.Answers() && r.servesItself() {
		return undisturbed
	}
	return slice
}

// slice lets the runner work once.
func (d *driver) slice() (done bool, err error) {
	now := job.Now()
	length := d.ticks(d.sliceLength())
	switch {
	case (d.limit.waitsForFirst || !d.ours && d.plan.Answers()) && d.p.Received == 0 && d.p.Posted <= 1 && now-d.begun < d.ticks(time.Second):
		length = d.ticks(firstSlice)
	case d.peerDone || d.limit.passive && d.synced != nil && d.job.Shape == job.Serve:
		length = d.ticks(time.Millisecond)
	case d.spec.Bidirectional && d.limit.count > 0 && d.nearEnd(now):
		length = d.ticks(time.Millisecond / 2)
	}
	until := now + length
	if end := d.deadline(); end > 0 && !d.stopping {
		until = min(until, max(end, now))
	}
	if start := d.sampleStart(); start > now && start < until {
		until = start
	}
	p, err := d.runner.Run(until)
	d.account(now, p)
	return p.Done, err
}

// nearEnd tells whether a counted job ends within a few slices at its present rate.
func (d *driver) nearEnd(now job.Ticks) bool {
	elapsed := now - d.begun
	return d.p.Completed > 0 && float64(d.limit.count-min(d.p.Completed, d.limit.count)) < 6*float64(d.p.Completed)*float64(d.ticks(slice))/float64(max(elapsed, 1))
}

// deadline is when posting ends; 0: by count.
func (d *driver) deadline() job.Ticks {
	if d.limit.duration == 0 || d.limit.passive {
		return 0
	}
	start := d.start()
	if start == 0 {
		return 0
	}
	return start + d.limit.duration
}

// start is when the clock of a test by duration starts: with the first message. A perftest end in whose test both ends
// move waits for the first exchange, because its peer may come late and tells nobody. A stream posts as soon as it runs,
// even where the processor was away for longer than the whole test. 0: not yet.
func (d *driver) start() job.Ticks {
	switch {
	case d.ours && d.p.FirstPost == 0 && d.job.Shape == job.Stream && d.plan.Sends():
		return 0
	case d.ours && d.p.FirstPost == 0:
		return d.begun
	case !d.ours && d.plan.Answers():
		return d.t.firstStep
	case d.p.FirstPost != 0:
		return d.p.FirstPost
	case d.limit.waitsForFirst:
		return d.t.firstIn
	}
	return d.begun
}

// sampleStart is when the sampling window of a test with margins opens; 0: there is none.
func (d *driver) sampleStart() job.Ticks {
	if d.limit.margin == 0 || d.t.from != nil {
		return 0
	}
	start := d.start()
	if start == 0 {
		return 0
	}
	return start + d.limit.margin
}

// account notes what a slice brought.
func (d *driver) account(began job.Ticks, p job.Progress) {
	now := job.Now()
	bytes := float64(p.BytesOut-d.p.BytesOut) + float64(p.BytesIn-d.p.BytesIn)
	messages := float64(p.Completed-d.p.Completed) + float64(p.Received-d.p.Received)
	if d.plan.Answers() {
		bytes, messages = float64(p.BytesOut-d.p.BytesOut), float64(p.Completed-d.p.Completed)
	}
	if messages > 0 || p.Posted != d.p.Posted {
		d.t.lastChange = now
		d.t.series.add(now, bytes, messages)
	}
	if d.p.Received == 0 && p.Received > 0 {
		d.t.firstIn = began
	}
	answered := p.Posted > 1 || !d.job.First && p.Posted > 0 // the peer has come
	if !d.ours && d.plan.Answers() && d.limit.duration > 0 && d.t.firstStep == 0 && answered {
		d.t.firstStep, d.t.skipped = now, p.Completed
	}
	d.p = p
	if !d.stopping {
		d.t.best.add(p)
	}
	if start := d.start(); d.limit.margin > 0 && d.limit.duration > 0 && start > 0 {
		m := &mark{at: now, p: p, threads: d.threads()}
		if d.t.from == nil && now >= start+d.limit.margin {
			d.t.from = m
		} else if d.t.to == nil && now >= start+d.limit.duration-d.limit.margin {
			d.t.to = m
		}
	}
	if d.limit.steady {
		d.gauge.add(now, messages)
	}
	if d.o.Progress != nil && now-d.told.at > d.ticks(progressEvery) {
		d.tell(now)
	}
}

// threads is how far each thread has come, nil where there is one.
func (d *driver) threads() []job.Progress {
	if t, several := d.runner.(*job.Threads); several {
		return t.Parts()
	}
	return nil
}

// lookAround checks everything that may end the job early.
func (d *driver) lookAround(watch context.Context, now job.Ticks) error {
	if err := d.deviceFailure(); err != nil {
		return err
	}
	if watch.Err() != nil {
		return context.Cause(watch)
	}
	if end := d.deadline(); !d.stopping && (end > 0 && now >= end || d.limit.steady && d.gauge.steady()) && !d.limit.passive {
		d.stopping = true
		d.job.Stop.Store(1)
	}
	limit := d.limit.stall
	if !d.ours && d.p.Posted+d.p.Received == 0 {
		limit *= 3 // a stock peer measures its CPU's frequency first, and tells nobody
	}
	if !d.limit.passive && (d.final == nil || d.owed()) && !d.signs.alive(now, d.t.lastChange, limit, d.deviceCounters) {
		return d.stalled(now)
	}
	return nil
}

// owed tells whether a stock peer has messages to send that will arrive: it says nothing when it is done, and would
// wait for ever for the receives of an end that leaves before.
func (d *driver) owed() bool {
	return !d.ours && d.spec.Transport == verbs.RC && d.job.Shape == job.Stream && d.limit.count > 0 &&
		d.plan.Receives() && d.p.Received < d.limit.expected
}

// ownPartDone tells whether a job that goes on receiving has sent all of its own.
func (d *driver) ownPartDone() bool {
	return !d.limit.passive && d.limit.count > 0 && d.p.Completed >= d.limit.count && d.job.Shape == job.Stream
}

// receivedPerQP is what each queue pair received. What a ping-pong left on its way counts for its one.
func (d *driver) receivedPerQP() []uint64 {
	if len(d.job.Lanes) == 1 {
		return []uint64{d.p.Received}
	}
	n := make([]uint64, len(d.job.Lanes))
	for q := range n {
		n[q] = d.runner.Received(q)
		if d.later != nil {
			n[q] += d.later[q]
		}
	}
	return n
}

// sentPerQP is what queue pair q of the sending end has sent; at the other end, what it must have sent.
func (d *driver) sentPerQP(q int) uint64 {
	n := d.limit.count
	if n == 0 {
		n = d.p.Completed
		if !d.plan.Sends() {
			n = math.MaxUint64 // a one-sided target does not know: every place
		}
	}
	qps := uint64(len(d.job.Lanes))
	if n == math.MaxUint64 {
		return n
	}
	if uint64(q) < n%qps {
		return n/qps + 1
	}
	return n / qps
}

// postOwed posts the receives that the job still owes; those of several threads have been posted by them.
func (d *driver) postOwed() error {
	if _, several := d.runner.(*job.Threads); several {
		return nil
	}
	for q, got := range d.receivedPerQP() {
		if err := d.job.Lanes[q].PostOwed(got); err != nil {
			return fmt.Errorf("post receives: %w", err)
		}
	}
	return nil
}
