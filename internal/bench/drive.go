package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
)

const (
	// slice is how long a runner works before this end looks around: below the 10 ms after which Go's scheduler sends a
	// preemption signal to a goroutine that has not yielded.
	slice = 5 * time.Millisecond
	// patience is the slice of an end that waits for the first message: it bounds the error of the first stamp.
	patience = 20 * time.Microsecond

	drainReliable   = 2 * time.Millisecond  // quiet time after which nothing more is coming, the peer being done
	drainUnreliable = 20 * time.Millisecond // datagrams may still lie in a socket
	steadyWindow    = 20 * time.Millisecond
	steadyShare     = 0.10
	steadyMost      = 500 * time.Millisecond
	progressEvery   = 100 * time.Millisecond
)

// round prepares, runs and reports one round.
func (r *run) round(ctx context.Context, rd round) error {
	size := r.plan.Sizes[rd.size]
	verifying := r.plan.Verify != "" && (rd.kind == measured || rd.kind == proof)
	count := rd.count
	parts := []uint64{count}
	if all, ok := r.end.work.(interface{ verifyPlaces() int }); ok && rd.kind == measured && r.plan.Verify == "all" {
		parts = chunks(r.plan.Iterations, uint64(all.verifyPlaces()))
	}
	rec := r.recorder(rd)
	var total trace
	var hurt disturbance
	var received uint64
	var corrupt error
	for i, n := range parts {
		t, d, moved, err := r.part(ctx, rd, n, uint64(i), rec, verifying)
		total.join(t, i == 0)
		hurt = hurt.plus(d)
		received += t.last.Received
		if err != nil {
			r.notePartial(rd, &total, rec, hurt, err)
			return err
		}
		if verifying && corrupt == nil {
			corrupt = r.end.work.check(r.end, r.role, size, r.seed(rd, uint64(i)), moved)
		}
	}
	if rd.kind != measured {
		if corrupt != nil {
			return corrupt
		}
		return nil
	}
	r.perNs = r.clock.PerNanosecond()
	if first := (r.role == Initiator) != (r.plan.Operation == control.Write); !r.ours && answers(r.plan) && first {
		dropFirst(rec) // it holds the time until the peer was ready, which perftest does not tell
	}
	local := r.record(rd, &total, rec, hurt)
	var figures control.Figures
	var err error
	if !r.endless() {
		if figures, err = r.session.Report(ctx, r.figuresOf(local, received, corrupt)); err != nil {
			r.result.Records = append(r.result.Records, local)
			return errors.Join(corrupt, err)
		}
	}
	record := r.alone(local)
	if r.ours || figures.Iterations > 0 {
		remote, err := r.remoteReport(figures, local)
		if err != nil {
			return err
		}
		record = r.merge(local, remote.Record, received, remote.Received)
		if corrupt == nil && remote.Corrupt != "" {
			corrupt = &RemoteCorruptError{Message: remote.Corrupt}
		}
	}
	if corrupt != nil {
		record.Verified = ""
		record.Warnings = append(record.Warnings, corrupt.Error())
	}
	r.result.Records = append(r.result.Records, record)
	if r.o.Measured != nil {
		r.o.Measured(record, Samples(rec, r.perNs, HalfTrip(answers(r.plan))))
	}
	return corrupt
}

// endless tells a test of perftest's that runs until it is killed: its ends do not meet between rows.
func (r *run) endless() bool { return r.plan.Infinite && !r.ours }

// alone is this end's record where the peer tells no figures, as perftest mostly does not.
func (r *run) alone(local report.Record) report.Record {
	if sends(r.plan, r.role) && r.plan.Transport != verbs.RC && Opcode(r.plan).NeedsReceive() && r.plan.Kind == control.Bandwidth {
		local.Warnings = append(local.Warnings, "this is what left: perftest does not tell the sender what arrived")
	}
	return local
}

// ErrCorrupt matches every error that says that data did not arrive as it was sent.
var ErrCorrupt = errors.New("data corrupt")

// Is matches [ErrCorrupt].
func (*CorruptError) Is(target error) bool { return target == ErrCorrupt }

// Is matches [ErrCorrupt].
func (*LostUpdateError) Is(target error) bool { return target == ErrCorrupt }

// RemoteCorruptError is corrupt data that the peer found.
type RemoteCorruptError struct{ Message string }

func (e *RemoteCorruptError) Error() string { return "peer said: " + e.Message }

// Is matches [ErrCorrupt].
func (*RemoteCorruptError) Is(target error) bool { return target == ErrCorrupt }

// chunks splits n messages into parts of at most most.
func chunks(n, most uint64) []uint64 {
	var out []uint64
	for ; n > most; n -= most {
		out = append(out, most)
	}
	return append(out, n)
}

// seed is the same at both ends and differs from part to part.
func (r *run) seed(rd round, part uint64) uint64 {
	return uint64(rd.size)<<40 | uint64(rd.run)<<32 | uint64(rd.kind)<<28 | part&(1<<28-1)
}

func (r *run) recorder(rd round) *verbs.Recorder {
	raw := 0
	if rd.kind == measured {
		raw = verbs.RawSamples
		if n := r.plan.Iterations * uint64(r.plan.QPs); n > 0 && n < verbs.RawSamples {
			raw = int(n)
		}
	}
	// One recorder serves all rounds: its memory is touched once.
	rec := r.recorders[raw]
	if rec == nil {
		rec = verbs.NewRecorder(raw)
		r.recorders[raw] = rec
	}
	rec.Reset()
	// Without a peak (-N) a stream is not stamped at all: its loop then costs what posting and polling cost.
	rec.Samples = rd.kind == measured && (r.plan.Kind == control.Latency || !r.plan.NoPeak)
	rec.Peak = rd.kind == measured && !r.plan.NoPeak && r.plan.Kind == control.Bandwidth
	rec.CPU = r.plan.CPU
	return rec
}

// part runs one job of a round: compile, ready, run, done.
func (r *run) part(ctx context.Context, rd round, count, n uint64, rec *verbs.Recorder, verifying bool) (t *trace, d disturbance, moved []movement, err error) {
	size := r.plan.Sizes[rd.size]
	t = &trace{series: newSeries(r.ticks(10 * time.Millisecond))}
	job, err := compileRound(r.plan, r.role, size, count, r.end, r.peer)
	if err != nil {
		return t, d, nil, err
	}
	if rd.kind == steady {
		for i := range job.Lanes {
			job.Lanes[i].Count, job.Lanes[i].Expect = 0, 0
		}
	}
	// A perftest end has its own clock and leaves when that has run out: what is in flight then may never complete.
	job.AbandonAtDeadline = !r.ours && !r.plan.Infinite && r.plan.Duration > 0 && Opcode(r.plan).NeedsReceive() ||
		!r.ours && r.plan.Duration > 0 && answers(r.plan)
	job.Stop, job.Record, job.Pace = &atomic.Uint32{}, rec, r.pace(size)
	if verifying {
		if err := r.end.work.arm(r.end, r.role, size, r.seed(rd, n)); err != nil {
			return t, d, nil, err
		}
	}
	r.clearFlags(job)
	moved = make([]movement, len(r.end.qps))
	for q := range moved {
		moved[q].first = r.end.ringStart(q)
	}
	if err := r.end.postReceives(job); err != nil {
		return t, d, nil, err
	}
	runner, err := r.prepare(job)
	if err != nil {
		return t, d, nil, err
	}
	defer func() { err = errors.Join(err, runner.Close()) }()
	if !r.endless() || rd.run == 1 {
		if err := r.session.Sync(ctx, control.PhaseReady, rd.size, rd.last); err != nil {
			return t, d, nil, err
		}
	}
	before := r.counters()
	r.quiet.watchSignals()
	dr := &driver{run: r, rd: rd, job: job, runner: runner, t: t, limit: r.limit(rd, count)}
	err = dr.drive(ctx)
	d = r.quiet.counted()
	r.preempted = r.preempted || d.Preemptions > 0
	t.counters = difference(before, r.counters())
	if err != nil {
		return t, d, nil, err
	}
	perQP := dr.receivedPerQP()
	r.end.settleReceives(job, perQP)
	for q := range moved {
		moved[q].received = perQP[q]
		moved[q].sent = dr.sentPerQP(q)
	}
	return t, d, moved, nil
}

// prepare makes the job's runner: the device's own, or where it refuses the job as unsupported, the reference, which the
// result then says.
func (r *run) prepare(job *verbs.Job) (verbs.Runner, error) {
	runner, err := r.device.Prepare(job)
	if !errors.Is(err, verbs.ErrUnsupported) {
		return runner, err
	}
	note := fmt.Sprintf("%s runs this test by the slow reference runner: %v", r.device.Info().Name, err)
	if !slices.Contains(r.result.Warnings, note) {
		r.result.Warnings = append(r.result.Warnings, note)
	}
	return verbs.NewReferenceRunner(job)
}

// clearFlags zeroes the byte that a write latency test spins on: one of an earlier round must not count. In perftest's
// dialect there is no barrier between sizes, and the byte is still zero from the start.
func (r *run) clearFlags(job *verbs.Job) {
	if !r.ours {
		return
	}
	for i := range job.Lanes {
		if f := job.Lanes[i].FlagIn; f != nil {
			*f = 0
		}
	}
}

func (r *run) ticks(d time.Duration) verbs.Ticks { return verbs.Ticks(float64(d) * r.perNs) }

// pace is the least time between two messages of a lane.
func (r *run) pace(size int) verbs.Ticks {
	if r.plan.RateBits > 0 {
		perMessage := float64(size) * 8 * float64(r.plan.QPs) / r.plan.RateBits
		return verbs.Ticks(perMessage * 1e9 * r.perNs)
	}
	return r.ticks(r.plan.Gap)
}

// limits of a round's driving.
type limits struct {
	count          uint64 // messages to send in all; 0: by time
	duration       verbs.Ticks
	margin         verbs.Ticks
	steady         bool
	expected       uint64 // messages that will arrive in all, 0: unknown
	passive        bool   // the job has no end of its own: the peer's Done ends it
	waitsForFirst  bool
	quietAfterDone verbs.Ticks
	stall          verbs.Ticks
}

func (r *run) limit(rd round, count uint64) limits {
	s := settingsFor(r.plan, r.plan.Sizes[rd.size], count)
	qps := uint64(r.plan.QPs)
	active := sends(r.plan, r.role)
	l := limits{waitsForFirst: receives(r.plan, r.role) && r.role == Target}
	if rd.kind == steady {
		l.steady, l.duration = true, r.ticks(steadyMost)
	} else {
		l.count, l.duration, l.margin = s.count*qps, r.ticks(s.duration), r.ticks(r.plan.Margin)
		l.expected = l.count * receivesPerMessage(r.end.work)
	}
	byTime := l.count == 0
	l.passive = !active || (answers(r.plan) && r.role == Target && byTime)
	if !active && receives(r.plan, r.role) && !r.end.openEnded && !byTime {
		l.passive = false // exact: the receiver counts
	}
	if !r.ours { // nothing tells a perftest end that its peer is done: it counts, or has a clock of its own
		l.passive = !active && !receives(r.plan, r.role)
	}
	l.quietAfterDone = r.ticks(drainReliable)
	if r.plan.Transport != verbs.RC {
		l.quietAfterDone = r.ticks(drainUnreliable)
	}
	stall := r.o.Stall
	if stall <= 0 {
		stall = defaultStall
	}
	// A slow path may need long for one message: allow 20 MB/s for a window of each lane.
	window := time.Duration(float64(r.plan.LargestSize()) * float64(s.signal) * float64(qps) / 20e6 * 1e9)
	l.stall = r.ticks(stall + window)
	return l
}

// driver drives one job in slices.
type driver struct {
	*run
	rd     round
	job    *verbs.Job
	runner verbs.Runner
	t      *trace
	limit  limits

	p        verbs.Progress
	begun    verbs.Ticks
	synced   chan error // the peer's Done; nil: not waiting yet
	peerDone bool
	stopping bool
	final    *verbs.Progress // this end's part was complete
	told     verbs.Ticks
	toldP    verbs.Progress
	gauge    steadiness
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
	d.begun = verbs.Now()
	d.t.lastChange = d.begun
	d.told = d.begun
	d.gauge = steadiness{window: d.ticks(steadyWindow)}
	if d.limit.passive {
		d.meet(ctx)
		if d.job.Shape == verbs.Serve && servesItself(d.device) {
			return d.sleepUntilDone(watch)
		}
	}
	quietSince := verbs.Ticks(0)
	for {
		done, err := d.slice()
		if err != nil {
			return d.explain(ctx, watch, err)
		}
		if done {
			break
		}
		now := verbs.Now()
		if err := d.lookAround(watch, now); err != nil {
			return err
		}
		if d.ownPartDone() && d.synced == nil {
			final := d.p
			d.final = &final
			d.meet(ctx)
		}
		if err := d.pollSync(); err != nil {
			return err
		}
		if !d.peerDone || (!d.limit.passive && d.final == nil) {
			continue
		}
		if quietSince == 0 || d.t.lastChange > quietSince {
			quietSince = now
		}
		complete := d.limit.expected > 0 && d.p.Received >= d.limit.expected && d.plan.Transport == verbs.RC
		if d.job.Shape == verbs.Serve || complete || now-quietSince > d.limit.quietAfterDone {
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
			if err := d.lookAround(watch, verbs.Now()); err != nil {
				return err
			}
		}
	}
}

// settle takes what a stopped ping-pong left on its way: the completion of its last message, and at the end that moves
// first the answer to it. Else the next round would take them for its own.
func (d *driver) settle() error {
	if d.job.Shape != verbs.PingPong {
		return nil
	}
	p := &d.t.last
	lane := &d.job.Lanes[0]
	answer := d.ours && d.job.First && lane.Await != verbs.AwaitCompletion && d.stopping
	wait := 50 * time.Millisecond
	if d.plan.Transport == verbs.RC {
		wait = time.Second
	}
	found := make([]verbs.Completion, 16)
	for end := verbs.Now() + d.ticks(wait); verbs.Now() < end; {
		answered := !answer || lane.Await == verbs.AwaitReceive && p.Received >= p.Posted ||
			lane.Await == verbs.AwaitLastByte && *lane.FlagIn == byte(p.Posted)
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

// slice lets the runner work once.
func (d *driver) slice() (done bool, err error) {
	now := verbs.Now()
	length := d.ticks(slice)
	switch {
	case (d.limit.waitsForFirst || !d.ours && answers(d.plan)) && d.p.Received == 0 && d.p.Posted <= 1 && now-d.begun < d.ticks(time.Second):
		length = d.ticks(patience)
	case d.peerDone || d.limit.passive && d.synced != nil && d.job.Shape == verbs.Serve:
		length = d.ticks(time.Millisecond)
	case d.plan.Bidirectional && d.limit.count > 0 && d.nearEnd(now):
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
func (d *driver) nearEnd(now verbs.Ticks) bool {
	elapsed := now - d.begun
	return d.p.Completed > 0 && float64(d.limit.count-min(d.p.Completed, d.limit.count)) < 6*float64(d.p.Completed)*float64(d.ticks(slice))/float64(max(elapsed, 1))
}

// deadline is when posting ends; 0: by count.
func (d *driver) deadline() verbs.Ticks {
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
// move waits for the first exchange, because its peer may come late and tells nobody. 0: not yet.
func (d *driver) start() verbs.Ticks {
	switch {
	case d.ours && d.p.FirstPost == 0:
		return d.begun
	case !d.ours && answers(d.plan):
		return d.t.firstStep
	case d.p.FirstPost != 0:
		return d.p.FirstPost
	case d.limit.waitsForFirst:
		return d.t.firstIn
	}
	return d.begun
}

// sampleStart is when the sampling window of a test with margins opens; 0: there is none.
func (d *driver) sampleStart() verbs.Ticks {
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
func (d *driver) account(began verbs.Ticks, p verbs.Progress) {
	now := verbs.Now()
	bytes := float64(p.BytesOut-d.p.BytesOut) + float64(p.BytesIn-d.p.BytesIn)
	messages := float64(p.Completed-d.p.Completed) + float64(p.Received-d.p.Received)
	if answers(d.plan) {
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
	if !d.ours && answers(d.plan) && d.limit.duration > 0 && d.t.firstStep == 0 && answered {
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
	if d.o.Progress != nil && now-d.told > d.ticks(progressEvery) {
		d.tell(now)
	}
}

// lookAround checks everything that may end the job early.
func (d *driver) lookAround(watch context.Context, now verbs.Ticks) error {
	if watch.Err() != nil {
		return context.Cause(watch)
	}
	select {
	case e, open := <-d.device.Events():
		if open && e.Type.EndsTest() {
			return &verbs.Error{Verb: "measure", Device: d.device.Info().Name, Err: fmt.Errorf("the device reports %v", e)}
		}
	default:
	}
	if end := d.deadline(); !d.stopping && (end > 0 && now >= end || d.limit.steady && d.gauge.steady()) && !d.limit.passive {
		d.stopping = true
		d.job.Stop.Store(1)
	}
	limit := d.limit.stall
	if !d.ours && d.p.Posted+d.p.Received == 0 {
		limit *= 3 // a stock peer measures its CPU's frequency first, and tells nobody
	}
	if !d.limit.passive && d.final == nil && now-d.t.lastChange > limit {
		return d.stalled(now)
	}
	return nil
}

// StallError is a test in which nothing moves although both ends live.
type StallError struct {
	For       time.Duration
	Transport verbs.Transport
	Progress  verbs.Progress
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

func (d *driver) stalled(now verbs.Ticks) error {
	return &StallError{For: time.Duration(float64(now-d.t.lastChange) / d.perNs), Transport: d.plan.Transport, Progress: d.p}
}

// ownPartDone tells whether a job that goes on receiving has sent all of its own.
func (d *driver) ownPartDone() bool {
	return !d.limit.passive && d.limit.count > 0 && d.p.Completed >= d.limit.count && d.job.Shape == verbs.Stream
}

// meet tells the peer that this end is done and waits for the same, beside the measurement.
func (d *driver) meet(ctx context.Context) {
	d.synced = make(chan error, 1)
	go func() { d.synced <- d.session.Sync(ctx, control.PhaseDone, d.rd.size, d.rd.last) }()
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
	if p, err := d.runner.Run(verbs.Now() + d.ticks(time.Millisecond)); err == nil {
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
	if after.Shape == verbs.Serve && (servesItself(d.device) || !d.plan.Bidirectional) {
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
	quietSince := verbs.Ticks(0)
	for {
		p, err := runner.Run(verbs.Now() + d.ticks(time.Millisecond))
		if err != nil {
			return d.explain(ctx, watch, err)
		}
		now := verbs.Now()
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
			if after.Shape == verbs.Serve || now-quietSince > d.limit.quietAfterDone {
				stop.Store(1)
				_, err := runner.Run(verbs.Now() + d.ticks(time.Millisecond))
				return err
			}
		}
		runtime.Gosched()
	}
}

// explain prefers the reason why a peer is gone to the failed completion that follows from it: it waits a moment for
// the session to hear of it.
func (d *driver) explain(ctx, watch context.Context, err error) error {
	d.t.last = d.p
	if _, is := errors.AsType[*verbs.CompletionError](err); !is {
		return err
	}
	select {
	case <-watch.Done():
		if ctx.Err() == nil {
			return fmt.Errorf("%w (and then: %w)", context.Cause(watch), err)
		}
	case <-time.After(200 * time.Millisecond):
	}
	return err
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
		if !sends(d.plan, d.role) {
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

func (d *driver) tell(now verbs.Ticks) {
	seconds := float64(now-d.told) / d.perNs / 1e9
	bytes := float64(d.p.BytesOut - d.toldP.BytesOut)
	messages := float64(d.p.Completed - d.toldP.Completed)
	if !sends(d.plan, d.role) {
		bytes, messages = float64(d.p.BytesIn-d.toldP.BytesIn), float64(d.p.Received-d.toldP.Received)
	}
	share := -1.0
	switch {
	case d.limit.count > 0:
		share = float64(max(d.p.Completed, d.p.Received)) / float64(d.limit.count)
	case d.limit.duration > 0:
		share = float64(now-d.begun) / float64(d.limit.duration)
	}
	d.o.Progress(Progress{
		Size: d.plan.Sizes[d.rd.size], SizeIndex: d.rd.size, Sizes: len(d.plan.Sizes), Run: d.rd.run, Runs: d.plan.Runs,
		Warmup: d.rd.kind != measured, Share: min(share, 1), BitsPerS: bytes * 8 / seconds, MessagesPerS: messages / seconds,
		Messages: max(d.p.Completed, d.p.Received),
	})
	d.told, d.toldP = now, d.p
}

// steadiness tells when the rate of a warm-up has settled: three windows in a row within a tenth of each other.
type steadiness struct {
	window verbs.Ticks
	start  verbs.Ticks
	sum    float64
	rates  [3]float64
	n      int
}

func (s *steadiness) add(now verbs.Ticks, messages float64) {
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

// notePartial keeps what an interrupted round had measured.
func (r *run) notePartial(rd round, t *trace, rec *verbs.Recorder, d disturbance, why error) {
	if rd.kind != measured || t.last.Completed+t.last.Received == 0 {
		return
	}
	r.perNs = r.clock.PerNanosecond()
	record := r.record(rd, t, rec, d)
	record.Verified = ""
	record.Warnings = append(record.Warnings, "incomplete: "+why.Error())
	r.result.Records = append(r.result.Records, record)
	if r.o.Measured != nil {
		r.o.Measured(record, report.Samples{})
	}
}

// counters reads the device's counters, nil where it has none.
func (r *run) counters() map[string]uint64 {
	c, has := r.device.(verbs.Counters)
	if !has {
		return nil
	}
	m, err := c.Counters(r.port.Number)
	if err != nil {
		return nil
	}
	return m
}

func difference(before, after map[string]uint64) map[string]int64 {
	if len(after) == 0 {
		return nil
	}
	out := map[string]int64{}
	for name, v := range after {
		if d := int64(v - before[name]); d != 0 {
			out[name] = d
		}
	}
	return out
}

// join adds the trace of a part to that of a round.
func (t *trace) join(p *trace, first bool) {
	if first {
		*t = *p
		return
	}
	// Parts follow each other with unmeasured work between: add the times, not the stamps.
	span := p.last.LastDone - p.last.FirstPost
	if p.last.FirstPost == 0 {
		span = p.last.LastDone - p.firstIn
	}
	t.last.LastDone += span
	t.last.Posted += p.last.Posted
	t.last.Completed += p.last.Completed
	t.last.Received += p.last.Received
	t.last.BytesOut += p.last.BytesOut
	t.last.BytesIn += p.last.BytesIn
	for name, v := range p.counters {
		if t.counters == nil {
			t.counters = map[string]int64{}
		}
		t.counters[name] += v
	}
}

func (d disturbance) plus(e disturbance) disturbance {
	return disturbance{
		Preemptions: d.Preemptions + e.Preemptions, Switches: d.Switches + e.Switches, ProcessCPU: d.ProcessCPU + e.ProcessCPU,
		Wall: d.Wall + e.Wall,
	}
}

func numCPU() int { return runtime.NumCPU() }
