package bench

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gobw/gobw/internal/bench/drive"
	"github.com/gobw/gobw/internal/bench/endpoint"
	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
	"github.com/gobw/gobw/verbs/tick"
)

// Exchange is one device's part in a round of a test of many hosts: flows to and from several peers, run as one job for a
// given time. There is no session between two ends: whoever coordinates the hosts carries the addresses and says when to
// begin. It belongs to one goroutine.
type Exchange struct {
	rails endpoint.Rails // one
	spec  plan.Spec
	o     ExchangeOptions
	flows []*exchangeFlow
}

// ExchangeOptions choose this end's part of the path.
type ExchangeOptions struct {
	Port     int
	GIDIndex *int
	Local    netip.Addr // the address that the peers know this host by
	CPU      machine.CPUChoice
	Policy   plan.Policy // what this end grants whoever asks
}

type exchangeFlow struct {
	plan *plan.Settled
	end  *endpoint.Endpoint
	job  *job.Job // nil: without a peer
}

// Span is when an exchange measures, counted from its start: for Measure after Lead. Tail is how long it goes on for
// peers that began later.
type Span struct{ Lead, Measure, Tail time.Duration }

func (s Span) whole() time.Duration { return s.Lead + s.Measure + s.Tail }

// Movement is what one flow moved in the measured time.
type Movement struct {
	BitsPerS  float64
	LatencyNs []float64 // 5th, 25th, 50th, 75th, 95th percentile; nil: no sample
	Err       error
	// Unmeasured is a flow that had moved nothing when another one of this device failed and ended the run: nobody knows
	// whether it would have.
	Unmeasured bool
}

// OpenExchange settles a test against a device. Its duration only has to be there: each round brings its own.
func OpenExchange(dev verbs.Device, spec plan.Spec, o ExchangeOptions) (*Exchange, error) {
	x := &Exchange{spec: spec, o: o}
	anywhere := -1
	var err error
	if x.rails, err = endpoint.OpenRails([]verbs.Device{dev}, o.Port, &anywhere); err != nil {
		return nil, err
	}
	p, err := x.settle(x.spec, plan.Initiator, x.Port().ActiveMTU)
	if err != nil {
		return nil, err
	}
	if p.Spec().Transport == verbs.UC && !p.Row().NeedsReceive() {
		return nil, errors.New("UC WRITE: nobody knows how much arrives; use send, or RC")
	}
	if p.Spec().Verify != plan.VerifyNothing && (p.Spec().Kind != plan.Bandwidth || p.Row().Fetches() || !p.Row().Addressed()) {
		return nil, errors.New("data is verified for the bandwidth of write only")
	}
	tables, err := x.rails.Tables(o.GIDIndex)
	if err != nil {
		return nil, err
	}
	_, err = x.rails.ChooseGIDs(tables, nil, o.GIDIndex, endpoint.Ends{Local: o.Local})
	return x, err
}

// Port is the device port in use.
func (x *Exchange) Port() verbs.PortInfo { return x.rails[0].Port }

// QPs is how many queue pairs each flow has.
func (x *Exchange) QPs() int { return max(x.spec.QPs, 1) }

// settle makes the test of one part.
func (x *Exchange) settle(spec plan.Spec, role plan.Role, mtu verbs.MTU) (*plan.Settled, error) {
	limits := endpoint.Limits(x.rails[0].Device.Info(), x.Port(), (role == plan.Initiator) != spec.Reversed)
	return plan.Settle(spec, limits, plan.Peer{MTU: mtu}, x.o.Policy)
}

// Add makes the objects of one more flow and returns its addresses for the peer. Its queue pairs have flow labels from the
// given one on; 0: none has one.
func (x *Exchange) Add(role plan.Role, mtu verbs.MTU, flowLabel uint32) ([]control.Address, error) {
	spec := x.spec
	if flowLabel != 0 {
		spec.FlowLabels = make([]uint32, max(spec.QPs, 1))
		for q := range spec.FlowLabels {
			spec.FlowLabels[q] = (flowLabel + uint32(q)) & verbs.MaxFlowLabel
		}
	}
	p, err := x.settle(spec, role, mtu)
	if err != nil {
		return nil, err
	}
	if len(x.flows) == 0 {
		if err := x.rails[0].Find(); err != nil {
			return nil, err
		}
	}
	end, err := endpoint.New(x.rails, p, endpoint.Options{Sparse: true})
	if err != nil {
		return nil, err
	}
	x.flows = append(x.flows, &exchangeFlow{plan: p, end: end})
	return end.Addresses(), nil
}

// Connect connects flow k, posts its receives and compiles its job. A flow whose peer is gone has no addresses to connect to: it
// ends, and the others keep their numbers.
func (x *Exchange) Connect(k int, peer []control.Address) (err error) {
	f := x.flows[k]
	if len(peer) == 0 {
		return f.end.Close()
	}
	if err := f.end.Connect(peer, plan.DataPolicy{}); err != nil {
		return err
	}
	size := f.plan.LargestSize()
	if f.job, err = f.end.Compile(size, 0); err != nil {
		return err
	}
	if x.spec.Verify != plan.VerifyNothing {
		f.end.Arm(size, 0)
	}
	return f.end.Begin(f.job)
}

// Close ends all flows; the exchange can then take others.
func (x *Exchange) Close() error {
	var errs []error
	for _, f := range slices.Backward(x.flows) {
		errs = append(errs, f.end.Close())
	}
	x.flows = nil
	return errors.Join(errs...)
}

// Run moves data for the span and returns what each flow did. A flow that failed has its error; what the others moved
// until then is lost, because the device runs them as one.
func (x *Exchange) Run(ctx context.Context, s Span) (out []Movement, err error) {
	r := &exchangeRun{Exchange: x, clock: tick.Start(), out: make([]Movement, len(x.flows))}
	if err := r.join(); err != nil || r.leads == nil {
		return r.out, err
	}
	q, err := machine.BeQuiet(x.o.CPU, []int{x.rails[0].Device.Info().NUMANode})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, q.Restore()) }()
	if x.rails.ServeThemselves() && r.whole.Shape == job.Serve {
		select {
		case <-time.After(s.whole()):
		case <-ctx.Done():
			return r.out, context.Cause(ctx)
		}
	} else if err := r.drive(ctx, s); err != nil {
		return r.out, err
	}
	for k, f := range x.flows { // a place that no message has reached yet is still zero
		if x.spec.Verify != plan.VerifyNothing && f.plan.Role() == plan.Target && f.job != nil && r.out[k].Err == nil {
			_, r.out[k].Err = f.end.Check(f.plan.LargestSize(), 0)
		}
	}
	return r.out, nil
}

// exchangeRun is one Run.
type exchangeRun struct {
	*Exchange
	clock tick.Clock
	out   []Movement
	whole *job.Job
	leads *plan.Settled // of a flow that sends, if one does; nil: no flow has a peer
	// Flows with a peer, by direction.
	sending, receiving float64
}

// join makes one job of all flows. What only serves needs no lane where others move.
func (r *exchangeRun) join() error {
	r.whole = &job.Job{Shape: job.Serve, Stop: &atomic.Uint32{}, Record: job.NewRecorder(0), Abandon: true}
	moves := func(f *exchangeFlow) bool { return f.job != nil && f.job.Shape != job.Serve }
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

// firstWithin is how long beyond the span a run waits for the first completion where none has come: a path that is slower
// than the span still has a figure, and one that is dead has the device's own error (RC retries for half a second to
// two).
const firstWithin = 2500 * time.Millisecond

// drive runs the job for the span and works the figures out.
func (r *exchangeRun) drive(ctx context.Context, s Span) error {
	perNs := r.clock.PerNanosecond()
	begun := job.Now()
	dev := r.rails[0].Device
	runner, err := job.Prepare(dev, r.whole)
	if err != nil {
		return err
	}
	d := drive.New(drive.Task{
		Plan: r.leads, Round: plan.Round{Local: true}, Job: r.whole, Runner: runner,
		Devices: r.rails, PerNs: perNs,
		Limits: drive.Limits{
			Duration: perNs.Ticks(s.whole()), Lead: perNs.Ticks(s.Lead), Tail: perNs.Ticks(s.Tail), FirstWithin: perNs.Ticks(firstWithin),
			Stall:  perNs.Ticks(2 * (s.whole() + firstWithin)),
			Yields: dev.Info().Software && r.whole.Shape != job.PingPong,
		},
	})
	if err = errors.Join(r.blame(d.Run(ctx)), runner.Close()); err == nil {
		r.figures(d.Trace, begun)
	}
	return err
}

// blame gives a failed completion to the flow of its queue pair.
func (r *exchangeRun) blame(err error) error {
	if failed, is := errors.AsType[*verbs.CompletionError](err); is {
		for k, f := range r.flows {
			if f.end.Has(failed.Completion.QPN) {
				r.out[k].Err = err
				return nil
			}
		}
	}
	return err
}

// figures divides what was moved among the flows of each direction. With one flow a direction, as in all patterns but incast, it is
// that flow's own.
func (r *exchangeRun) figures(t *drive.Trace, begun job.Ticks) {
	perNs := r.clock.PerNanosecond()
	bitsOut := 8 * t.PerSecond(perNs, t.Last.FirstPost, func(p job.Progress) uint64 { return p.BytesOut })
	bitsIn := 8 * t.PerSecond(perNs, begun, func(p job.Progress) uint64 { return p.BytesIn })
	failed := slices.ContainsFunc(r.out, func(m Movement) bool { return m.Err != nil })
	for k, f := range r.flows {
		m := &r.out[k]
		switch {
		case f.job == nil:
		case r.spec.Kind == plan.Latency:
			m.LatencyNs = r.latency(t.Recorder, perNs)
		case f.plan.Sends():
			m.BitsPerS = bitsOut / r.sending
		case f.plan.Receives():
			m.BitsPerS = bitsIn / r.receiving
		}
		m.Unmeasured = failed && m.Err == nil && m.BitsPerS == 0 && len(m.LatencyNs) == 0
	}
}

// latency is that of the measured time, at some percentiles.
func (r *exchangeRun) latency(rec *job.Recorder, perNs tick.Rate) (ns []float64) {
	if r.leads.Answers() {
		perNs *= 2
	}
	if rec.N == 0 { // so slow that what came later has to tell
		rec = r.whole.Record
	}
	for _, share := range [...]float64{0.05, 0.25, 0.50, 0.75, 0.95} {
		if rec.N > 0 {
			ns = append(ns, perNs.Seconds(rec.Quantile(share))*1e9)
		}
	}
	return ns
}
