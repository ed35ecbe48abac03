package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/gobw/gobw/internal/control"
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
	// patience is the slice of an end that waits for the first message: it bounds the error of the first stamp.
	patience = 20 * time.Microsecond

	drainReliable   = 2 * time.Millisecond  // quiet time after which nothing more is coming, the peer being done
	drainUnreliable = 20 * time.Millisecond // datagrams may still lie in a socket
	steadyWindow    = 20 * time.Millisecond
	steadyShare     = 0.10
	steadyMost      = 500 * time.Millisecond
	progressEvery   = 100 * time.Millisecond
	reasonWait      = 200 * time.Millisecond // for what explains a failure
)

// driver drives one job in slices.
type driver struct {
	*run
	rd     plan.Round
	job    *job.Job
	runner job.Runner
	t      *trace
	limit  limits

	p        job.Progress
	begun    job.Ticks
	synced   chan error // the peer's Done; nil: not waiting yet
	peerDone bool
	stopping bool
	final    *job.Progress // this end's part was complete
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
		if d.job.Shape == job.Serve && servesItself(d.device) {
			return d.sleepUntilDone(watch)
		}
	}
	quietSince := job.Ticks(0)
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
		if quietSince == 0 || d.t.lastChange > quietSince {
			quietSince = now
		}
		complete := d.limit.expected > 0 && d.p.Received >= d.limit.expected && d.spec.Transport == verbs.RC
		if d.job.Shape == job.Serve || complete || now-quietSince > d.limit.quietAfterDone {
			d.finishStopped()
			break
		}
	}
	d.t.last = d.p
	if d.final != nil {
		d.t.last = *d.final
		d.t.last.Received, d.t.last.BytesIn = d.p.Received, d.p.BytesIn
	}
	if err := d.settle(); err != nil {
		return d.explain(ctx, watch, err)
	}
	if d.peerDone || d.endless() {
		return nil
	}
	return d.serveUntilDone(ctx, watch)
}

// servesItself tells whether the peer's requests are served while this process sleeps.
func servesItself(d verbs.Device) bool {
	_, ok := d.(verbs.SelfServing)
	return ok
}

// sleepUntilDone waits for the peer's Done without taking the processor from it, but looks around now and then.
func (d *driver) sleepUntilDone(watch context.Context) error {
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case err := <-d.synced:
			d.peerDone = true
			if err == nil {
				d.finishStopped()
			}
			d.t.last = d.p
			return err
		case <-watch.Done():
			return context.Cause(watch)
		case <-look.C:
			if err := d.lookAround(watch, job.Now()); err != nil {
				return err
			}
		}
	}
}

// settle takes what a stopped ping-pong left on its way: the completion of its last message, and at the end that moves
// first the answer to it. Else the next round would take them for its own.
func (d *driver) settle() error {
	if d.job.Shape != job.PingPong {
		return nil
	}
	p := &d.t.last
	lane := &d.job.Lanes[0]
	answer := d.ours && d.job.First && lane.Await != job.AwaitCompletion && d.stopping
	wait := 50 * time.Millisecond
	if d.spec.Transport == verbs.RC {
		wait = time.Second
	}
	found := make([]verbs.Completion, 16)
	for end := job.Now() + d.ticks(wait); job.Now() < end; {
		answered := !answer || lane.Await == job.AwaitReceive && p.Received >= p.Posted ||
			lane.Await == job.AwaitLastByte && *lane.FlagIn == byte(p.Posted)
		if answered && p.Completed >= p.Posted {
			return nil
		}
		for _, cq := range d.job.CQs {
			n, err := cq.Poll(found)
			if err != nil {
				return err
			}
			for i := range found[:n] {
				c := &found[i]
				switch {
				case c.Status != verbs.Success:
					return &verbs.CompletionError{Device: d.device.Info().Name, Completion: *c, Sent: p.Posted, Done: p.Completed}
				case c.Opcode.IsReceive():
					p.Received++
					d.p.Received++
					d.end.outstanding[0]-- // nobody reposts it now
					d.end.posted[0]--
				default:
					p.Completed++
				}
			}
		}
	}
	return nil
}

// sliceOf is how long a runner of this plan works at a time.
func sliceOf(p *plan.Settled, d verbs.Device) time.Duration {
	if p.Spec().Kind == plan.Latency && !p.Answers() && servesItself(d) {
		return undisturbed
	}
	return slice
}

// slice lets the runner work once.
func (d *driver) slice() (done bool, err error) {
	now := job.Now()
	length := d.ticks(sliceOf(d.plan, d.device))
	switch {
	case (d.limit.waitsForFirst || !d.ours && d.plan.Answers()) && d.p.Received == 0 && d.p.Posted <= 1 && now-d.begun < d.ticks(time.Second):
		length = d.ticks(patience)
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
	if start := d.start(); d.limit.margin > 0 && d.limit.duration > 0 && start > 0 {
		m := &mark{at: now, p: p}
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

// signs looks for signs of life of a test in which no message completes: a signaled window of large messages can take
// longer than the limit on a slow path, and then packets move.
type signs struct {
	last    job.Ticks // the last sign
	packets uint64    // counted halfway to the limit
	naks    uint64
	looked  bool
	borne   int // how often packets have been a sign
}

// mostBorne bounds how long packets alone are a sign of life: counters tell of other traffic of the device, too.
const mostBorne = 10

// alive tells whether a message or a packet has moved within the limit. Packets that only ask for what the peer has not
// (a receive) are none.
func (s *signs) alive(now, lastChange, limit job.Ticks, counters func() map[string]uint64) bool {
	if lastChange > s.last {
		*s = signs{last: lastChange}
	}
	silent := now - s.last
	if silent <= limit/2 || s.looked && silent <= limit {
		return true
	}
	c := counters() // names of the kernel's rxe and of roce; other devices are fast
	packets, naks := c["sent_pkts"]+c["rcvd_pkts"], c["rnr_nak_retry_err"]+c["rcvd_rnr_err"]
	if !s.looked { // a look that comes late, because this process had no CPU, judges nobody
		s.packets, s.naks, s.looked = packets, naks, true
		s.last = max(s.last, now-limit/2-1)
		return true
	}
	if packets == s.packets || naks != s.naks || s.borne == mostBorne {
		return false
	}
	*s = signs{last: now, borne: s.borne + 1}
	return true
}

// deviceFailure looks at the events of this end's device for one that no test survives.
func (d *driver) deviceFailure() error {
	for {
		select {
		case e, open := <-d.device.Events():
			if !open {
				return nil
			}
			if err := d.endedBy(e); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// endedBy is the error that an event makes of a test, or nil.
func (d *driver) endedBy(e verbs.AsyncEvent) error {
	if !e.Type.EndsTest() {
		return nil
	}
	return &verbs.Error{
		Verb: "measure", Device: d.device.Info().Name, Err: fmt.Errorf("the device reports %v: %s", e, e.Type.Meaning()), Fix: e.Type.Remedy(),
	}
}

// StallError is a test in which nothing moves although both ends live.
type StallError struct {
	For       time.Duration
	Transport verbs.Transport
	Progress  job.Progress
}

func (e *StallError) Error() string {
	return fmt.Sprintf("nothing moved for %v: %d messages posted, %d complete, %d received",
		e.For.Round(time.Second/10), e.Progress.Posted, e.Progress.Completed, e.Progress.Received)
}

// Remedy says what usually causes it.
func (e *StallError) Remedy() string {
	if e.Transport != verbs.RC {
		return "a lost datagram ends a ping-pong, and receivers that are too slow lose many: use -c RC, or more receives (-r)"
	}
	return "the two ends may run different tests (size, operation, iterations, who sends): give both the same flags; or UDP port 4791 is blocked: run 'gobw doctor HOST'"
}

func (d *driver) stalled(now job.Ticks) error {
	return &StallError{For: time.Duration(float64(now-d.t.lastChange) / d.perNs), Transport: d.spec.Transport, Progress: d.p}
}

// ownPartDone tells whether a job that goes on receiving has sent all of its own.
func (d *driver) ownPartDone() bool {
	return !d.limit.passive && d.limit.count > 0 && d.p.Completed >= d.limit.count && d.job.Shape == job.Stream
}

// meet tells the peer that this end is done and waits for the same, beside the measurement.
func (d *driver) meet(ctx context.Context) {
	d.synced = make(chan error, 1)
	go func() { d.synced <- d.session.Sync(ctx, control.PhaseDone, d.rd.Size, d.rd.Last) }()
}

func (d *driver) pollSync() error {
	if d.synced == nil || d.peerDone {
		return nil
	}
	select {
	case err := <-d.synced:
		d.peerDone = true
		return err
	default:
		return nil
	}
}

// awaitSync does not leave the goroutine of meet behind.
func (d *driver) awaitSync(cancel context.CancelFunc) {
	if d.synced != nil && !d.peerDone {
		cancel()
		<-d.synced //nolint:errcheck // the round has its error already
	}
}

// finishStopped ends a job that has no end of its own.
func (d *driver) finishStopped() {
	d.job.Stop.Store(1)
	if p, err := d.runner.Run(job.Now() + d.ticks(time.Millisecond)); err == nil {
		p.LastDone = d.p.LastDone
		d.p = p
	}
}

// serveUntilDone waits for the peer's Done after this end's job has ended, making progress for the peer on the way.
func (d *driver) serveUntilDone(ctx, watch context.Context) error {
	if d.synced == nil {
		d.meet(ctx)
	}
	after := d.end.serveJob(d.job, d.receivedPerQP())
	if after.Shape == job.Serve && (servesItself(d.device) || !d.spec.Bidirectional) {
		select {
		case err := <-d.synced:
			d.peerDone = true
			return err
		case <-watch.Done():
			return context.Cause(watch)
		}
	}
	stop := &atomic.Uint32{}
	after.Stop = stop
	runner, err := d.prepare(after)
	if err != nil {
		return err
	}
	defer func() { _ = runner.Close() }()
	already := d.p
	quietSince := job.Ticks(0)
	for {
		p, err := runner.Run(job.Now() + d.ticks(time.Millisecond))
		if err != nil {
			return d.explain(ctx, watch, err)
		}
		now := job.Now()
		if n := already.Received + p.Received; n > d.t.last.Received {
			d.t.last.Received, d.t.last.BytesIn = n, already.BytesIn+p.BytesIn
			d.p.Received = n
			quietSince = now
		}
		if watch.Err() != nil {
			return context.Cause(watch)
		}
		if err := d.pollSync(); err != nil {
			return err
		}
		if d.peerDone {
			if quietSince == 0 {
				quietSince = now
			}
			if after.Shape == job.Serve || now-quietSince > d.limit.quietAfterDone {
				stop.Store(1)
				_, err := runner.Run(job.Now() + d.ticks(time.Millisecond))
				return err
			}
		}
		runtime.Gosched()
	}
}

// explain prefers the reason why this end's device failed, or why the peer is gone, to the failed completion that follows
// from it.
func (d *driver) explain(ctx, watch context.Context, err error) error {
	d.t.last = d.p
	if _, is := errors.AsType[*verbs.CompletionError](err); !is {
		return err
	}
	if reason := d.awaitDeviceFailure(); reason != nil {
		return fmt.Errorf("%w (and then: %w)", reason, err)
	}
	if watch.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w (and then: %w)", context.Cause(watch), err)
	}
	return err
}

// rooted prefers the reason why this end's device failed to what the peer says: a port that both ends use fails at both.
func (d *driver) rooted(err error) error {
	if _, is := errors.AsType[*control.PeerError](err); is {
		if reason := d.awaitDeviceFailure(); reason != nil {
			return fmt.Errorf("%w (and the %s)", reason, err.Error())
		}
	}
	return err
}

// awaitDeviceFailure waits a moment for an event of this end's device that explains a failure: the event, the peer's
// words and the failed completion come by different ways. Events of a queue pair tell no more than its completions do.
func (d *driver) awaitDeviceFailure() error {
	limit := time.After(reasonWait)
	for events := d.device.Events(); ; {
		select {
		case e, open := <-events:
			if !open {
				events = nil
			} else if err := d.endedBy(e); err != nil && e.QPN == 0 {
				return err
			}
		case <-limit:
			return nil
		}
	}
}

// receivedPerQP is what each queue pair received. With several, only a counted reliable round says it exactly.
func (d *driver) receivedPerQP() []uint64 {
	n := make([]uint64, len(d.job.Lanes))
	for q := range n {
		n[q] = d.p.Received / uint64(len(n))
		if q < int(d.p.Received%uint64(len(n))) {
			n[q]++
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

func (d *driver) tell(now job.Ticks) {
	t := &d.told
	bytes, messages := float64(d.p.BytesOut-t.p.BytesOut), float64(d.p.Completed-t.p.Completed)
	if !d.plan.Sends() {
		bytes, messages = float64(d.p.BytesIn-t.p.BytesIn), float64(d.p.Received-t.p.Received)
	}
	t.at = now
	if messages > 0 {
		seconds := float64(now-t.moved) / d.perNs / 1e9
		t.bitsPerS, t.messagesPerS = bytes*8/seconds, messages/seconds
		t.moved, t.p = now, d.p
	}
	share := -1.0
	switch {
	case d.limit.count > 0:
		share = float64(max(d.p.Completed, d.p.Received)) / float64(d.limit.count)
	case d.limit.duration > 0:
		share = float64(now-d.begun) / float64(d.limit.duration)
	}
	d.o.Progress(Progress{
		Size: d.spec.Sizes[d.rd.Size], SizeIndex: d.rd.Size, Sizes: len(d.spec.Sizes), Run: d.rd.Run, Runs: d.spec.Runs,
		Warmup: d.rd.Kind != plan.Measured, Share: min(share, 1), BitsPerS: t.bitsPerS, MessagesPerS: t.messagesPerS,
		Messages: max(d.p.Completed, d.p.Received),
	})
}

// telling is what the last progress said. Completions may come less often than it is told: the rates are those up to the
// last that came.
type telling struct {
	at, moved              job.Ticks
	p                      job.Progress // at moved
	bitsPerS, messagesPerS float64
}

// steadiness tells when the rate of a warm-up has settled: three windows in a row within a tenth of each other.
type steadiness struct {
	window job.Ticks
	start  job.Ticks
	sum    float64
	rates  [3]float64
	n      int
}

func (s *steadiness) add(now job.Ticks, messages float64) {
	if s.start == 0 {
		s.start = now
		return
	}
	s.sum += messages
	if e := now - s.start; e >= s.window {
		s.rates[s.n%3] = s.sum / float64(e)
		s.n++
		s.start, s.sum = now, 0
	}
}

func (s *steadiness) steady() bool {
	if s.n < 3 {
		return false
	}
	low, high := min(s.rates[0], s.rates[1], s.rates[2]), max(s.rates[0], s.rates[1], s.rates[2])
	return low > 0 && high-low <= steadyShare*high
}
