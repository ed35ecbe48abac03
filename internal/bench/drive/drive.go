package drive

import (
	"context"
	"math"
	"runtime"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
	"github.com/gobw/gobw/verbs/tick"
)

const (
	// Slice is how long a runner works before this end looks around: below the 10 ms after which Go's scheduler wants to
	// preempt a goroutine that has not yielded.
	Slice = 5 * time.Millisecond
	// undisturbed is the slice of a READ or atomic latency test on a device that serves the peer by itself: where kernel
	// and ping-pong share a CPU, each look around changes the rhythm of the messages after it.
	undisturbed = 25 * time.Millisecond
	// FirstSlice is the slice of an end that waits for the first message: it bounds the error of the first stamp.
	FirstSlice = 20 * time.Microsecond
	// yieldSlice and yieldTime are how long an end that yields works, and leaves the processor to others.
	yieldSlice = 50 * time.Microsecond
	yieldTime  = 100 * time.Microsecond
)

// Task is one job of a test, and what driving it needs of the test and of this end.
type Task struct {
	Plan   *plan.Settled
	Round  plan.Round
	Job    *job.Job
	Runner job.Runner
	// Session is nil where somebody else ends the test at both ends. Then no Done is exchanged, and no device's events
	// are read: the error of a queue pair says why the job failed.
	Session  control.Session
	Devices  Devices
	Limits   Limits
	PerNs    tick.Rate
	Progress func(Progress) // told about ten times a second; nil: nobody wants to know
}

// Devices are those of this end.
type Devices interface {
	// Counters are those of all devices, added up.
	Counters() map[string]uint64
	// Failure is an error for each event that ends a test and that counts accepts. It does not wait for events.
	Failure(counts func(verbs.AsyncEvent) bool) error
	// ServeThemselves tells whether the devices serve the peer's requests while this process sleeps.
	ServeThemselves() bool
}

// Limits end a job.
type Limits struct {
	Count       uint64 // messages to send in all; 0: by time
	Duration    job.Ticks
	Lead, Tail  job.Ticks // unmeasured, at the two ends of Duration
	FirstWithin job.Ticks // how long after Duration each direction's first completion is waited for; 0: not at all
	Yields      bool      // while nothing moves, the processor is left to others: a software device needs it
	Passive     bool      // the job has no end of its own: the peer's Done ends it
	Stall       job.Ticks
}

// Driver drives one job in slices. It belongs to the goroutine that measures.
type Driver struct {
	Task
	Trace *Trace    // of what has been driven
	Spec  plan.Spec // of Plan
	Ours  bool      // the peer is one of ours

	PeerDone bool // the peer has said that it is done, or the round is local: nobody will say so

	slice    job.Ticks
	p        job.Progress
	begun    job.Ticks
	synced   chan error // the peer's Done; nil: not waiting yet
	stopping bool
	ended    bool      // this end's job has ended: the driver goes on for the peer
	lull     stillness // while this end waits for what a done peer has sent
	stall    stillness // while this end waits for the next message of the job
	told     job.Ticks // when progress was last told
	gauge    steadiness
}

// New makes the driver of a task.
func New(t Task) *Driver {
	d := &Driver{Task: t, Spec: t.Plan.Spec, Ours: t.Plan.Ours(), PeerDone: t.Round.Local}
	length := Slice
	switch {
	case t.Limits.Yields:
		length = yieldSlice
	case d.Spec.Kind == plan.Latency && !t.Plan.Answers() && t.Devices.ServeThemselves():
		length = undisturbed
	}
	d.slice = d.PerNs.Ticks(length)
	d.Trace = &Trace{Series: newSeries(2 * d.slice), Recorder: t.Job.Record}
	return d
}

// Run runs the job to its end and meets the peer at Done. An end that is done goes on for the peer, until the peer is
// done and all that the peer has sent has arrived.
func (d *Driver) Run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := ctx
	if d.Session != nil {
		var unwatch context.CancelFunc
		watch, unwatch = d.Session.Watch(ctx)
		defer unwatch()
	}
	defer d.awaitSync(cancel)
	defer func() {
		d.Trace.Threads = d.threads()
		if err != nil {
			d.Trace.Last = d.p // what was measured before
			err = d.explain(ctx, watch, err)
		}
	}()
	d.begun = job.Now()
	d.Trace.lastChange = d.begun
	d.told = d.begun
	d.gauge = steadiness{window: d.PerNs.Ticks(steadyWindow)}
	if d.Limits.Passive {
		d.meet(ctx)
	}
	for {
		done, err := d.work(watch)
		if done && !d.ended && err == nil {
			endless := d.Spec.Infinite && !d.Ours // the ends do not meet after the job
			if err = d.end(); err == nil && (d.PeerDone || endless) {
				return nil
			}
		}
		if err != nil {
			return err
		}
		now := job.Now()
		if err := d.lookAround(watch, now); err != nil {
			return err
		}
		if d.Limits.Yields && d.Trace.lastChange < now-d.slice {
			time.Sleep(yieldTime)
		}
		if d.synced == nil && !d.Round.Local && (d.ended || d.sentAll()) { // this end is done, and has not said so yet
			if !d.ended {
				d.Trace.Last = d.p // what it has sent; end adds what it still receives
			}
			d.meet(ctx)
		}
		if err := d.pollSync(); err != nil {
			return err
		}
		bothDone := d.PeerDone && d.toldDone()
		if bothDone && !d.owed() && d.allArrived(now) {
			if d.ended {
				return nil
			}
			d.finishStopped()
			return d.end()
		}
	}
}

// end notes what this end has done, and takes what a stopped ping-pong has left on its way.
func (d *Driver) end() error {
	d.ended = true
	if last := &d.Trace.Last; d.toldDone() && !d.Limits.Passive { // Run noted what it sent before it told the peer
		last.Received, last.BytesIn, last.FirstIn = d.p.Received, d.p.BytesIn, d.p.FirstIn
	} else {
		*last = d.p
	}
	if d.Session == nil { // nothing comes after this job
		return nil
	}
	return d.takeLeftovers()
}

// work lets the runner work once, or waits for the peer where this end has nothing to do.
func (d *Driver) work(watch context.Context) (done bool, err error) {
	if d.maySleep() {
		return false, d.sleep(watch)
	}
	now := job.Now()
	p, err := d.Runner.Run(d.until(now))
	if !d.ended {
		d.account(now, p)
		return p.Done, err
	}
	if p.Received > d.Trace.Last.Received {
		d.Trace.Last.Received, d.Trace.Last.BytesIn = p.Received, p.BytesIn
		d.p.Received, d.Trace.lastChange = p.Received, job.Now()
	}
	runtime.Gosched() //nolint:forbidigo // the measurement is over
	return true, err
}

// until is when the runner is to return.
func (d *Driver) until(now job.Ticks) job.Ticks {
	length := d.slice
	firstMissing := d.p.Received == 0 && d.p.Posted <= 1 && now-d.begun < d.PerNs.Ticks(time.Second)
	// peerDone: the peer said so. In a local round d.PeerDone is true, though nobody said it.
	peerDone, serves := d.PeerDone && !d.Round.Local, d.toldDone() && d.Limits.Passive && d.Job.Shape == job.Serve
	switch {
	case d.ended:
		return now + d.PerNs.Ticks(time.Millisecond)
	case firstMissing && (d.waitsForFirst() || d.alternatesWithStock()):
		length = d.PerNs.Ticks(FirstSlice)
	case peerDone || serves:
		length = d.PerNs.Ticks(time.Millisecond)
	case d.Spec.Bidirectional && d.Limits.Count > 0 && d.nearEnd(now): // the peer is to hear of the end at once
		length = d.PerNs.Ticks(time.Millisecond / 2)
	}
	until := now + length
	if end := d.deadline(); end > now && !d.stopping {
		until = min(until, end)
	}
	if start := d.sampleStart(); start > now && start < until {
		until = start
	}
	return until
}

// nearEnd tells whether a counted job ends within a few slices at its present rate.
func (d *Driver) nearEnd(now job.Ticks) bool {
	left, rate := d.Limits.Count-min(d.p.Completed, d.Limits.Count), float64(d.p.Completed)/float64(max(now-d.begun, 1))
	return float64(left) < rate*float64(d.PerNs.Ticks(6*Slice))
}

// deadline is when posting ends; 0: the clock has not started, or a count or the peer ends the job.
func (d *Driver) deadline() job.Ticks {
	if d.Limits.Duration == 0 || d.Limits.Passive {
		return 0
	}
	return d.sinceStart(d.Limits.Duration)
}

// sinceStart is the moment t after the start of a test by duration; 0: the test has not started yet.
func (d *Driver) sinceStart(t job.Ticks) job.Ticks {
	if start := d.start(); start > 0 {
		return start + t
	}
	return 0
}

// start is when the clock of a test by duration starts; 0: not yet.
func (d *Driver) start() job.Ticks {
	switch {
	case d.Ours && d.p.FirstPost == 0 && d.Job.Shape == job.Stream && d.Plan.Sends():
		return 0 // its first post starts the clock: this end may have no CPU for longer than the whole test
	case d.Ours && d.p.FirstPost == 0:
		return d.begun
	case d.alternatesWithStock(): // the peer may come late, and does not say when: the first exchange starts the clock
		return d.Trace.firstStep
	case d.p.FirstPost != 0:
		return d.p.FirstPost
	case d.waitsForFirst():
		return d.p.FirstIn
	}
	return d.begun
}

// sampleStart is when the sampling window of a test with margins opens; 0: there is none.
func (d *Driver) sampleStart() job.Ticks {
	if d.Limits.Lead == 0 || d.Trace.From != nil {
		return 0
	}
	return d.sinceStart(d.Limits.Lead)
}

// account notes what a slice brought.
func (d *Driver) account(began job.Ticks, p job.Progress) {
	now := job.Now()
	bytes := float64(p.BytesOut-d.p.BytesOut) + float64(p.BytesIn-d.p.BytesIn)
	messages := float64(p.Completed-d.p.Completed) + float64(p.Received-d.p.Received)
	moved := messages > 0 || p.Posted != d.p.Posted
	switch {
	case d.Plan.Answers():
		bytes, messages = float64(p.BytesOut-d.p.BytesOut), float64(p.Completed-d.p.Completed)
	case d.Ours && d.Spec.Bidirectional && d.Plan.Receives(): // what this end sends is in the series of the other end
		bytes, messages = float64(p.BytesIn-d.p.BytesIn), float64(p.Received-d.p.Received)
	}
	if moved {
		d.Trace.lastChange = now
		d.Trace.Series.add(now, bytes, messages)
	}
	p.Since(d.p, began)                                      // sets FirstIn
	answered := p.Posted > 1 || !d.Job.First && p.Posted > 0 // the first message of the peer is here
	if d.alternatesWithStock() && d.Limits.Duration > 0 && d.Trace.firstStep == 0 && answered {
		d.Trace.firstStep, d.Trace.skipped = now, p.Completed
	}
	d.p = p
	if start := d.start(); d.Limits.Lead > 0 && d.Limits.Duration > 0 && start > 0 {
		m := &mark{at: now, p: p, threads: d.threads()}
		opens, closes := start+d.Limits.Lead, start+d.Limits.Duration-d.Limits.Tail
		switch {
		// A window does not open after its middle: it would see little but one burst of completions. The whole run counts.
		case d.Trace.From == nil && now >= opens && now < (opens+closes)/2:
			d.Trace.From = m
			d.Trace.Recorder.Reset()
		case d.Trace.From != nil && d.Trace.To == nil && now >= closes:
			d.Trace.To = m
			d.Trace.Recorder = d.Trace.Recorder.Clone()
		}
	}
	if d.Round.Kind == plan.Steady {
		d.gauge.add(now, messages)
	}
	if d.Progress != nil && now-d.told > d.PerNs.Ticks(progressEvery) {
		d.tell(now)
	}
}

// threads is how far each thread has come, nil where there is one.
func (d *Driver) threads() []job.Progress {
	if t, several := d.Runner.(*job.Threads); several {
		return t.Parts()
	}
	return nil
}

// lookAround checks everything that may end the job early.
func (d *Driver) lookAround(watch context.Context, now job.Ticks) error {
	if d.Session != nil {
		if err := d.Devices.Failure(func(verbs.AsyncEvent) bool { return true }); err != nil {
			return err
		}
	}
	if watch.Err() != nil {
		return context.Cause(watch)
	}
	end := d.deadline()
	timeIsUp := end > 0 && now >= end && d.heard(now-end)
	warm := d.Round.Kind == plan.Steady && d.gauge.steady()
	if !d.stopping && !d.Limits.Passive && (timeIsUp || warm) {
		d.stopping = true
		d.Job.Stop.Store(1)
	}
	limit := d.Limits.Stall
	if !d.Ours && d.p.Posted+d.p.Received == 0 {
		limit *= 3 // a stock peer measures its CPU's frequency first, and tells nobody
	}
	// A passive end never stalls: the peer ends its job. An end that is done stalls only on what a stock peer owes.
	if !d.Limits.Passive && (!d.toldDone() || d.owed()) && d.stalled(now, limit) {
		return d.stalledSince(d.Trace.lastChange, now)
	}
	return nil
}

// waitsForFirst tells whether this end waits for the peer's first message.
func (d *Driver) waitsForFirst() bool {
	return d.Session != nil && d.Plan.Receives() && d.Plan.Role == plan.Target
}

// heard tells whether each direction of the job has had its first completion, or is so late after the deadline that
// this end waits no longer.
func (d *Driver) heard(late job.Ticks) bool {
	if late >= d.Limits.FirstWithin || d.Job.Shape == job.Serve {
		return true
	}
	if d.Job.Shape == job.PingPong {
		return d.Job.Record.N > 0
	}
	for i := range d.Job.Lanes {
		l := &d.Job.Lanes[i]
		if len(l.Ring) > 0 && d.p.Completed == 0 || len(l.Receives) > 0 && d.p.Received == 0 {
			return false
		}
	}
	return true
}

// owed tells whether a stock peer still has messages to send. A stock peer does not say when it is done, and waits for
// ever if this end leaves before all of them have arrived.
func (d *Driver) owed() bool {
	return !d.Ours && !d.ended && d.Spec.Transport == verbs.RC && d.Job.Shape == job.Stream && d.Limits.Count > 0 &&
		d.Plan.Receives() && d.p.Received < d.expected()
}

// toldDone tells whether this end has told the peer that it is done: a passive end does so when it begins.
func (d *Driver) toldDone() bool { return d.synced != nil }

// alternatesWithStock tells whether both ends send in turn, and the peer is a stock perftest.
func (d *Driver) alternatesWithStock() bool { return !d.Ours && d.Plan.Answers() }

// sentAll tells whether a job that goes on receiving has sent all of its own messages.
func (d *Driver) sentAll() bool {
	return !d.Limits.Passive && d.Limits.Count > 0 && d.p.Completed >= d.Limits.Count && d.Job.Shape == job.Stream
}

// Moved returns how many messages queue pair q sent and received. A ping-pong's message in flight counts as received.
// Where this end only receives, sent is how many the peer must have sent.
func (d *Driver) Moved(q int) (sent, received uint64) {
	qps := uint64(len(d.Job.Lanes))
	received = d.p.Received
	if qps > 1 {
		received = d.Runner.Received(q)
	}
	switch n := d.Limits.Count; {
	case n == 0 && !d.Plan.Sends(): // a target does not know how many came: each place may hold one
		sent = math.MaxUint64
	case n == 0:
		sent = (d.p.Completed + qps - 1 - uint64(q)) / qps
	default:
		sent = (n + qps - 1 - uint64(q)) / qps
	}
	return sent, received
}
