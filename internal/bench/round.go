package bench

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/gobw/gobw/internal/bench/drive"
	"github.com/gobw/gobw/internal/bench/payload"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
	"github.com/gobw/gobw/verbs/tick"
)

// outcome is what the parts of a round brought together.
type outcome struct {
	trace drive.Trace
	hurt  figure.Disturbance
	arrival
	before  uint64  // messages of each queue pair in the parts before
	drift   float64 // of the cycle counter
	corrupt error
}

// round prepares, runs and reports one round.
func (r *run) round(ctx context.Context, rd plan.Round) error {
	rec, x, begun := r.recorder(rd), &outcome{}, tick.Start()
	var err error
	for i, n := range r.plan.Parts(rd) {
		if err = r.part(ctx, rd, i, n, rec, x); err != nil {
			break
		}
		x.before += n
		r.quiet.Collect()
	}
	moved := x.trace.Last.Completed+x.trace.Last.Received > 0
	if rd.Kind != plan.Measured || err == nil && r.peerLeft || err != nil && !moved {
		return cmp.Or(err, x.corrupt)
	}
	r.perNs = r.clock.PerNanosecond()
	ended := tick.Start()
	if x.drift = tick.Drift(r.clock, begun, ended); x.drift != 0 {
		r.clock = ended // what comes later may be right again
	}
	rec.Release()
	clock, wrong := deviceClock(rec, r.perNs)
	if wrong != nil {
		return cmp.Or(err, wrong)
	}
	local := r.record(rd, x, rec, clock)
	if err != nil { // what it had measured until then
		local.Verified = ""
		local.Warnings = append(local.Warnings, "incomplete: "+err.Error())
		r.keep(local)
		return err
	}
	var figures control.Figures
	if !r.endless() {
		mine, wrong := r.figuresOf(local, x)
		if wrong != nil {
			return wrong
		}
		if figures, err = r.session.Report(ctx, mine); err != nil {
			r.keep(local)
			return errors.Join(x.corrupt, err)
		}
	}
	record, corrupt := local, x.corrupt
	if !r.plan.Ours() && r.plan.Sends() && r.spec.Transport != verbs.RC && r.spec.Kind == plan.Bandwidth {
		record.Warnings = append(record.Warnings, "messages that left: perftest does not report what arrived")
	}
	if r.plan.Ours() || figures.Iterations > 0 {
		remote, err := r.remoteReport(figures, local)
		if err != nil {
			return err
		}
		record = r.merge(local, remote.Record, x.arrival, remote.arrival)
		switch {
		case corrupt == nil && remote.Corrupt != "":
			corrupt = &payload.Error{Text: "peer said: " + control.Quoted(remote.Corrupt)}
		case corrupt == nil && r.spec.Verify != plan.VerifyNothing && x.Whole+remote.Whole == 0:
			corrupt = payload.Nothing(max(local.Iterations, remote.Record.Iterations))
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
		r.o.Kept(r.result, false)
	}
	return corrupt
}

// keep notes a record in the result; an endless test keeps the last alone.
func (r *run) keep(record report.Record) {
	if r.spec.Infinite {
		r.result.Records = r.result.Records[:0]
	}
	r.result.Records = append(r.result.Records, record)
}

// endless tells a test of perftest's that runs until it is killed: its ends do not meet between rows.
func (r *run) endless() bool { return r.spec.Infinite && !r.plan.Ours() }

// seed is the same at both ends and differs from part to part.
func (r *run) seed(rd plan.Round, part uint64) uint64 {
	return uint64(rd.Size)<<48 | uint64(rd.Run)<<32 | uint64(rd.Kind)<<28 | part&(1<<28-1)
}

// shortest is less than what a message of most tests takes: samples beyond are in the histogram alone.
const shortest = 100 * time.Nanosecond

// recorder is that of all rounds, so that its memory is touched once, as this one needs it.
func (r *run) recorder(rd plan.Round) *job.Recorder {
	if r.rec == nil {
		raw := uint64(job.RawSamples)
		switch n := max(r.spec.Iterations, r.plan.Counted()) * uint64(r.spec.QPs); {
		case r.spec.Noncontig != nil: // a grid keeps figures alone: its many short runs need not touch 8 MiB each
			raw = 0
		case n > 0:
			raw = min(raw, n)
		default: // no test is faster for long
			raw = min(raw, uint64(r.spec.Duration/shortest))
		}
		r.rec = job.NewRecorder(int(raw))
	}
	rec, measured := r.rec, rd.Kind == plan.Measured
	rec.Reset()
	// Without a peak (-N) a stream is not stamped at all: its loop then costs what posting and polling cost. Recorders of
	// threads cannot be cut at margins while they run.
	whole := r.spec.Margin == 0 || r.spec.Threads < 2
	rec.Samples = measured && whole && (r.spec.Kind == plan.Latency || !r.spec.NoPeak)
	rec.Peak = measured && !r.spec.NoPeak && r.spec.Kind == plan.Bandwidth
	rec.CPU, rec.Clock = r.spec.CPU && whole, verbs.CompletionClock{}
	if rec.Samples && r.plan.StampedByDevice() {
		rec.Clock = r.rails[0].Device.Info().Clock
	}
	// the end that moves second has no sample of it
	rec.HoldFirst = r.plan.Answers() && r.plan.MovesFirst() && rec.Clock.IsZero()
	return rec
}

// part runs one job of a round, its n-th: compile, ready, run, done. It compares the data where that is asked for.
func (r *run) part(ctx context.Context, rd plan.Round, n, count uint64, rec *job.Recorder, x *outcome) (err error) {
	size := r.spec.Sizes[rd.Size]
	verifying := r.spec.Verify != plan.VerifyNothing && (rd.Kind == plan.Measured || rd.Kind == plan.Proof)
	j, err := r.end.Compile(size, count)
	if err != nil {
		return err
	}
	if rd.Kind == plan.Steady {
		for i := range j.Lanes {
			j.Lanes[i].Count, j.Lanes[i].Expect = 0, 0
		}
	}
	// A perftest end has its own clock and leaves when that has run out: what is in flight then may never complete.
	j.Abandon = !r.plan.Ours() && r.spec.Duration > 0 &&
		(r.plan.Answers() || r.plan.Row.NeedsReceive() && !r.spec.Infinite)
	j.Stop, j.Record = &atomic.Uint32{}, rec
	r.setPace(j, job.Ticks(r.plan.PauseNs(size)*float64(r.perNs)))
	if verifying {
		r.end.Arm(size, r.seed(rd, n))
	}
	if err := r.end.Begin(j); err != nil {
		return err
	}
	runner, err := r.prepare(j)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runner.Close()) }()
	before := r.counters(rd)
	r.quiet.PrepareWatch()
	if !rd.Local && (!r.endless() || rd.Run == 1) {
		if err := r.session.Sync(ctx, control.PhaseReady, rd.Size, rd.Last); err != nil {
			return err
		}
	}
	r.quiet.Watch()
	d := drive.New(drive.Task{
		Plan: r.plan, Round: rd, Job: j, Runner: runner, Session: r.session, Devices: r.rails,
		Limits: r.limit(rd, count), PerNs: r.perNs, Progress: r.o.Progress,
	})
	err = d.Run(ctx)
	x.hurt = x.hurt.Plus(r.quiet.Counted())
	r.peerLeft = r.endless() && d.PeerDone
	*rec = *d.Trace.Recorder
	d.Trace.Counters = drive.Changes(before, r.counters(rd))
	x.trace.Join(d.Trace, n == 0)
	x.Sent, x.Received = x.Sent+d.Trace.Last.Completed, x.Received+d.Trace.Last.Received
	if err != nil {
		return err
	}
	r.end.End(j, d.Moved)
	if verifying && x.corrupt == nil {
		var whole uint64
		whole, x.corrupt = r.end.Check(size, r.seed(rd, n), x.before)
		x.Whole += whole
	}
	return nil
}

// prepare makes the runner of a round: one for each thread where there are several. What only serves needs one for
// each rail.
func (r *run) prepare(j *job.Job) (job.Runner, error) {
	one := func(thread int, j *job.Job) (job.Runner, error) { return job.Prepare(r.rails.Of(thread).Device, j) }
	if r.spec.Threads == 1 || j.Shape != job.Stream && len(r.rails) == 1 {
		return one(0, j)
	}
	return job.PrepareThreads(j, r.end.Threads, job.ThreadOptions{
		Slice: r.perNs.Ticks(drive.Slice), First: r.perNs.Ticks(drive.FirstSlice), Pin: r.quiet.Pin,
	}, one)
}

// makeUp is how much lateness a rate makes up for. It is the longest that a kernel stops a thread which
// keeps to its share: a quota of CPU time (cpu.max) does so for up to 100 ms, and other programs get 50 ms
// of each second from a real-time thread.
const makeUp = 100 * time.Millisecond

// setPace gives a job its pace, the time between two messages of a lane. A stream keeps the average. In a ping-pong
// only the end that measures waits, and never for less.
func (r *run) setPace(j *job.Job, pace job.Ticks) {
	switch {
	case pace == 0 || r.plan.Answers() && r.plan.Role == plan.Target:
		return
	case j.Shape == job.Stream:
		j.MakeUp = r.perNs.Ticks(makeUp)
	}
	j.Pace, j.Burst = pace, r.spec.Burst
}

// limit is what ends the job of a round.
func (r *run) limit(rd plan.Round, count uint64) drive.Limits {
	s := r.plan.Lane(r.spec.Sizes[rd.Size], count)
	qps := uint64(r.spec.QPs)
	active := r.plan.Sends()
	margin := r.perNs.Ticks(r.spec.Margin)
	l := drive.Limits{Count: s.Count * qps, Duration: r.perNs.Ticks(s.Duration), Lead: margin, Tail: margin}
	if rd.Kind == plan.Steady {
		l = drive.Limits{Duration: r.perNs.Ticks(drive.SteadyMost)}
	}
	l.Passive = !active || (r.plan.Answers() && r.plan.Role == plan.Target && l.Count == 0)
	if !r.plan.Ours() { // nothing tells a perftest end that its peer is done: it counts, or has a clock of its own
		l.Passive = !active && !r.plan.Receives()
	}
	stall := cmp.Or(r.o.Stall, defaultStall)
	signal := float64(max(s.Signal, 1))
	window := plan.DrainTime(float64(r.plan.LargestSize())*signal*float64(qps)) +
		time.Duration(2*signal*r.plan.PauseNs(r.plan.LargestSize())) // the pauses that were asked for
	l.Stall = r.perNs.Ticks(stall + window)
	return l
}

// counters reads the counters of each device, nil where it has none and in rounds that nobody reports: on sysfs
// that takes longer than a short round.
func (r *run) counters(rd plan.Round) []map[string]uint64 {
	if rd.Kind != plan.Measured {
		return nil
	}
	return r.rails.CountersOfEach()
}
