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

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/bench/endpoint"
	"github.com/gobw/gobw/internal/cli/cmd/ab"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/perftest/flags"
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

	runs      int // which neighbour runs; 0: none
	neighbour *ab.Running
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
	err := m.stopNeighbour()
	if m.session != nil {
		err = errors.Join(m.session.Close(), err)
		m.session = nil
	}
	return err
}

// keepBeside has the neighbour of a point run, and no other.
func (m *meter) keepBeside(ctx context.Context, p engine.Point) error {
	n := m.beside(p)
	if n == m.runs {
		return nil
	}
	err := m.stopNeighbour()
	if err == nil && n > 0 {
		if m.neighbour, err = m.config.neighbours[n-1].Start(ctx); err == nil {
			m.runs = n
		}
	}
	return err
}

func (m *meter) stopNeighbour() error {
	if m.runs == 0 {
		return nil
	}
	m.runs = 0
	return m.neighbour.Stop()
}

// measure runs a point's test.
func (m *meter) measure(ctx context.Context, p engine.Point) (f engine.Figures, err error) {
	if err := m.open(ctx); err != nil {
		return f, cmp.Or(context.Cause(ctx),
			exit.With(exit.PeerLost, fmt.Errorf("after a failed test the other end does not answer: %w", err)))
	}
	if err := m.keepBeside(ctx, p); err != nil {
		return f, cmp.Or(context.Cause(ctx), error(&engine.PointError{Err: err}))
	}
	limited, cancel := context.WithTimeoutCause(ctx, m.config.limit(),
		fmt.Errorf("the test did not end within %v", m.config.limit()))
	defer cancel()
	res, err := m.session.Run(limited, m.spec(p), bench.Options{})
	if err == nil && len(res.Records) > 0 {
		if m.runs > 0 && m.neighbour.Ended() != nil {
			return f, &engine.PointError{Err: m.stopNeighbour()}
		}
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
	if m.config.By != byRate {
		return
	}
	space := m.space()
	p := space.Base()
	if f, err := m.measure(ctx, p); err == nil {
		spec := m.spec(p)
		m.rate = f.Value * spec.MeanBytes(spec.Sizes[0])
	}
}

// goal is what is better. Of its values, more is.
type goal struct {
	value func(r *report.Record) float64
	text  func(value float64) string
}

// goals are what 'best' goes by.
func goals() map[string]goal {
	return map[string]goal{
		byRate: {
			peak,
			func(v float64) string { return plain.Number(v) + " messages a second at its peak" },
		},
		byLatency: {
			func(r *report.Record) float64 {
				if r.Latency == nil {
					return 0
				}
				return 1 / r.Latency.P50Ns
			},
			func(v float64) string { return fmt.Sprintf("p50 %.2f us", 1/v/1e3) },
		},
		byCPU: {
			func(r *report.Record) float64 {
				ns := 0.0
				for _, c := range []*report.CPU{r.CPU, r.PeerCPU} {
					if c != nil {
						ns += c.PackNsPerMessage + c.UnpackNsPerMessage + c.PostNsPerMessage + c.PollNsPerMessage
					}
				}
				if ns == 0 { // nobody counted: no message came
					return 0
				}
				return 1e9 / ns
			},
			func(v float64) string { return fmt.Sprintf("%.0f ns of CPU time a message", 1e9/v) },
		},
	}
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
	f := engine.Figures{Value: goals()[m.config.By].value(r), Counters: map[string]float64{}}
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
			line += " " + s.flag(s.name(), v)
		}
	})
	if sized && spec.Operation != plan.Atomic && len(spec.Mix) == 0 &&
		!slices.Equal(spec.Sizes, m.config.Test.Plan.Sizes) {
		line += " -s " + strconv.Itoa(spec.Sizes[0])
	}
	if len(spec.Mix) > 0 && len(m.config.Test.Plan.Mix) == 0 {
		line += " --mix " + spec.Mix.String()
	}
	if n := m.beside(p); n > 0 {
		line = plain.JoinWords([]string{m.config.Tool, "ab", line, "--beside", m.config.Beside[n-1]})
	}
	return line
}

// others are flags of the test that change what is measured, and are no settings.
func (m *meter) others() (all []*pflag.Flag) {
	known := append(plain.Each(settings(), func(s setting) string { return s.flagName() }),
		"device", "port", "source", "wait", "peer-timeout", "token-file", "cpu", "loopback")
	m.config.typed.Visit(func(f *pflag.Flag) {
		if !slices.Contains(known, f.Name) {
			all = append(all, f)
		}
	})
	return all
}

// perftest is the command of stock perftest that runs a point's test; empty where it cannot.
func (m *meter) perftest(p engine.Point) string {
	spec := m.spec(p)
	tool := slices.IndexFunc(flags.Tools(),
		func(t flags.Tool) bool { return t.Operation == spec.Operation && t.Kind == spec.Kind })
	if tool < 0 || spec.Threads > 1 || spec.Rails > 1 || spec.PostAPI != 0 || len(spec.Mix) > 0 || m.beside(p) > 0 ||
		m.limits.Device.Software {
		return ""
	}
	words := []string{flags.Tools()[tool].Name, "-F"}
	if name := m.config.Test.Device.Name; name != "" {
		words = append(words, "-d", name)
	}
	for _, f := range m.others() {
		switch value := f.Value.String(); {
		case value == "false":
		case f.Shorthand == "":
			return ""
		case value == "true":
			words = append(words, "-"+f.Shorthand)
		default:
			words = append(words, "-"+f.Shorthand, value)
		}
	}
	for _, s := range settings() {
		v := s.get(&spec)
		given := v > 0 && (s.Name != "size" || spec.Operation != plan.Atomic)
		if s.Name == "inline" {
			given = v >= 0 && has(m.config.Tool, spec.Operation, "inline")
		}
		if s.perftest != "" && given {
			words = append(words, s.flag(s.perftest, v))
		}
	}
	line := strings.Join(append(words, "-D 3"), " ")
	if _, err := flags.ParseLine(line); err != nil { // perftest refuses it, as -e of a WRITE
		return ""
	}
	return line + " " + cmp.Or(m.config.Test.Peer.Host, "HOST")
}
