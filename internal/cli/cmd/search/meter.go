package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/bench/endpoint"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/plan"
	engine "github.com/gobw/gobw/internal/search"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/plain"
)

// meter measures points over one session. After a test that failed it connects anew.
type meter struct {
	*tests
	config *config
	out    output.Streams
	failed bool // a test has: the session is not the first

	session *measure.Measurer
	limits  plan.Limits
}

// reconnectWithin is how long a peer may take to come back after a test that failed.
const reconnectWithin = 10 * time.Second

// limit is how long one test may take in all. A test that hangs is a finding.
func (c *config) limit() time.Duration { return 4*c.Test.Peer.Timeout + 2*c.Test.Plan.Duration }

// open connects, if there is no session.
func (m *meter) open(ctx context.Context) error {
	if m.session != nil {
		return nil
	}
	c := m.config.Test.Config
	c.Command, c.Output.Quiet = m.config.Args, m.config.Output.Quiet
	if m.failed {
		c.Peer.Wait, c.Output.Quiet = max(c.Peer.Wait, reconnectWithin), true
	}
	var err error
	if m.session, err = measure.Open(ctx, m.out, c); err != nil {
		m.session = nil
		return err
	}
	m.limits = endpoint.Limits(m.session.Device.Info(), m.session.Port, true)
	return nil
}

func (m *meter) close() error {
	if m.session == nil {
		return nil
	}
	session := m.session
	m.session = nil
	return session.Close()
}

// measure runs a point's test.
func (m *meter) measure(ctx context.Context, p engine.Point) (f engine.Figures, err error) {
	if err := m.open(ctx); err != nil {
		return f, cmp.Or(context.Cause(ctx),
			exit.With(exit.PeerLost, fmt.Errorf("after a failed test the other end does not answer: %w", err)))
	}
	limited, cancel := context.WithTimeoutCause(ctx, m.config.limit(),
		fmt.Errorf("the test did not end within %v", m.config.limit()))
	defer cancel()
	res, err := m.session.Run(limited, m.spec(p), bench.Options{})
	if err == nil && len(res.Records) > 0 {
		return m.figures(&res.Records[0]), nil
	}
	m.failed = true
	if cause := context.Cause(ctx); cause != nil {
		return f, errors.Join(cause, m.close())
	}
	_ = m.close() // what ended the test is told
	return f, &engine.PointError{Err: cmp.Or(context.Cause(limited), err, errors.New("the test has no record"))}
}

// learn measures the rate of the point where a search by rate starts. If that fails the search will see it, too.
func (m *meter) learn(ctx context.Context) {
	if m.config.Test.Plan.Kind == plan.Latency {
		return
	}
	space := m.space()
	p := space.Base()
	if f, err := m.measure(ctx, p); err == nil {
		spec := m.spec(p)
		m.rate = f.Value * spec.MeanBytes(spec.Sizes[0])
	}
}

// value is what a search compares; more is better.
func value(r *report.Record) float64 {
	switch {
	case r.Kind != string(plan.Latency):
		return peak(r)
	case r.Latency == nil:
		return 0
	}
	return 1 / r.Latency.P50Ns
}

// inWords is such a value for a person.
func inWords(kind plan.Kind, value float64) string {
	if kind == plan.Latency {
		return fmt.Sprintf("p50 %.2f us", 1/value/1e3)
	}
	return plain.Number(value) + " messages a second at its peak"
}

// peak is the rate of a test's fastest part. Other work on a machine slows parts of a test, and leaves its peak nearly
// as it is (results/search-noise.txt). A test of several threads or of datagrams has none: there the whole test counts.
func peak(r *report.Record) float64 {
	if r.Bandwidth.PeakBitsPerS == 0 {
		return r.MessagesPerS
	}
	return r.Bandwidth.PeakBitsPerS / 8 / float64(r.Bytes) * float64(r.Messages)
}

// figures of a record.
func (m *meter) figures(r *report.Record) engine.Figures {
	f := engine.Figures{Value: value(r), Counters: map[string]float64{}}
	for _, name := range []string{
		"retransmits", "out_of_sequence", "rnr_naks", "timeouts", "cnps", "ecn_marked", "discards", "out_of_buffer",
		"icrc_errors",
	} {
		if n, missing := figure.CounterOf(figure.Any, name).Get(r); missing == "" {
			f.Counters[name] = n / max(float64(r.Messages), 1)
		}
	}
	return f
}

// command is the command line that runs a point's test; of no point the test with the settings of --fix.
func (m *meter) command(p engine.Point) string {
	words, spec := slices.Clone(m.config.Words), m.spec(p)
	words[1] = string(spec.Operation)
	size := func(word string) bool { return strings.HasPrefix(word, "-s") || strings.HasPrefix(word, "--size") }
	if at := slices.IndexFunc(words, size); at > 0 && len(spec.Mix) > 0 { // a mix names the sizes
		last := at + 1
		if words[at] == "-s" || words[at] == "--size" {
			last++
		}
		words = slices.Delete(words, at, last)
	}
	line, sized := plain.JoinWords(words), m.config.Question == anomalies && p != nil
	m.typed(p, func(s *setting, v int) {
		sized = sized || s.Name == "size"
		off := s.Words != nil && s.Words[v] == "no"
		if s.Name != "size" && s.flagName() != "mix" && !off && has(m.config.Tool, spec.Operation, s.flagName()) {
			line += " " + s.flag(v)
		}
	})
	if sized && spec.Operation != plan.Atomic && len(spec.Mix) == 0 &&
		!slices.Equal(spec.Sizes, m.config.Test.Plan.Sizes) {
		line += " -s " + strconv.Itoa(spec.Sizes[0])
	}
	if len(spec.Mix) > 0 && len(m.config.Test.Plan.Mix) == 0 {
		line += " --mix " + spec.Mix.String()
	}
	return line
}
