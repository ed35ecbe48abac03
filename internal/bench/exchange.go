package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gobw/gobw/internal/bench/drive"
	"github.com/gobw/gobw/internal/bench/machine"

	"github.com/gobw/gobw/internal/bench/payload"
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
	device verbs.Device
	spec   plan.Spec
	o      ExchangeOptions
	port   verbs.PortInfo
	gid    verbs.GIDEntry
	useGID bool
	flows  []*exchangeFlow
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
	end  *Endpoint
	job  *job.Job

	dropped bool
}

// Span is when an exchange measures, counted from its start: for Measure after Lead. Tail is how long it goes on for
// peers that began later.
type Span struct{ Lead, Measure, Tail time.Duration }

func (s Span) whole() time.Duration { return s.Lead + s.Measure + s.Tail }

// Movement is what one flow moved in the measured time.
type Movement struct {
	BitsPerS  float64
	LatencyNs []float64 // samples, sorted
	Err       error
	// Unmeasured is a flow that had moved nothing when another one of this device failed and ended the run: nobody knows
	// whether it would have.
	Unmeasured bool
}

// OpenExchange settles a test against a device. Its duration only has to be there: each round brings its own.
func OpenExchange(dev verbs.Device, spec plan.Spec, o ExchangeOptions) (*Exchange, error) {
	x := &Exchange{device: dev, spec: spec, o: o}
	var err error
	if x.port, err = ChoosePort(dev, o.Port); err != nil {
		return nil, err
	}
	p, err := x.settle(x.spec, plan.Initiator, x.port.ActiveMTU)
	if err != nil {
		return nil, err
	}
	bandwidth := p.Spec().Kind == plan.Bandwidth
	if p.Spec().Transport == verbs.UC && !p.Row().NeedsReceive() {
		return nil, errors.New("UC WRITE: nobody knows how much arrives; use send, or RC")
	}
	if p.Spec().Verify != plan.VerifyNothing && (!bandwidth || p.Row().Fetches() || !p.Row().Addressed()) {
		return nil, errors.New("data is verified for the bandwidth of write only")
	}
	if x.port.LinkLayer == verbs.LinkInfiniBand && o.GIDIndex == nil {
		return x, nil
	}
	x.useGID = true
	table, err := dev.GIDs(x.port.Number)
	if err != nil {
		return nil, err
	}
	if table, err = narrow(dev, o.GIDIndex, table); err != nil {
		return nil, err
	}
	x.gid, err = ChooseGID(table, o.Local)
	return x, err
}

// Port is the device port in use.
func (x *Exchange) Port() verbs.PortInfo { return x.port }

// QPs is how many queue pairs each flow has.
func (x *Exchange) QPs() int { return max(x.spec.QPs, 1) }

// settle makes the test of one part.
func (x *Exchange) settle(spec plan.Spec, role plan.Role, mtu verbs.MTU) (*plan.Settled, error) {
	return plan.Settle(spec, plan.Limits{
		Device: x.device.Info(), Port: x.port, PageBytes: os.Getpagesize(), LineBytes: machine.CacheLine(), Dialled: (role == plan.Initiator) != spec.Reversed,
	}, plan.Peer{MTU: mtu}, x.o.Policy)
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
		if err := x.find(); err != nil {
			return nil, err
		}
	}
	end, err := newEndpoint([]rail{{device: x.device, port: x.port, gid: x.gid, useGID: x.useGID, numaNode: -1}}, p, endpointOptions{mtu: p.MTU()})
	if err != nil {
		return nil, err
	}
	x.flows = append(x.flows, &exchangeFlow{plan: p, end: end})
	return end.addresses(), nil
}

// find looks for the address in use where it is now: an interface that comes or goes moves the lines of the table, and an index
// from before would name another.
func (x *Exchange) find() error {
	if !x.useGID {
		return nil
	}
	table, err := x.device.GIDs(x.port.Number)
	if err != nil {
		return err
	}
	same := func(e verbs.GIDEntry) bool { return e.GID == x.gid.GID && e.Type == x.gid.Type }
	if i := slices.IndexFunc(table, same); i >= 0 {
		x.gid = table[i]
		return nil
	}
	return &verbs.Error{
		Verb: "find the address in use", Device: x.device.Info().Name,
		Err: fmt.Errorf("%v is gone: its interface %s has vanished, is down, or has lost it", x.gid.GID.Addr(), x.gid.NetInterface), Fix: "look at 'ip address' and the kernel's log (dmesg)",
	}
}

// Connect connects flow k, posts its receives and compiles its job.
func (x *Exchange) Connect(k int, peer []control.Address) error {
	f := x.flows[k]
	spec := f.plan.Spec()
	if err := f.end.connect(peer, plan.DataPolicy{}); err != nil {
		return err
	}
	var err error
	if f.job, err = f.end.compile(spec.Sizes[0], 0, peer); err != nil {
		return err
	}
	if spec.Verify != plan.VerifyNothing {
		if err := f.end.work.arm(f.end, spec.Sizes[0], 0); err != nil {
			return err
		}
	}
	return f.end.postReceives(f.job)
}

// Drop ends flow k, whose peer is gone; the others keep their numbers.
func (x *Exchange) Drop(k int) error {
	f := x.flows[k]
	f.dropped = true
	return f.end.Close()
}

// running are the flows that have a peer.
func (x *Exchange) running() []*exchangeFlow {
	return slices.DeleteFunc(slices.Clone(x.flows), func(f *exchangeFlow) bool { return f.dropped })
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
	if err := r.join(); err != nil || len(r.flows) == 0 {
		return r.out, err
	}
	q, err := machine.BeQuiet(x.o.CPU, []int{x.device.Info().NUMANode})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, q.Restore()) }()
	if _, sleeps := x.device.(verbs.SelfServing); sleeps && r.whole.Shape == job.Serve {
		select {
		case <-time.After(s.whole()):
		case <-ctx.Done():
			return r.out, context.Cause(ctx)
		}
	} else if err := r.drive(ctx, s); err != nil {
		return r.out, err
	}
	r.verify()
	return r.out, nil
}

// exchangeRun is one Run.
type exchangeRun struct {
	*Exchange
	clock tick.Clock
	flows []*exchangeFlow // that have a peer
	out   []Movement      // of all flows
	whole *job.Job
	leads *plan.Settled // of a flow that sends, if one does
}

// join makes one job of all flows. What only serves needs no lane.
func (r *exchangeRun) join() error {
	r.flows = r.running()
	r.whole = &job.Job{Shape: job.Serve, Stop: &atomic.Uint32{}}
	moving := slices.DeleteFunc(slices.Clone(r.flows), func(f *exchangeFlow) bool { return f.job.Shape == job.Serve })
	if len(moving) == 0 {
		moving = r.flows
	}
	for i, f := range moving {
		if i > 0 && (r.whole.Shape == job.PingPong || f.job.Shape == job.PingPong) {
			return errors.New("a latency test has one partner a round: use pairs, leaves or random")
		}
		if r.leads == nil || f.plan.Sends() {
			r.leads = f.plan
		}
		r.whole.Shape, r.whole.First = f.job.Shape, f.job.First
		r.whole.Lanes = append(r.whole.Lanes, f.job.Lanes...)
		r.whole.CQs = append(r.whole.CQs, f.job.CQs...)
	}
	raw := 0
	if r.whole.Shape == job.PingPong {
		raw = exchangeSamples
	}
	r.whole.Record = job.NewRecorder(raw)
	r.whole.Record.Samples = raw > 0
	return nil
}

const (
	exchangeSamples = 1 << 18
	// firstWithin is how long beyond the span a run waits for the first completion where none has come: a path that is slower
	// than the span still has a figure, and one that is dead has the device's own error (RC retries for half a second to
	// two).
	firstWithin = 2500 * time.Millisecond
)

// flowsTell is a device of which nobody asks why a flow failed: the flow's own error says it, at whichever end.
type flowsTell struct{ rails }

// Failure is none.
func (flowsTell) Failure(func(verbs.AsyncEvent) bool) error { return nil }

// drive runs the job for the span and works the figures out.
func (r *exchangeRun) drive(ctx context.Context, s Span) error {
	perNs := r.clock.PerNanosecond()
	ticks := func(t time.Duration) job.Ticks { return job.Ticks(float64(t) * perNs) }
	begun := job.Now()
	r.whole.Deadline, r.whole.AbandonAtDeadline = begun+ticks(s.whole()+firstWithin), true
	runner, err := job.Prepare(r.device, r.whole)
	if errors.Is(err, verbs.ErrUnsupported) {
		runner, err = job.NewVerbsRunner(r.device, r.whole)
	}
	if err != nil {
		return err
	}
	t := drive.NewTrace(ticks(2*drive.Slice), 0, r.whole.Record)
	err = drive.New(drive.Task{
		Plan: r.leads, Spec: r.leads.Spec(), Round: plan.Round{Local: true}, Job: r.whole, Runner: runner,
		Devices: flowsTell{rails{{device: r.device, port: r.port}}}, PerNs: perNs, Ours: true, Trace: t,
		Limits: drive.Limits{
			Duration: ticks(s.whole()), Lead: ticks(s.Lead), Tail: ticks(s.Tail), FirstWithin: ticks(firstWithin), Stall: ticks(2 * (s.whole() + firstWithin)),
			Yields: r.device.Info().Software && r.whole.Shape != job.PingPong,
		},
	}).Run(ctx)
	if err = errors.Join(r.blame(err), runner.Close()); err == nil {
		r.figures(t, begun)
	}
	return err
}

// blame gives a failed completion to the flow of its queue pair.
func (r *exchangeRun) blame(err error) error {
	failed, is := errors.AsType[*verbs.CompletionError](err)
	if !is {
		return err
	}
	for k, f := range r.Exchange.flows {
		if slices.ContainsFunc(f.end.qps, func(qp verbs.QueuePair) bool { return qp.QPN() == failed.Completion.QPN }) {
			r.out[k].Err = err
			return nil
		}
	}
	return err
}

// figures divides what was moved among the flows of each direction. With one flow a direction, as in all patterns but incast
// and all-to-all, it is that flow's own.
func (r *exchangeRun) figures(t *drive.Trace, begun job.Ticks) {
	perNs := r.clock.PerNanosecond()
	bitsOut := 8 * t.PerSecond(perNs, t.Last.FirstPost, func(p job.Progress) uint64 { return p.BytesOut })
	bitsIn := 8 * t.PerSecond(perNs, begun, func(p job.Progress) uint64 { return p.BytesIn })
	out := 0
	for _, f := range r.flows {
		if f.plan.Sends() {
			out++
		}
	}
	failed := slices.ContainsFunc(r.out, func(m Movement) bool { return m.Err != nil })
	for k, f := range r.Exchange.flows {
		m := &r.out[k]
		switch {
		case f.dropped:
		case r.spec.Kind == plan.Latency:
			m.LatencyNs = r.samples(t.Recorder, perNs)
		case f.plan.Sends():
			m.BitsPerS = bitsOut / float64(out)
		case f.plan.Receives():
			m.BitsPerS = bitsIn / float64(len(r.flows)-out)
		}
		m.Unmeasured = failed && m.Err == nil && m.BitsPerS == 0 && len(m.LatencyNs) == 0
	}
}

// samples are the latencies of the measured time.
func (r *exchangeRun) samples(rec *job.Recorder, perNs float64) []float64 {
	scale := 1 / perNs
	if r.leads.Answers() {
		scale /= 2
	}
	if rec.RawLen == 0 { // so slow that what came later has to tell
		rec = r.whole.Record
	}
	out := make([]float64, 0, rec.RawLen)
	for _, t := range rec.Raw[:rec.RawLen] {
		out = append(out, float64(t)*scale)
	}
	slices.Sort(out)
	return out
}

// verify looks at what was written here. A place that no message has reached yet is still zero.
func (r *exchangeRun) verify() {
	if r.spec.Verify == plan.VerifyNothing {
		return
	}
	for k, f := range r.Exchange.flows {
		c, is := f.end.work.(*contiguous)
		if f.plan.Role() != plan.Target || f.dropped || !is {
			continue
		}
		size := f.plan.Spec().Sizes[0]
		steps := f.plan.SendSteps(size)
		for q := range f.end.qps {
			seed := payload.Seed(0, q, true)
			for place := range uint64(steps.Places) {
				b := f.end.recvSlot(q)[steps.At(place):][:size]
				if r.out[k].Err == nil && !onlyHoles(b, seed, place) {
					r.out[k].Err = c.corrupt(b, seed, place, q)
				}
			}
		}
	}
}
