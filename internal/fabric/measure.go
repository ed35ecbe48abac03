package fabric

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/bench/payload"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/frame"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// MeasureConfig is the process that measures on one device for an agent.
type MeasureConfig struct {
	// Open opens a device by name, empty for the agent's choice, at the address that others know this host by, and returns the
	// device's own: rails may have others.
	Open func(name string, local netip.Addr) (verbs.Device, netip.Addr, error)
	// Options of the exchange; Local is filled in.
	Options bench.ExchangeOptions
}

// What an agent grants rank 0, which may be anybody who knows the run's secret.
const (
	mostQueuePairs = 1 << 14
	mostFlowBytes  = 2 << 30 // of one flow's buffers
)

// Operations are those that run between two hosts.
func Operations() []plan.Operation { return []plan.Operation{plan.Write, plan.Read, plan.Send} }

// Measure opens a device and runs rounds as it is told, until its input ends. Who gives the orders may end in the middle of a round.
func Measure(ctx context.Context, cfg MeasureConfig, in io.Reader, out io.Writer) error {
	m := &measurer{cfg: cfg}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	orders := make(chan Order)
	go func() {
		for {
			o, err := frame.Read[Order](in, kindOrder, mostOrder)
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
			if err := frame.Write(out, kindAnswer, m.Do(ctx, o)); err != nil {
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

// measurer is a [Worker] in the process that it runs in.
type measurer struct {
	cfg      MeasureConfig
	device   verbs.Device
	exchange *bench.Exchange
	flows    int // prepared
}

// Do implements [Worker].
func (m *measurer) Do(ctx context.Context, o Order) (r Rail) {
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
	var errs []error
	if m.exchange != nil {
		errs = append(errs, m.exchange.Close())
	}
	if m.device != nil {
		errs = append(errs, m.device.Close())
	}
	m.exchange, m.device = nil, nil
	return errors.Join(errs...)
}

func (m *measurer) open(o OpenOrder, r *Rail) error {
	r.Device = o.Device
	if err := m.Close(); err != nil {
		return err
	}
	local, err := netip.ParseAddr(o.Address)
	if err != nil {
		return err
	}
	if m.device, local, err = m.cfg.Open(r.Device, local); err != nil {
		return err
	}
	options := m.cfg.Options
	options.Local = local
	options.Policy = plan.Policy{Bytes: mostFlowBytes, QueuePairs: mostQueuePairs, Operations: Operations()}
	if m.exchange, err = bench.OpenExchange(m.device, o.Plan, options); err != nil {
		return err
	}
	info := m.device.Info()
	r.Device, r.Software, r.MTU = info.Name, info.Software, m.exchange.Port().ActiveMTU
	return nil
}

// prepare makes a round's flows and returns the addresses of each.
func (m *measurer) prepare(p PrepareOrder) ([][]control.Address, error) {
	if m.exchange == nil {
		return nil, errors.New("no device is open")
	}
	if err := m.exchange.Close(); err != nil {
		return nil, err
	}
	m.flows = 0
	if most := mostQueuePairs; len(p.Flows)*m.exchange.QPs() > most {
		return nil, fmt.Errorf("%d flows of %d queue pairs each; the limit is %d queue pairs", len(p.Flows), m.exchange.QPs(), most)
	}
	rail := make([][]control.Address, 0, len(p.Flows))
	for _, f := range p.Flows {
		role := plan.Target
		if f.Initiates {
			role = plan.Initiator
		}
		a, err := m.exchange.Add(role, p.MTU, f.FlowLabel)
		if err != nil {
			return nil, err
		}
		rail = append(rail, a)
	}
	m.flows = len(rail)
	return rail, nil
}

// run runs them.
func (m *measurer) run(ctx context.Context, g GoOrder) ([]Flow, error) {
	began := time.Now()
	if !g.bounded() {
		return nil, fmt.Errorf("a round of %v that begins in %v: neither is one", g.Lead+g.Measure+g.Tail, g.In)
	}
	if m.exchange == nil || len(g.Addresses) != m.flows {
		return nil, errors.New("other flows are to run than were prepared")
	}
	for k, peer := range g.Addresses {
		if err := m.exchange.Connect(k, peer); err != nil { // none, where its other end is gone
			return nil, err
		}
	}
	select {
	case <-time.After(g.In - time.Since(began)):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	moved, err := m.exchange.Run(ctx, bench.Span{Lead: g.Lead, Measure: g.Measure, Tail: g.Tail})
	if err != nil {
		return nil, err
	}
	flows := make([]Flow, m.flows)
	for k, v := range moved {
		f := &flows[k]
		f.Bits, f.Unmeasured = v.BitsPerS, v.Unmeasured
		copy(f.Quantiles[:], v.LatencyNs)
		if v.Err != nil {
			f.Error, f.Corrupt = control.Bounded(v.Err.Error()), errors.Is(v.Err, payload.ErrCorrupt)
		}
	}
	return flows, nil
}
