package search

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/plan"
	engine "github.com/gobw/gobw/internal/search"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
)

// meter measures points over one session. After a test that failed it connects anew.
type meter struct {
	config measure.Config
	out    output.Streams
	base   plan.Spec
	by     string
	dims   []engine.Dimension

	session *measure.Measurer
	limits  plan.Limits
	client  report.Environment // of the latest test
	label   string
	refused map[string]bool // failures that only say that the device or the server does not do it
}

// returns is how long a peer may take to come back after a test that failed.
const returns = 10 * time.Second

// testLimit is how long one test of a point may take in all: one that hangs is a finding, too.
const testLimit = 30 * time.Second

// open connects, if there is no session.
func (m *meter) open(ctx context.Context) error {
	if m.session != nil {
		return nil
	}
	var err error
	if m.session, err = measure.Open(ctx, m.out, m.config); err != nil {
		m.session = nil
		return err
	}
	m.config.Peer.Wait, m.config.Quiet = max(m.config.Peer.Wait, returns), true // of the next time
	m.limits = plan.Limits{
		Device: m.session.Device.Info(), Port: m.session.Port, PageBytes: os.Getpagesize(), LineBytes: machine.CacheLine(), Dialled: true,
	}
	m.label = bench.Label(m.limits.Device)
	if cpus, err := machine.AllowedCPUs(); err == nil {
		m.limits.CPUs = len(cpus)
	}
	return nil
}

func (m *meter) close() error {
	if m.session == nil {
		return nil
	}
	err := m.session.Close()
	m.session = nil
	return err
}

// Measure implements [engine.Meter].
func (m *meter) Measure(ctx context.Context, p engine.Point) (engine.Figures, error) {
	if err := m.open(ctx); err != nil {
		return engine.Figures{}, exit.PeerLostError{Err: fmt.Errorf("after a test that failed the other end does not come back: %w", err)}
	}
	spec := apply(m.dims, p, m.base)
	if _, err := plan.Settle(spec, m.limits, plan.Peer{}, plan.Policy{}); err != nil { // the session need not end for it
		m.refused[err.Error()] = true
		return engine.Figures{}, &engine.PointError{Err: err}
	}
	limited, cancel := context.WithTimeoutCause(ctx, testLimit, fmt.Errorf("the test did not end within %v", testLimit))
	defer cancel()
	res, err := m.session.Run(limited, spec, bench.Options{})
	if err == nil && len(res.Records) > 0 {
		m.client = res.Client
		return m.figures(&res.Records[0]), nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return engine.Figures{}, errors.Join(cause, m.close())
	}
	if cause := context.Cause(limited); cause != nil {
		err = cause
	}
	_ = m.close() // what ended the test is told
	return engine.Figures{}, &engine.PointError{Err: err}
}

// figures of a record. More is better.
func (m *meter) figures(r *report.Record) engine.Figures {
	f := engine.Figures{Counters: map[string]float64{}}
	messages := max(float64(r.Messages), 1)
	switch m.by {
	case byLatency:
		if r.Latency != nil && r.Latency.P50Ns > 0 {
			f.Value = 1 / r.Latency.P50Ns
		}
	case byCPU:
		if ns := cpuNs(r.CPU) + cpuNs(r.PeerCPU); ns > 0 {
			f.Value = 1e9 / ns
		}
	default:
		f.Value = r.MessagesPerS
	}
	for _, name := range []string{"retransmits", "out_of_sequence", "rnr_naks", "timeouts", "cnps", "ecn_marked", "discards", "out_of_buffer", "icrc_errors"} {
		if n, has := figure.CounterOf(figure.Any, name).Get(r); has {
			f.Counters[name] = n / messages
		}
	}
	return f
}

// cpuNs is what an end's processor spent on a message.
func cpuNs(c *report.CPU) float64 {
	if c == nil {
		return 0
	}
	return c.PackNsPerMessage + c.UnpackNsPerMessage + c.PostNsPerMessage + c.PollNsPerMessage
}
