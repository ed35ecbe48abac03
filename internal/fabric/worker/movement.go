package worker

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gobw/gobw/internal/bench/drive"
	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/fabric"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
	"github.com/gobw/gobw/verbs/tick"
)

// move moves data for the round's time and returns what each flow did. A flow that failed has its error; what the
// others moved until then is lost, because the device runs them as one.
func (m *measurer) move(ctx context.Context, g fabric.GoOrder) (out []fabric.Flow, err error) {
	r := &movement{measurer: m, clock: tick.Start(), out: make([]fabric.Flow, len(m.flows))}
	for k, f := range m.flows {
		fail(&r.out[k], f.refused)
	}
	if err := r.join(); err != nil || r.leads == nil {
		return r.out, err
	}
	q, err := machine.BeQuiet(m.cfg.CPU, []int{m.device.Info().NUMANode})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, q.Restore()) }()
	if m.rails.ServeThemselves() && r.whole.Shape == job.Serve {
		select {
		case <-time.After(g.Whole()):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	} else if err := r.drive(ctx, g); err != nil {
		return nil, err
	}
	for k, f := range m.flows { // a place that no message has reached yet is still zero
		if m.verifies() && f.plan.Role == plan.Target && f.job != nil && r.out[k].Error == "" {
			_, err := f.end.Check(f.plan.LargestSize(), 0, 0)
			fail(&r.out[k], err)
		}
	}
	return r.out, nil
}

// fail notes why a flow failed, if it did.
func fail(f *fabric.Flow, err error) {
	if err != nil {
		f.Error, f.Corrupt = control.Bounded(err.Error()), errors.Is(err, control.ErrCorrupt)
	}
}

// movement is one round's.
type movement struct {
	*measurer
	clock tick.Clock
	out   []fabric.Flow
	whole *job.Job
	leads *plan.Settled // of a flow that sends, if one does; nil: no flow has a peer
	// Flows with a peer, by direction.
	sending, receiving float64
}

// join makes one job of all flows. What only serves needs no lane where others move.
func (r *movement) join() error {
	r.whole = &job.Job{Shape: job.Serve, Stop: &atomic.Uint32{}, Record: job.NewRecorder(0), Abandon: true}
	moves := func(f *ownFlow) bool { return f.job != nil && f.job.Shape != job.Serve }
	serves := !slices.ContainsFunc(r.flows, moves)
	for _, f := range r.flows {
		if f.job == nil {
			continue
		}
		if f.plan.Sends() {
			r.sending++
		} else {
			r.receiving++
		}
		if !serves && !moves(f) {
			continue
		}
		if r.leads != nil && (r.whole.Shape == job.PingPong || f.job.Shape == job.PingPong) {
			return errors.New("a latency test has one partner a round: use --pattern pairs")
		}
		if r.leads == nil || f.plan.Sends() {
			r.leads = f.plan
		}
		r.whole.Shape, r.whole.First = f.job.Shape, f.job.First
		r.whole.Lanes = append(r.whole.Lanes, f.job.Lanes...)
		r.whole.CQs = append(r.whole.CQs, f.job.CQs...)
	}
	r.whole.Record.Samples = r.whole.Shape == job.PingPong
	return nil
}

// firstWithin is how long beyond the span a run waits for the first completion where none has come: a
// path that is slower than the span still has a figure, and one that is dead has the device's own error
// (RC retries for half a second to two).
const firstWithin = 2500 * time.Millisecond

// drive runs the job for the span and works the figures out.
func (r *movement) drive(ctx context.Context, g fabric.GoOrder) error {
	perNs := r.clock.PerNanosecond()
	begun := job.Now()
	runner, err := job.Prepare(r.device, r.whole)
	if err != nil {
		return err
	}
	d := drive.New(drive.Task{
		Plan: r.leads, Round: plan.Round{Local: true}, Job: r.whole, Runner: runner,
		Devices: r.rails, PerNs: perNs,
		Limits: drive.Limits{
			Duration: perNs.Ticks(g.Whole()), Lead: perNs.Ticks(g.Lead), Tail: perNs.Ticks(g.Tail),
			FirstWithin: perNs.Ticks(firstWithin),
			Stall:       perNs.Ticks(2 * (g.Whole() + firstWithin)),
			Yields:      r.device.Info().Software && r.whole.Shape != job.PingPong,
		},
	})
	if err = errors.Join(r.blame(d.Run(ctx)), runner.Close()); err == nil {
		r.figures(d.Trace, begun)
	}
	return err
}

// blame gives a failed completion to the flow of its queue pair.
func (r *movement) blame(err error) error {
	if failed, is := errors.AsType[*verbs.CompletionError](err); is {
		for k, f := range r.flows {
			if f.end.Has(failed.Completion.QPN) {
				fail(&r.out[k], err)
				return nil
			}
		}
	}
	return err
}

// figures divides what was moved among the flows of each direction. With one flow a direction, as in all
// patterns but incast, it is that flow's own.
func (r *movement) figures(t *drive.Trace, begun job.Ticks) {
	perNs := r.clock.PerNanosecond()
	bitsOut := 8 * t.PerSecond(perNs, t.Last.FirstPost, func(p job.Progress) uint64 { return p.BytesOut })
	bitsIn := 8 * t.PerSecond(perNs, begun, func(p job.Progress) uint64 { return p.BytesIn })
	failed := false
	for k, f := range r.flows {
		failed = failed || r.out[k].Error != "" && f.refused == nil
	}
	for k, f := range r.flows {
		m := &r.out[k]
		switch {
		case f.job == nil:
		case r.spec.Kind == plan.Latency:
			r.latency(&m.Quantiles, t.Recorder, perNs)
		case f.plan.Sends():
			m.Bits = bitsOut / r.sending
		case f.plan.Receives():
			m.Bits = bitsIn / r.receiving
		}
		m.Unmeasured = failed && m.Error == "" && m.Bits == 0 && m.Quantiles == [5]float64{}
	}
}

// latency is that of the measured time, at some percentiles.
func (r *movement) latency(ns *[5]float64, rec *job.Recorder, perNs tick.Rate) {
	if r.leads.Answers() {
		perNs *= 2
	}
	if rec.N == 0 { // so slow that what came later has to tell
		rec = r.whole.Record
	}
	for i, share := range [...]float64{0.05, 0.25, 0.50, 0.75, 0.95} {
		if rec.N > 0 {
			ns[i] = perNs.Seconds(rec.Quantile(share)) * 1e9
		}
	}
}
