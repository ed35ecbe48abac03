package bench

import (
	"context"
	"errors"
	"time"

	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/control"
)

// measure runs all rounds on a quiet thread.
func (r *run) measure(ctx context.Context) (err error) {
	nodes := make([]int, r.spec.Threads)
	for n := range nodes {
		nodes[n] = r.rails.Of(n).NUMANode
	}
	if r.quiet, err = machine.BeQuiet(r.o.CPU, nodes); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.quiet.Restore()) }()
	r.perNs = r.clock.PerNanosecond()
	here := &r.result.Here
	here.TicksPerNs, here.ClockCostNs = float64(r.perNs), machine.ClockCost()/float64(r.perNs)
	r.quiet.Describe(here)
	for rd := range r.plan.Rounds() { // those of an endless test go on until an end leaves
		err := r.round(ctx, rd)
		if r.endless() && r.plan.OneSided() && (r.peerLeft || ctx.Err() != nil) {
			return errors.Join(err, r.leave())
		}
		if err != nil {
			return err
		}
	}
	return r.session.Sync(ctx, control.PhaseFinished, max(len(r.spec.Sizes)-1, 0), true)
}

// leaveLimit bounds the end of an endless test: a stock server that was stopped first answers nothing.
const leaveLimit = 2 * time.Second

// leave ends an endless test as perftest does when its client is interrupted: the client says that it is done,
// both ends swap a report, and they part.
func (r *run) leave() error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), leaveLimit, control.ErrSilent)
	defer cancel()
	if !r.peerLeft {
		if err := r.session.Sync(ctx, control.PhaseDone, 0, true); err != nil {
			return err
		}
	}
	var last control.Figures
	if n := len(r.result.Records); n > 0 {
		var err error
		if last, err = r.figuresOf(r.result.Records[n-1], &outcome{}); err != nil {
			return err
		}
	}
	if _, err := r.session.Report(ctx, last); err != nil {
		return err
	}
	if err := r.session.Sync(ctx, control.PhaseFinished, 0, true); err != nil {
		return err
	}
	return r.session.Close()
}
