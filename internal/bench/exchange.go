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
func (x *Exchange) Run(ctx context.Context, s Span) ([]Movement, error) {
	out := make([]Movement, len(x.flows))
	if len(x.running()) == 0 {
		return out, nil
	}
	q, err := machine.BeQuiet(x.o.CPU, []int{x.device.Info().NUMANode})
	if err != nil {
		return nil, err
	}
	d := &exchangeRun{Exchange: x, clock: tick.Start(), out: out}
	d.perNs = d.clock.PerNanosecond()
	err = d.drive(ctx, s)
	return out, errors.Join(err, q.Restore())
}

// exchangeRun is one Run.
type exchangeRun struct {
	*Exchange
	clock tick.Clock
	perNs float64
	out   []Movement
	whole *job.Job
	rec   *job.Recorder
	raw   uint64 // samples before the measured time
	begun job.Ticks
	p     job.Progress
	from  *job.Progress
	to    *job.Progress
}

func (d *exchangeRun) ticks(t time.Duration) job.Ticks { return job.Ticks(float64(t) * d.perNs) }

// join makes one job of all flows. What only serves needs no lane.
func (d *exchangeRun) join() error {
	d.whole = &job.Job{Shape: job.Serve, Stop: &atomic.Uint32{}}
	for _, f := range d.running() {
		if f.job.Shape == job.Serve {
			continue
		}
		if d.whole.Shape == job.PingPong || f.job.Shape == job.PingPong && d.whole.Shape != job.Serve {
			return errors.New("a latency test has one partner a round: use pairs, quick, leaves or random")
		}
		d.whole.Shape, d.whole.First = f.job.Shape, f.job.First
		d.whole.Lanes = append(d.whole.Lanes, f.job.Lanes...)
		d.whole.CQs = append(d.whole.CQs, f.job.CQs...)
	}
	if d.whole.Shape == job.Serve {
		for _, f := range d.running() {
			d.whole.Lanes = append(d.whole.Lanes, f.job.Lanes...)
			d.whole.CQs = append(d.whole.CQs, f.job.CQs...)
		}
	}
	raw := 0
	if d.whole.Shape == job.PingPong {
		raw = exchangeSamples
	}
	d.rec = job.NewRecorder(raw)
	d.rec.Samples = raw > 0
	d.whole.Record = d.rec
	return nil
}

const (
	exchangeSamples = 1 << 18
	idleSlice       = 50 * time.Microsecond
	idleSleep       = 100 * time.Microsecond
	// firstWithin is how long beyond the span a run waits for the first completion where none has come: a path that is slower
	// than the span still has a figure, and one that is dead has the device's own error (RC retries for half a second to
	// two).
	firstWithin = 2500 * time.Millisecond
)

func (d *exchangeRun) drive(ctx context.Context, s Span) error {
	if err := d.join(); err != nil {
		return err
	}
	begun := job.Now()
	d.begun = begun
	d.whole.Deadline, d.whole.AbandonAtDeadline = begun+d.ticks(s.whole()+firstWithin), true
	if _, sleeps := d.device.(verbs.SelfServing); sleeps && d.whole.Shape == job.Serve {
		return d.sleep(ctx, s.whole())
	}
	runner, err := job.Prepare(d.device, d.whole)
	if errors.Is(err, verbs.ErrUnsupported) {
		runner, err = job.NewVerbsRunner(d.device, d.whole)
	}
	if err != nil {
		return err
	}
	err = d.loop(ctx, runner, begun, s)
	err = errors.Join(d.blame(err), runner.Close())
	if err == nil {
		d.figures()
		d.verify()
	}
	return err
}

func (d *exchangeRun) sleep(ctx context.Context, t time.Duration) error {
	select {
	case <-time.After(t):
		d.verify()
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// loop lets the runner work slice by slice and notes where the measured time begins and ends.
func (d *exchangeRun) loop(ctx context.Context, runner job.Runner, begun job.Ticks, s Span) error {
	from, to, end := begun+d.ticks(s.Lead), begun+d.ticks(s.Lead+s.Measure), begun+d.ticks(s.whole())
	software := d.device.Info().Software
	length := drive.Slice
	for {
		now := job.Now()
		if now >= end && d.heard() {
			d.whole.Stop.Store(1)
		}
		if now > d.whole.Deadline+d.ticks(time.Second) { // the runner does not come back to its deadline
			return nil
		}
		p, err := runner.Run(now + d.ticks(length))
		moved := p.Completed+p.Received != d.p.Completed+d.p.Received
		d.p = p
		if moved && d.from == nil && p.LastDone >= from {
			d.from, d.raw = &job.Progress{}, d.rec.RawLen
			*d.from = p
		}
		if moved && p.LastDone <= to {
			last := p
			d.to = &last
		}
		switch {
		case err != nil:
			return err
		case p.Done:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		// A software device whose path is slower than its processor leaves that to others.
		length = drive.Slice
		if software && d.whole.Shape != job.PingPong {
			length = idleSlice
			if !moved {
				time.Sleep(idleSleep)
			}
		}
	}
}

// heard tells whether something has come back in each direction that this end knows of.
func (d *exchangeRun) heard() bool {
	sends := d.whole.Shape == job.Stream && slices.ContainsFunc(d.running(), func(f *exchangeFlow) bool { return f.plan.Sends() })
	receives := d.whole.Shape != job.PingPong && slices.ContainsFunc(d.running(), func(f *exchangeFlow) bool { return f.plan.Receives() })
	pings := d.whole.Shape == job.PingPong
	return (!sends || d.p.Completed > 0) && (!receives || d.p.Received > 0) && (!pings || d.rec.RawLen > 0)
}

// blame gives a failed completion to the flow of its queue pair.
func (d *exchangeRun) blame(err error) error {
	failed, is := errors.AsType[*verbs.CompletionError](err)
	if !is {
		return err
	}
	for k, f := range d.flows {
		if slices.ContainsFunc(f.end.qps, func(qp verbs.QueuePair) bool { return qp.QPN() == failed.Completion.QPN }) {
			d.out[k].Err = err
			return nil
		}
	}
	return err
}

// figures divides what was moved among the flows of each direction. With one flow a direction, as in all patterns but incast
// and all-to-all, it is that flow's own.
func (d *exchangeRun) figures() {
	perNs := d.clock.PerNanosecond()
	out, in := 0, 0
	for _, f := range d.running() {
		if f.plan.Sends() {
			out++
		} else {
			in++
		}
	}
	var bitsOut, bitsIn float64
	if d.from != nil && d.to != nil && d.to.LastDone > d.from.LastDone {
		seconds := float64(d.to.LastDone-d.from.LastDone) / perNs / 1e9
		bitsOut = float64(d.to.BytesOut-d.from.BytesOut) * 8 / seconds
		bitsIn = float64(d.to.BytesIn-d.from.BytesIn) * 8 / seconds
	}
	// So slow that the whole run has to tell.
	whole := func(bytes uint64, since job.Ticks) float64 {
		if since == 0 || d.p.LastDone <= since {
			return 0
		}
		return float64(bytes) * 8 / (float64(d.p.LastDone-since) / perNs / 1e9)
	}
	if bitsOut == 0 {
		bitsOut = whole(d.p.BytesOut, d.p.FirstPost)
	}
	if bitsIn == 0 {
		bitsIn = whole(d.p.BytesIn, d.begun)
	}
	failed := slices.ContainsFunc(d.out, func(m Movement) bool { return m.Err != nil })
	for k, f := range d.flows {
		m := &d.out[k]
		switch {
		case f.dropped:
		case d.spec.Kind == plan.Latency:
			m.LatencyNs = d.samples(perNs)
		case f.plan.Sends():
			m.BitsPerS = bitsOut / float64(out)
		case f.plan.Receives():
			m.BitsPerS = bitsIn / float64(in)
		}
		m.Unmeasured = failed && m.Err == nil && m.BitsPerS == 0 && len(m.LatencyNs) == 0
	}
}

// samples are the latencies of the measured time.
func (d *exchangeRun) samples(perNs float64) []float64 {
	scale := 1 / perNs
	if d.flows[0].plan.Answers() {
		scale /= 2
	}
	first := d.raw
	if d.from == nil || d.rec.RawLen <= d.raw { // so slow that the whole run has to tell
		first = 0
	}
	out := make([]float64, 0, d.rec.RawLen-first)
	for _, t := range d.rec.Raw[first:d.rec.RawLen] {
		out = append(out, float64(t)*scale)
	}
	slices.Sort(out)
	return out
}

// verify looks at what was written here. A place that no message has reached yet is still zero.
func (d *exchangeRun) verify() {
	if d.spec.Verify == plan.VerifyNothing {
		return
	}
	for k, f := range d.flows {
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
				if d.out[k].Err == nil && !onlyHoles(b, seed, place) {
					d.out[k].Err = c.corrupt(b, seed, place, q)
				}
			}
		}
	}
}
