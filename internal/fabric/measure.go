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

// Measure opens a device and runs rounds as it is told, until its input ends.
func Measure(ctx context.Context, cfg MeasureConfig, in io.Reader, out io.Writer) error {
	m := &measurer{cfg: cfg}
	err := m.serve(ctx, in, out)
	return errors.Join(err, m.close())
}

type measurer struct {
	cfg      MeasureConfig
	device   verbs.Device
	exchange *bench.Exchange
	flows    int // prepared
}

func (m *measurer) serve(ctx context.Context, in io.Reader, out io.Writer) error {
	for {
		q, err := frame.Read(in, mostOrder)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		kind, answer, err := m.answer(ctx, q)
		if err != nil {
			return err
		}
		a, err := frame.Of(kind, answer)
		if err == nil {
			err = frame.Write(out, a)
		}
		if err != nil {
			return err
		}
	}
}

func (m *measurer) answer(ctx context.Context, q frame.Message) (kind string, answer any, err error) {
	switch q.Kind {
	case kindOpen:
		o, err := frame.Decode[OpenOrder](q)
		return kindFacts, Facts{Rails: []Rail{m.open(o)}}, err
	case kindPrepare:
		p, err := frame.Decode[PrepareOrder](q)
		return kindPrepared, m.prepare(p), err
	case kindGo:
		g, err := frame.Decode[GoOrder](q)
		return kindResult, m.run(ctx, g), err
	}
	return "", nil, fmt.Errorf("an order %.20q that nobody knows", q.Kind)
}

func (m *measurer) close() error {
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

func (m *measurer) open(o OpenOrder) Rail {
	if len(o.Rails) != 1 {
		return Rail{Error: "one device is opened, and no other number of them"}
	}
	r := Rail{Device: o.Rails[0]}
	fail := func(err error) Rail {
		_ = m.close()
		r.Error, r.Remedy = err.Error(), verbs.RemedyOf(err)
		return r
	}
	if err := m.close(); err != nil {
		return fail(err)
	}
	local, err := netip.ParseAddr(o.Address)
	if err != nil {
		return fail(err)
	}
	if m.device, local, err = m.cfg.Open(o.Rails[0], local); err != nil {
		return fail(err)
	}
	options := m.cfg.Options
	options.Local = local
	options.Policy = plan.Policy{Bytes: mostFlowBytes, QueuePairs: mostQueuePairs, Operations: Operations()}
	if m.exchange, err = bench.OpenExchange(m.device, o.Plan, options); err != nil {
		return fail(err)
	}
	info := m.device.Info()
	r.Device, r.Software, r.MTU = info.Name, info.Software, m.exchange.Port().ActiveMTU
	return r
}

func (m *measurer) prepare(p PrepareOrder) Prepared {
	out := Prepared{Round: p.Round}
	if m.exchange == nil {
		out.Error = "no device is open"
		return out
	}
	if err := m.exchange.Close(); err != nil {
		out.Error = err.Error()
		return out
	}
	m.flows = 0
	if most := mostQueuePairs; len(p.Flows)*m.exchange.QPs() > most {
		out.Error = fmt.Sprintf("%d flows of %d queue pairs each; this end grants %d queue pairs", len(p.Flows), m.exchange.QPs(), most)
		return out
	}
	rail := make([][]control.Address, 0, len(p.Flows))
	for _, f := range p.Flows {
		role := plan.Target
		if f.Initiates {
			role = plan.Initiator
		}
		a, err := m.exchange.Add(role, p.MTU, f.FlowLabel)
		if err != nil {
			out.Error = err.Error()
			return out
		}
		rail = append(rail, a)
	}
	m.flows = len(rail)
	out.Addresses = [][][]control.Address{rail}
	return out
}

func (m *measurer) run(ctx context.Context, g GoOrder) Result {
	out := Result{Round: g.Round}
	began := time.Now()
	if !g.bounded() {
		out.Error = fmt.Sprintf("a round of %v that begins in %v: neither is one", g.Lead+g.Measure+g.Tail, g.In)
		return out
	}
	if m.exchange == nil || len(g.Addresses) != 1 || len(g.Addresses[0]) != m.flows {
		out.Error = "other flows are to run than were prepared"
		return out
	}
	flows := make([]Flow, len(g.Addresses[0]))
	for k, peer := range g.Addresses[0] {
		if len(peer) == 0 { // its other end is gone
			if err := m.exchange.Drop(k); err != nil {
				out.Error = err.Error()
				return out
			}
			continue
		}
		if err := m.exchange.Connect(k, peer); err != nil {
			out.Error = err.Error()
			return out
		}
	}
	select {
	case <-time.After(g.In - time.Since(began)):
	case <-ctx.Done():
		out.Error = context.Cause(ctx).Error()
		return out
	}
	moved, err := m.exchange.Run(ctx, bench.Span{Lead: g.Lead, Measure: g.Measure, Tail: g.Tail})
	if err != nil {
		out.Error = err.Error()
		return out
	}
	for k, v := range moved {
		f := &flows[k]
		f.Bits, f.Unmeasured = v.BitsPerS, v.Unmeasured
		for i, share := range []float64{0.05, 0.25, 0.50, 0.75, 0.95} {
			if n := len(v.LatencyNs); n > 0 {
				f.Quantiles[i] = v.LatencyNs[min(int(share*float64(n)), n-1)]
			}
		}
		if v.Err != nil {
			f.Error, f.Corrupt = control.Bounded(v.Err.Error()), errors.Is(v.Err, payload.ErrCorrupt)
		}
	}
	out.Rails = [][]Flow{flows}
	return out
}
