package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gobw/gobw/internal/bench/payload"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// outcome is what the parts of a round brought together.
type outcome struct {
	trace    trace
	hurt     disturbance
	received uint64
	whole    uint64 // messages compared and found whole
	corrupt  error
}

func (x *outcome) arrival() arrival { return arrival{x.received, x.whole} }

// round prepares, runs and reports one round.
func (r *run) round(ctx context.Context, rd plan.Round) error {
	rec := r.recorder(rd)
	x, err := r.parts(ctx, rd, rec)
	if err != nil {
		r.notePartial(rd, &x.trace, rec, x.hurt, err)
		return err
	}
	if rd.Kind != plan.Measured {
		return x.corrupt
	}
	r.perNs = r.clock.PerNanosecond()
	if r.plan.Answers() && r.plan.MovesFirst() && rec.Clock.IsZero() {
		dropFirst(rec) // it holds the time until the peer was ready; the end that moves second has no sample of it
	}
	clock, err := deviceClock(rec, r.perNs)
	if err != nil {
		return err
	}
	local := r.record(rd, &x.trace, rec, clock, x.hurt)
	var figures control.Figures
	if !r.endless() {
		if figures, err = r.session.Report(ctx, r.figuresOf(local, x)); err != nil {
			r.keep(local)
			return errors.Join(x.corrupt, err)
		}
	}
	record := r.alone(local)
	corrupt := x.corrupt
	if r.ours || figures.Iterations > 0 {
		remote, err := r.remoteReport(figures, local)
		if err != nil {
			return err
		}
		record = r.merge(local, remote.Record, x.arrival(), remote.arrival())
		switch {
		case corrupt == nil && remote.Corrupt != "":
			corrupt = &payload.RemoteCorruptError{Message: control.Quoted(remote.Corrupt)}
		case corrupt == nil && r.spec.Verify != plan.VerifyNothing && x.whole+remote.Whole == 0:
			corrupt = &payload.NothingError{Sent: max(local.Iterations, remote.Record.Iterations)}
		}
	}
	if corrupt != nil {
		record.Verified = ""
		record.Warnings = append(record.Warnings, corrupt.Error())
	}
	r.keep(record)
	if r.o.Measured != nil {
		r.o.Measured(record, r.samples(rec, clock))
	}
	if r.o.Kept != nil && corrupt == nil {
		r.o.Kept(r.result)
	}
	return corrupt
}

// parts runs the parts of a round, and compares the data of each where that is asked for.
func (r *run) parts(ctx context.Context, rd plan.Round, rec *job.Recorder) (*outcome, error) {
	verifying := r.spec.Verify != plan.VerifyNothing && (rd.Kind == plan.Measured || rd.Kind == plan.Proof)
	size, x := r.spec.Sizes[rd.Size], &outcome{}
	for i, n := range r.plan.Parts(rd) {
		t, d, moved, err := r.part(ctx, rd, n, i, rec, verifying)
		x.trace.join(t, i == 0)
		x.hurt = x.hurt.plus(d)
		x.received += t.last.Received
		if err != nil {
			return x, err
		}
		if verifying && x.corrupt == nil {
			whole, err := r.end.work.check(r.end, size, r.seed(rd, i), moved)
			x.whole, x.corrupt = x.whole+whole, err
		}
		r.quiet.collect()
	}
	return x, nil
}

// keep notes a record in the result; an endless test keeps the last alone.
func (r *run) keep(record report.Record) {
	if r.spec.Infinite {
		r.result.Records = r.result.Records[:0]
	}
	r.result.Records = append(r.result.Records, record)
}

// endless tells a test of perftest's that runs until it is killed: its ends do not meet between rows.
func (r *run) endless() bool { return r.spec.Infinite && !r.ours }

// alone is this end's record where the peer tells no figures, as perftest mostly does not.
func (r *run) alone(local report.Record) report.Record {
	if r.plan.Sends() && r.spec.Transport != verbs.RC && r.plan.Row().NeedsReceive() && r.spec.Kind == plan.Bandwidth {
		local.Warnings = append(local.Warnings, "this is what left: perftest does not tell the sender what arrived")
	}
	return local
}

// seed is the same at both ends and differs from part to part.
func (r *run) seed(rd plan.Round, part uint64) uint64 {
	return uint64(rd.Size)<<40 | uint64(rd.Run)<<32 | uint64(rd.Kind)<<28 | part&(1<<28-1)
}

func (r *run) recorder(rd plan.Round) *job.Recorder {
	raw := 0
	if rd.Kind == plan.Measured && r.spec.Noncontig == nil { // a grid keeps figures alone: its many short runs need not touch 8 MiB each
		raw = job.RawSamples
		if n := max(r.spec.Iterations, r.plan.Counted()) * uint64(r.spec.QPs); n > 0 && n < job.RawSamples {
			raw = int(n)
		}
	}
	// One recorder serves all rounds: its memory is touched once.
	rec := r.recorders[raw]
	if rec == nil {
		rec = job.NewRecorder(raw)
		r.recorders[raw] = rec
	}
	rec.Reset()
	// Without a peak (-N) a stream is not stamped at all: its loop then costs what posting and polling cost.
	rec.Samples = rd.Kind == plan.Measured && (r.spec.Kind == plan.Latency || !r.spec.NoPeak)
	rec.Peak = rd.Kind == plan.Measured && !r.spec.NoPeak && r.spec.Kind == plan.Bandwidth
	rec.CPU, rec.Clock = r.spec.CPU, verbs.CompletionClock{}
	if rec.Samples && r.plan.StampedByDevice() {
		rec.Clock = r.rails[0].device.Info().Clock
	}
	return rec
}

// leastSpan is how many messages the best span of a point has at least: so many that what the window and the receives of the
// peer let through at once, before it has unpacked, is a small part. 0: a completion does not say that the data is in place.
func (r *run) leastSpan() uint64 {
	if p := r.plan.Point(); p != nil && r.spec.Transport == verbs.RC {
		return uint64(4 * max(p.SendSlots, p.RecvSlots))
	}
	return 0
}

// part runs one job of a round: compile, ready, run, done.
func (r *run) part(ctx context.Context, rd plan.Round, count, n uint64, rec *job.Recorder, verifying bool) (t *trace, d disturbance, moved []movement, err error) {
	size := r.spec.Sizes[rd.Size]
	t = &trace{series: newSeries(r.ticks(2 * max(r.sliceLength(), slice))), best: bestSpan{least: r.leastSpan()}}
	j, err := r.end.compile(size, count, r.peer)
	if err != nil {
		return t, d, nil, err
	}
	if rd.Kind == plan.Steady {
		for i := range j.Lanes {
			j.Lanes[i].Count, j.Lanes[i].Expect = 0, 0
			if c := j.Lanes[i].Credit; c != nil {
				c.Total = 0
			}
		}
	}
	// A perftest end has its own clock and leaves when that has run out: what is in flight then may never complete.
	j.AbandonAtDeadline = !r.ours && !r.spec.Infinite && r.spec.Duration > 0 && r.plan.Row().NeedsReceive() ||
		!r.ours && r.spec.Duration > 0 && r.plan.Answers()
	j.Stop, j.Record, j.Pace, j.Burst = &atomic.Uint32{}, rec, r.pace(size), r.spec.Burst
	if verifying {
		if err := r.end.work.arm(r.end, size, r.seed(rd, n)); err != nil {
			return t, d, nil, err
		}
	}
	r.clearFlags(j)
	moved = make([]movement, len(r.end.qps))
	for q := range moved {
		moved[q].first = r.end.ringStart(q)
	}
	if err := r.end.postReceives(j); err != nil {
		return t, d, nil, err
	}
	runner, err := r.prepareThreads(j)
	if err != nil {
		return t, d, nil, err
	}
	defer func() { err = errors.Join(err, runner.Close()) }()
	before := r.counters(rd)
	r.quiet.prepareWatch()
	if err := r.quiet.raisePriority(); err != nil { // of threads that are new
		return t, d, nil, err
	}
	if !rd.Alone && (!r.endless() || rd.Run == 1) {
		if err := r.session.Sync(ctx, control.PhaseReady, rd.Size, rd.Last); err != nil {
			return t, d, nil, err
		}
	}
	r.quiet.watch()
	dr := &driver{run: r, rd: rd, job: j, runner: runner, t: t, limit: r.limit(rd, count), peerDone: rd.Alone}
	err = dr.rooted(dr.drive(ctx))
	d = r.quiet.counted()
	t.threads = dr.threads()
	t.counters = difference(before, r.counters(rd))
	if err != nil {
		return t, d, nil, err
	}
	perQP := dr.receivedPerQP()
	r.end.settleReceives(j, perQP)
	for q := range moved {
		moved[q].received = perQP[q]
		moved[q].sent = dr.sentPerQP(q)
	}
	return t, d, moved, nil
}

// prepare makes the runner of the job of one thread: its device's own, or where that refuses the job as unsupported, the
// reference, which the result then says.
func (r *run) prepare(thread int, j *job.Job) (job.Runner, error) {
	dev := r.rails[thread%len(r.rails)].device
	runner, err := job.Prepare(dev, j)
	if !errors.Is(err, verbs.ErrUnsupported) {
		return runner, err
	}
	note := fmt.Sprintf("%s runs this test by the slow loop over verbs: %v", dev.Info().Name, err)
	if !slices.Contains(r.result.Warnings, note) {
		r.result.Warnings = append(r.result.Warnings, note)
	}
	return job.NewVerbsRunner(j)
}

// prepareThreads makes the runner of a round: one for each thread where there are several. What only serves needs one for
// each rail.
func (r *run) prepareThreads(j *job.Job) (job.Runner, error) {
	if r.spec.Threads == 1 || j.Shape != job.Stream && len(r.rails) == 1 {
		return r.prepare(0, j)
	}
	return job.PrepareThreads(j, r.end.split(j), job.ThreadOptions{
		Slice: r.ticks(r.sliceLength()), First: r.ticks(firstSlice), Pin: r.quiet.pin,
	}, r.prepare)
}

// prepareServing makes the runner of a job that only keeps the peer going.
func (r *run) prepareServing(j *job.Job) (job.Runner, error) {
	if len(r.rails) == 1 {
		return r.prepare(0, j)
	}
	return r.prepareThreads(j)
}

// clearFlags zeroes the byte that a write latency test spins on: one of an earlier round must not count. In perftest's
// dialect there is no barrier between sizes, and the byte is still zero from the start.
func (r *run) clearFlags(j *job.Job) {
	if !r.ours {
		return
	}
	for i := range j.Lanes {
		if f := j.Lanes[i].FlagIn; f != nil {
			*f = 0
		}
	}
}

func (r *run) ticks(d time.Duration) job.Ticks { return job.Ticks(float64(d) * r.perNs) }

// pace is the least time between two messages of a lane.
func (r *run) pace(size int) job.Ticks {
	if r.spec.RateBits > 0 {
		perMessage := float64(size) * 8 * float64(r.spec.QPs) / r.spec.RateBits
		return job.Ticks(perMessage * 1e9 * r.perNs)
	}
	return r.ticks(r.spec.Gap)
}

// limits of a round's driving.
type limits struct {
	count          uint64 // messages to send in all; 0: by time
	duration       job.Ticks
	margin         job.Ticks
	steady         bool
	expected       uint64 // messages that will arrive in all, 0: unknown
	passive        bool   // the job has no end of its own: the peer's Done ends it
	waitsForFirst  bool
	quietAfterDone job.Ticks
	stall          job.Ticks
}

func (r *run) limit(rd plan.Round, count uint64) limits {
	s := r.plan.Lane(r.spec.Sizes[rd.Size], count)
	qps := uint64(r.spec.QPs)
	active := r.plan.Sends()
	l := limits{waitsForFirst: r.plan.Receives() && r.plan.Role() == plan.Target}
	if rd.Kind == plan.Steady {
		l.steady, l.duration = true, r.ticks(steadyMost)
	} else {
		l.count, l.duration, l.margin = s.Count*qps, r.ticks(s.Duration), r.ticks(r.spec.Margin)
		l.expected = l.count * r.plan.ReceivesPerMessage()
	}
	byTime := l.count == 0
	l.passive = !active || (r.plan.Answers() && r.plan.Role() == plan.Target && byTime)
	if !active && r.plan.Receives() && !r.plan.OpenEnded() && !byTime {
		l.passive = false // exact: the receiver counts
	}
	if !r.ours { // nothing tells a perftest end that its peer is done: it counts, or has a clock of its own
		l.passive = !active && !r.plan.Receives()
	}
	l.quietAfterDone = r.ticks(lullReliable)
	if r.plan.ByCredit() { // a SEND is complete there when TCP has taken it
		l.quietAfterDone = r.ticks(lullUnreliable)
	}
	if r.spec.Transport != verbs.RC {
		l.quietAfterDone = r.ticks(lullUnreliable)
		if !r.ours && r.plan.Receives() {
			l.quietAfterDone = r.ticks(lullStock)
		}
	}
	stall := r.o.Stall
	if stall <= 0 {
		stall = defaultStall
	}
	// A slow path may need long for one message: allow 20 MB/s for a window of each lane.
	window := time.Duration(float64(r.plan.LargestSize()) * float64(s.Signal) * float64(qps) / 20e6 * 1e9)
	l.stall = r.ticks(stall + window)
	return l
}

// notePartial keeps what an interrupted round had measured.
func (r *run) notePartial(rd plan.Round, t *trace, rec *job.Recorder, d disturbance, why error) {
	if rd.Kind != plan.Measured || t.last.Completed+t.last.Received == 0 {
		return
	}
	r.perNs = r.clock.PerNanosecond()
	clock, err := deviceClock(rec, r.perNs)
	if err != nil {
		return // nothing is known of the samples
	}
	record := r.record(rd, t, rec, clock, d)
	record.Verified = ""
	record.Warnings = append(record.Warnings, "incomplete: "+why.Error())
	r.keep(record)
	if r.o.Measured != nil {
		r.o.Measured(record, report.Samples{})
	}
}

// counters reads the device's counters, nil where it has none and in rounds that nobody reports: on sysfs that takes
// longer than a short round.
func (r *run) counters(rd plan.Round) map[string]uint64 {
	if rd.Kind != plan.Measured {
		return nil
	}
	return r.deviceCounters()
}

func difference(before, after map[string]uint64) map[string]int64 {
	if len(after) == 0 {
		return nil
	}
	out := map[string]int64{}
	for name, v := range after {
		out[name] = int64(v - before[name]) // 0 is kept: "retransmits == 0" is met by it, and not by a device without the counter
	}
	return out
}

// join adds the trace of a part to that of a round.
func (t *trace) join(p *trace, first bool) {
	if first {
		*t = *p
		return
	}
	t.last = follow(t.last, p.last, p.firstIn)
	for i := range t.threads {
		t.threads[i] = follow(t.threads[i], p.threads[i], p.firstIn)
	}
	for name, v := range p.counters {
		if t.counters == nil {
			t.counters = map[string]int64{}
		}
		t.counters[name] += v
	}
}

// follow adds what a part did to what those before it did. Parts follow each other with unmeasured work between: the times
// are added, not the stamps.
func follow(all, p job.Progress, firstIn job.Ticks) job.Progress {
	begin := p.FirstPost
	if begin == 0 {
		begin = firstIn
	}
	all.LastDone += p.LastDone - begin
	all.Posted += p.Posted
	all.Completed += p.Completed
	all.Received += p.Received
	all.BytesOut += p.BytesOut
	all.BytesIn += p.BytesIn
	return all
}
