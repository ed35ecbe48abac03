package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
)

// round is one job from ready to done.
type round struct {
	size  int // index in Plan.Sizes
	run   int // from 1
	kind  roundKind
	count uint64 // messages per queue pair; 0: the plan's
	last  bool
	alone bool // nothing of it crosses the session: the peer need not know
}

type roundKind uint8

const (
	measured roundKind = iota
	warmup
	steady // a warm-up that ends when the rate is steady
	proof  // the first message, verified
)

// rounds lists what both ends go through, in the same order.
func (r *run) rounds() []round {
	var out []round
	for i := range r.plan.Sizes {
		if !r.ours {
			if r.plan.Warmup > 0 && r.warmsAlone() {
				out = append(out, round{size: i, kind: warmup, count: r.plan.Warmup, alone: true})
			}
			out = append(out, round{size: i, run: 1})
			continue
		}
		if r.plan.Verify != "" {
			out = append(out, round{size: i, kind: proof, count: 1})
		}
		switch {
		case r.plan.WarmupSteady:
			out = append(out, round{size: i, kind: steady})
		case r.plan.Warmup > 0:
			out = append(out, round{size: i, kind: warmup, count: r.plan.Warmup})
		}
		for n := range r.plan.Runs {
			out = append(out, round{size: i, run: n + 1, count: r.counted()})
		}
	}
	return out
}

// counted is the messages of a measured round between two ends of ours; 0: the plan's. An exchange comes before those that
// are counted: it holds the time until the peer is awake.
func (r *run) counted() uint64 {
	if answers(r.plan) && r.plan.Iterations > 0 {
		return r.plan.Iterations + 1
	}
	return 0
}

// warmsAlone tells whether this end can warm up without the peer's help, as perftest does: it posts requests that take
// nothing of the peer's but the time of its device.
func (r *run) warmsAlone() bool {
	return r.plan.Kind == control.Bandwidth && sends(r.plan, r.role) && !Opcode(r.plan).NeedsReceive()
}

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
	if movesFirst := (r.role == Initiator) != (r.plan.Operation == control.Write); answers(r.plan) && movesFirst {
		dropFirst(rec) // it holds the time until the peer was ready; the end that moves second has no sample of it
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
	if rd.kind == measured && r.plan.Noncontig == nil { // a grid keeps figures alone: its many short runs need not touch 8 MiB each
		raw = verbs.RawSamples
		if n := max(r.plan.Iterations, r.counted()) * uint64(r.plan.QPs); n > 0 && n < verbs.RawSamples {
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
	t = &trace{series: newSeries(r.ticks(2 * sliceOf(r.plan, r.device)))}
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
	before := r.counters(rd)
	r.quiet.prepareWatch()
	if !rd.alone && (!r.endless() || rd.run == 1) {
		if err := r.session.Sync(ctx, control.PhaseReady, rd.size, rd.last); err != nil {
			return t, d, nil, err
		}
	}
	r.quiet.watch()
	dr := &driver{run: r, rd: rd, job: job, runner: runner, t: t, limit: r.limit(rd, count), peerDone: rd.alone}
	err = dr.rooted(dr.drive(ctx))
	d = r.quiet.counted()
	t.counters = difference(before, r.counters(rd))
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

// counters reads the device's counters, nil where it has none and in rounds that nobody reports: on sysfs that takes
// longer than a short round.
func (r *run) counters(rd round) map[string]uint64 {
	if rd.kind != measured {
		return nil
	}
	return r.deviceCounters()
}

// deviceCounters reads the device's counters, nil where it has none.
func (r *run) deviceCounters() map[string]uint64 {
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
