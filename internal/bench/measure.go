package bench

import (
	"context"
	"errors"

	"github.com/gobw/gobw/internal/control"
)

// measure runs all rounds on a quiet thread.
func (r *run) measure(ctx context.Context) (err error) {
	if r.quiet, err = beQuiet(r.o.CPU, r.nodes()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.quiet.restore()) }()
	r.perNs = r.clock.PerNanosecond()
	r.clockCostNs = clockCost() / r.perNs
	l := r.local()
	l.PinnedCPU, l.GOMAXPROCS, l.ClockCostNs = r.quiet.cpu, r.quiet.maxProcs, r.clockCostNs
	l.Priority = r.quiet.priority()
	for rd := range r.plan.Rounds() { // those of an endless test go on until the context ends
		if err := r.round(ctx, rd); err != nil {
			return err
		}
		r.quiet.collect()
	}
	r.perNs = r.clock.PerNanosecond()
	l.TicksPerNs, l.PreemptSignal = r.perNs, !r.quiet.blocked
	return r.session.Sync(ctx, control.PhaseFinished, max(len(r.spec.Sizes)-1, 0), true)
}
