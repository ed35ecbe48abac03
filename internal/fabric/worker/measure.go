package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/gobw/gobw/internal/bench/endpoint"
	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/frame"
	"github.com/gobw/gobw/internal/fabric"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// Config is the process that measures on one device for an agent.
type Config struct {
	// Open opens a device by name, empty for the agent's choice, at the address that others know this host by, and returns
	// the device's own: rails may have others.
	Open     func(name string, local netip.Addr) (verbs.Device, netip.Addr, error)
	Port     int  // device port; 0: the first that is ACTIVE
	GIDIndex *int // nil: chosen
	CPU      machine.CPUChoice
}

// What an agent grants rank 0, which may be anybody who knows the run's secret.
const (
	mostQueuePairs = 1 << 14
	mostFlowBytes  = 2 << 30 // of one flow's buffers
)

// Operations are those that run between two hosts.
func Operations() []plan.Operation { return []plan.Operation{plan.Write, plan.Read, plan.Send} }

// Measure opens a device and runs rounds as it is told, until its input ends. Who gives the
// orders may end in the middle of a round.
func Measure(ctx context.Context, cfg Config, in io.Reader, out io.Writer) error {
	m := &measurer{cfg: cfg}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	orders := make(chan fabric.Order)
	go func() {
		for {
			o, err := frame.Read[fabric.Order](in, fabric.KindOrder, fabric.MostBytes)
			if err != nil {
				cancel(err)
				return
			}
			select {
			case orders <- o:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case o := <-orders:
			if err := frame.Write(out, fabric.KindAnswer, m.Do(ctx, o)); err != nil {
				cancel(err)
			}
		case <-ctx.Done():
			err := context.Cause(ctx)
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return errors.Join(err, m.Close())
		}
	}
}

// measurer is a [Worker] in the process that it runs in: one device's part in the rounds of many hosts.
// Its flows to and from several peers run as one job. There is no session between two ends: rank 0 carries
// the addresses and says when to begin.
type measurer struct {
	cfg    Config
	device verbs.Device
	rails  endpoint.Rails // one; nil: no device is open
	spec   plan.Spec
	flows  []*ownFlow // prepared
}

// ownFlow is this end of a flow.
type ownFlow struct {
	plan *plan.Settled
	end  *endpoint.Endpoint
	job  *job.Job // nil: without a peer

	refused error // why it could not connect to its peer
}

// Do implements [Worker].
func (m *measurer) Do(ctx context.Context, o fabric.Order) (r fabric.Rail) {
	err := errors.New("an order that nobody knows")
	switch {
	case o.Open != nil:
		if err = m.open(*o.Open, &r); err != nil {
			_ = m.Close()
		}
	case o.Prepare != nil:
		r.Addresses, err = m.prepare(*o.Prepare)
	case o.Go != nil:
		r.Flows, err = m.run(ctx, *o.Go)
	}
	if err != nil {
		r.Error, r.Remedy = err.Error(), verbs.RemedyOf(err)
	}
	return r
}

// Close implements [Worker].
func (m *measurer) Close() error {
	err := m.endFlows()
	if m.device != nil {
		err = errors.Join(err, m.device.Close())
	}
	m.device, m.rails = nil, nil
	return err
}

// endFlows ends all flows; the device can then take others.
func (m *measurer) endFlows() error {
	var errs []error
	for _, f := range slices.Backward(m.flows) {
		errs = append(errs, f.end.Close())
	}
	m.flows = nil
	return errors.Join(errs...)
}

// open settles a test against a device. Its duration only has to be there: each round brings its own.
func (m *measurer) open(o fabric.OpenOrder, r *fabric.Rail) error {
	r.Device = o.Device
	if err := m.Close(); err != nil {
		return err
	}
	local, err := netip.ParseAddr(o.Address)
	if err != nil {
		return err
	}
	d, local, err := m.cfg.Open(r.Device, local)
	if err != nil {
		return err
	}
	m.device = d
	// wherever the kernel wants
	if m.rails, err = endpoint.OpenRails([]verbs.Device{m.device}, m.cfg.Port, new(-1)); err != nil {
		return err
	}
	m.spec = o.Plan
	p, err := m.settle(m.spec, plan.Initiator, m.rails[0].Port.ActiveMTU)
	if err != nil {
		return err
	}
	if p.Spec.Transport == verbs.UC && !p.Row.NeedsReceive() {
		return errors.New("UC WRITE: nobody knows how much arrives; use send, or RC")
	}
	if m.verifies() && (p.Spec.Kind != plan.Bandwidth || p.Row.Fetches() || !p.Row.Addressed()) {
		return errors.New("data is verified for the bandwidth of write only")
	}
	tables, err := m.rails.Tables(m.cfg.GIDIndex)
	if err != nil {
		return err
	}
	info := m.device.Info()
	r.Device, r.MTU = info.Name, m.rails[0].Port.ActiveMTU
	_, err = m.rails.ChooseGIDs(tables, nil, m.cfg.GIDIndex, endpoint.Ends{Local: local})
	return err
}

// settle makes the test of one end of a flow.
func (m *measurer) settle(spec plan.Spec, role plan.Role, mtu verbs.MTU) (*plan.Settled, error) {
	limits := endpoint.Limits(m.device.Info(), m.rails[0].Port, (role == plan.Initiator) != spec.Reversed)
	return plan.Settle(spec, limits, plan.Peer{MTU: mtu},
		plan.Policy{Bytes: mostFlowBytes, QueuePairs: mostQueuePairs, Operations: Operations()})
}

func (m *measurer) verifies() bool { return m.spec.Verify != plan.VerifyNothing }

// prepare makes a round's flows and returns the addresses of each.
func (m *measurer) prepare(p fabric.PrepareOrder) ([][]control.Address, error) {
	if m.rails == nil {
		return nil, errors.New("no device is open")
	}
	if err := m.endFlows(); err != nil {
		return nil, err
	}
	if qps := max(m.spec.QPs, 1); len(p.Flows)*qps > mostQueuePairs {
		return nil, fmt.Errorf("%d flows of %d queue pairs each; the limit is %d queue pairs", len(p.Flows), qps,
			mostQueuePairs)
	}
	rail := make([][]control.Address, 0, len(p.Flows))
	for _, of := range p.Flows {
		a, err := m.add(of, p.MTU)
		if err != nil {
			return nil, errors.Join(err, m.endFlows())
		}
		rail = append(rail, a)
	}
	return rail, nil
}

// add makes the objects of one more flow and returns its addresses for the peer.
func (m *measurer) add(of fabric.FlowEnd, mtu verbs.MTU) ([]control.Address, error) {
	spec, role := m.spec, plan.Target
	if of.Initiates {
		role = plan.Initiator
	}
	if of.FlowLabel != 0 {
		spec.FlowLabels = make([]uint32, max(spec.QPs, 1))
		for q := range spec.FlowLabels {
			spec.FlowLabels[q] = (of.FlowLabel + uint32(q)) & verbs.MaxFlowLabel
		}
	}
	p, err := m.settle(spec, role, mtu)
	if err != nil {
		return nil, err
	}
	if len(m.flows) == 0 {
		if err := m.rails[0].Find(); err != nil {
			return nil, err
		}
	}
	end, err := endpoint.New(m.rails, p, endpoint.Options{Sparse: true})
	if err != nil {
		return nil, err
	}
	m.flows = append(m.flows, &ownFlow{plan: p, end: end})
	return end.Addresses(), nil
}

// connect connects a flow, posts its receives and compiles its job. One whose peer is gone has no addresses to connect
// to, and one whose peer's address is of no use cannot connect: it ends, and the others keep their numbers.
func (m *measurer) connect(f *ownFlow, peer []control.Address) (err error) {
	if len(peer) == 0 {
		return f.end.Close()
	}
	if f.refused = f.end.Connect(peer, plan.DataPolicy{}); f.refused != nil {
		return f.end.Close()
	}
	size := f.plan.LargestSize()
	if f.job, err = f.end.Compile(size, 0); err != nil {
		return err
	}
	if m.verifies() {
		f.end.Arm(size, 0)
	}
	return f.end.Begin(f.job)
}

// run runs the flows that were prepared.
func (m *measurer) run(ctx context.Context, g fabric.GoOrder) ([]fabric.Flow, error) {
	began := time.Now()
	if !g.Bounded() {
		return nil, fmt.Errorf("a round of %v that begins in %v: neither is one", g.Whole(), g.In)
	}
	if m.rails == nil || len(g.Addresses) != len(m.flows) {
		return nil, errors.New("other flows are to run than were prepared")
	}
	for k, peer := range g.Addresses {
		if err := m.connect(m.flows[k], peer); err != nil {
			return nil, err
		}
	}
	select {
	case <-time.After(g.In - time.Since(began)):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return m.move(ctx, g)
}
