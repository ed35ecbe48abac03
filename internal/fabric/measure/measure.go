// Package measure is the process that measures for an agent: it opens one device and runs rounds as it is told on its
// standard input.
package measure

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
	"github.com/gobw/gobw/internal/fabric/wire"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// Config is one measuring process.
type Config struct {
	// Open opens a device by name, empty for the agent's choice, at the address that others know this host by, and returns the
	// device's own: rails may have others.
	Open func(name string, local netip.Addr) (verbs.Device, netip.Addr, error)
	// Options of the exchange; Local is filled in.
	Options bench.ExchangeOptions
}

// Serve answers until its input ends.
func Serve(ctx context.Context, cfg Config, in io.Reader, out io.Writer) error {
	m := &measurer{cfg: cfg}
	err := m.serve(ctx, in, out)
	return errors.Join(err, m.close())
}

type measurer struct {
	cfg      Config
	device   verbs.Device
	exchange *bench.Exchange
}

func (m *measurer) serve(ctx context.Context, in io.Reader, out io.Writer) error {
	for {
		q, err := wire.Read(in, wire.FromCoordinator)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var a *wire.Message
		switch q.Kind {
		case wire.KindOpen:
			a = &wire.Message{Kind: wire.KindFacts, Facts: &wire.Facts{Rails: []wire.Rail{m.open(*q.Open)}}}
		case wire.KindPrepare:
			a = &wire.Message{Kind: wire.KindPrepared, Prepared: m.prepare(*q.Prepare)}
		case wire.KindGo:
			a = &wire.Message{Kind: wire.KindResult, Result: m.run(ctx, *q.Go)}
		default:
			return fmt.Errorf("%w: %s", wire.ErrFormat, q.Kind)
		}
		if err := wire.Write(out, a); err != nil {
			return err
		}
	}
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

func (m *measurer) open(o wire.Open) wire.Rail {
	r := wire.Rail{Device: o.Rails[0]}
	fail := func(err error) wire.Rail {
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
	if m.exchange, err = bench.OpenExchange(m.device, o.Plan, options); err != nil {
		return fail(err)
	}
	info, port := m.device.Info(), m.exchange.Port()
	r.Device, r.Software, r.Label = info.Name, info.Software, info.Label
	r.Link, r.Rate, r.Bits, r.MTU = port.LinkLayer.String(), port.Rate, port.RateBitsPerS, port.ActiveMTU
	if g, uses := m.exchange.GID(); uses {
		r.GID = g.GID.String()
	}
	return r
}

func (m *measurer) prepare(p wire.Prepare) *wire.Prepared {
	out := &wire.Prepared{Round: p.Round}
	if m.exchange == nil {
		out.Error = "no device is open"
		return out
	}
	if err := m.exchange.Close(); err != nil {
		out.Error = err.Error()
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
	out.Addresses = [][][]control.Address{rail}
	return out
}

func (m *measurer) run(ctx context.Context, g wire.Go) *wire.Result {
	out := &wire.Result{Round: g.Round}
	began := time.Now()
	if m.exchange == nil || len(g.Addresses) != 1 {
		out.Error = "no round is prepared"
		return out
	}
	flows := make([]wire.Flow, len(g.Addresses[0]))
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
	time.Sleep(g.In - time.Since(began))
	moved, err := m.exchange.Run(ctx, bench.Span{Lead: g.Lead, Measure: g.Measure, Tail: g.Tail})
	if err != nil {
		out.Error = err.Error()
		return out
	}
	for k, v := range moved {
		f := &flows[k]
		f.Bits, f.Samples, f.Unmeasured = v.BitsPerS, len(v.LatencyNs), v.Unmeasured
		for i, share := range []float64{0.05, 0.25, 0.50, 0.75, 0.95} {
			if n := len(v.LatencyNs); n > 0 {
				f.Quantiles[i] = v.LatencyNs[min(int(share*float64(n)), n-1)]
			}
		}
		if v.Err != nil {
			f.Error, f.Corrupt = v.Err.Error(), errors.Is(v.Err, payload.ErrCorrupt)
		}
	}
	out.Rails = [][]wire.Flow{flows}
	return out
}
