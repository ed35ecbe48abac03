package ab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/bench/drive"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/render"
	"github.com/gobw/gobw/report/stats"
)

// What judges, or stands beside a NIC's perftest, does not take the software device for a NIC.
func TestJudgingIsStrictAboutTheDevice(t *testing.T) {
	for _, tt := range []struct {
		args   []string
		strict bool
	}{
		{[]string{"write alpha", "write alpha -q 4"}, false},
		{[]string{"write alpha", "write alpha -q 4", "--expect", "worse<5%"}, true},
		{[]string{"perftest:ib_write_bw alpha", "write alpha"}, true},
	} {
		f := flags{typed: config{Confidence: stats.DefaultConfidence, Pairs: 1}}
		fs := pflag.NewFlagSet("ab", pflag.ContinueOnError)
		f.gate.Bind(fs, "worse")
		f.output.Bind(fs, render.ComparisonFormats())
		if err := fs.Parse(tt.args); err != nil {
			t.Fatal(err)
		}
		if c, err := f.config("gobw", fs.Args()); err != nil || slices.Contains(c.B.words, "--expect") != tt.strict {
			t.Errorf("%v: %q, %v; want strict: %v", tt.args, c.B.words, err, tt.strict)
		}
	}
}

func TestParseSide(t *testing.T) {
	for line, want := range map[string]side{
		"write host -q 4":          {words: []string{"gobw", "write", "host", "-q", "4"}},
		"golat send host":          {words: []string{"golat", "send", "host"}, latency: true},
		"gobw atomic --loopback=1": {words: []string{"gobw", "atomic", "--loopback=1"}},
		"perftest:/opt/ib_read_lat h": {
			program: "/opt/ib_read_lat", words: []string{"/opt/ib_read_lat", "h"}, latency: true, stock: true,
		},
		"perftest:ib_write_bw h -s 4K": {
			program: "ib_write_bw", words: []string{"ib_write_bw", "h", "-s", "4K"}, stock: true,
		},
		"/opt/old/gobw write host -q 4": {program: "/opt/old/gobw", words: []string{"gobw", "write", "host", "-q", "4"}},
		"./golat send --from-the-future": {
			program: "./golat", words: []string{"golat", "send", "--from-the-future"}, latency: true,
		},
	} {
		got, err := parseSide("gobw", line)
		if err != nil || got.program != want.program || got.latency != want.latency || got.stock != want.stock ||
			!slices.Equal(got.words, want.words) {
			t.Errorf("%q: %+v, %v; want %+v", line, got, err, want)
		}
	}
	for _, line := range []string{
		"", "gobw", "qualify nic", "perftest:", "write host --save x", "write host --format=json", "./gobw write --save=x",
		"write host --szie 4", "rm -rf x",
	} {
		if s, err := parseSide("gobw", line); err == nil {
			t.Errorf("%q: accepted as %+v", line, s)
		}
	}
}

func TestConfigNamesAllMistakes(t *testing.T) {
	refused := func(args ...string) error {
		cmd := NewCommand("gobw", output.Streams{Out: io.Discard, Err: io.Discard})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(args)
		return cmd.Execute()
	}
	err := refused("serve", "write host", "--pairs", "-1", "--figure", "qps",
		"--expect", "worst", "--accept", "all", "--confidence", "2", "--format", "xml")
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"A: ", "--pairs", "--figure", "--expect", "--accept", "--confidence", "--format"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %s in:\n%v", want, err)
		}
	}
	if err := refused("write host", "golat write host"); err == nil ||
		!strings.Contains(err.Error(), "no figure to compare") {
		t.Errorf("bandwidth was compared with latency: %v", err)
	}
}

const bandwidthText = ` #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      5000             1000.00            500.00		   0.008000
---------------------------------------------------------------------------------------
`

const latencyText = ` #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] 
 2       1000          1.50           9.00         2.00     	       2.10        	0.10   		3.00    		8.00   
`

func TestPerftestFigure(t *testing.T) {
	for _, tt := range []struct {
		text    string
		latency bool
		gbits   bool
		figure  string
		want    float64
	}{
		{bandwidthText, false, false, "bw", 500 * 8 * (1 << 20)},
		{bandwidthText, false, true, "bw", 500e9},
		{bandwidthText, false, false, "msgrate", 8000},
		{latencyText, true, false, "p50", 2e-6},
		{latencyText, true, false, "mean", 2.1e-6},
		{latencyText, true, false, "p99", 3e-6},
	} {
		got, err := perftestFigure(tt.text, tt.latency, tt.gbits, tt.figure)
		if err != nil || math.Abs(got/tt.want-1) > 1e-12 {
			t.Errorf("%s: %v, %v; want %v", tt.figure, got, err, tt.want)
		}
	}
	for _, text := range []string{
		"", bandwidthText + bandwidthText, " 65536 5000 1.0 inf-ish x\n", " 1 2 3 0.00 5\n", " 1 2 3 nan 5\n",
	} {
		if v, err := perftestFigure(text, false, false, "bw"); err == nil {
			t.Errorf("%q: %v, want an error", text, v)
		}
	}
	if _, err := perftestFigure(bandwidthText, false, false, "p99.9"); err == nil {
		t.Error("perftest prints no p99.9 of bandwidth")
	}
}

// TestComparison judges rounds as they come from a machine that drifts: planted, not planted, and with a control that
// differs.
func TestComparison(t *testing.T) {
	bw, _ := figure.Named("bw")
	c := config{Figure: bw, Pairs: 21, Confidence: 0.95, A: side{line: "a"}, B: side{line: "b"}}
	rounds := func(b, again float64) measurement {
		var m measurement
		for i := range 21 {
			speed := 1e9 * math.Exp(0.5*math.Sin(float64(i)))
			wobble := func(k int) float64 { return 1 + 0.01*math.Sin(float64(7*i+3*k)) }
			m.add([arms]outcome{
				armA: {value: speed * wobble(1)}, armB: {value: b * speed * wobble(2)},
				armAgain: {value: again * speed * wobble(3)},
			})
		}
		return m
	}
	for _, tt := range []struct {
		name     string
		b, again float64
		want     stats.Word
		cause    stats.Cause
	}{
		{"slower by a tenth", 0.9, 1, stats.Worse, ""},
		{"faster by a tenth", 1.1, 1, stats.Better, ""},
		{"equal", 1, 1, stats.Same, ""},
		{"the control differs", 0.9, 0.8, stats.CannotTell, stats.Disturbed},
	} {
		m := rounds(tt.b, tt.again)
		if got := m.comparison(c).Points[0].Verdict; got.Word != tt.want || got.Cause != tt.cause {
			t.Errorf("%s: %s, want %s %s", tt.name, got.InWords(), tt.want, tt.cause)
		}
	}
}

// A figure of zero has no ratio: nothing can be told, and the result can be written as JSON.
func TestZeroFigure(t *testing.T) {
	bw, _ := figure.Named("bw")
	c := config{Figure: bw, Pairs: 8, Confidence: 0.95, Output: output.Config{Quiet: true}}
	m, err := rounds(output.Streams{}, c, func(measurement) {},
		func(arm int) (outcome, error) { return outcome{value: float64(arm % 2)}, nil })
	if err != nil {
		t.Fatal(err)
	}
	whole := m.comparison(c)
	if err := render.Comparison(io.Discard, "json", whole); err != nil {
		t.Error(err)
	}
	if p := whole.Points[0]; p.Word != stats.CannotTell || p.Cause != stats.NotFinite {
		t.Errorf("%+v", p.Verdict)
	}
}

// TestFewerPairs: what was measured is judged, and the hint names what gives the pairs that are missing.
func TestFewerPairs(t *testing.T) {
	missing := exit.With(exit.Usage,
		fmt.Errorf("%q: %w", "send alpha", &figure.MissingError{Figure: "p50", Reason: "no time samples"}))
	for _, tt := range []struct {
		name        string
		pairs, fail int // the first round that fails
		last        int // the last one
		err         error
		count       int // pairs that stand
		ended       error
		label, hint string
	}{
		{
			"a test failed", 6, 3, 6, exit.With(exit.Setup, errors.New("no device")), 3,
			exit.Error{Code: exit.Setup},
			"3 of 6 pairs (a test failed)", "try again: a test failed",
		},
		{
			"interrupted", 6, 3, 6,
			exit.SignalError{Signal: syscall.SIGINT},
			3, context.Canceled, "3 of 6 pairs (interrupted)",
			"try again: interrupted",
		},
		{
			"one without samples", 6, 2, 2, missing, 5, nil, "5 of 6 pairs (no p50 here: no time samples)",
			"try longer tests: raise -n or -D",
		},
		{
			"three of twenty without samples", 20, 2, 4, missing, 17, nil, "17 of 20 pairs (no p50 here: no time samples)",
			"3 of 20 pairs are left out, and may be those of the slow tests: no p50 here: no time samples; try longer tests: " +
				"raise -n or -D",
		},
		{
			"two of twenty without samples", 20, 2, 3, missing, 18, nil, "18 of 20 pairs (no p50 here: no time samples)",
			"same: +0.0 %, between +0.0 % and +0.0 % (95.2 % interval)",
		},
		{"none with samples", 6, 0, 6, missing, 0, missing, "", ""},
	} {
		c := config{Figure: figure.Of("p50"), Pairs: tt.pairs, Confidence: 0.95}
		var said strings.Builder
		runs := 0
		m, err := rounds(output.Streams{Err: &said}, c, func(measurement) {}, func(int) (outcome, error) {
			if round := runs / arms; round >= tt.fail && round <= tt.last {
				runs = (round + 1) * arms
				return outcome{}, tt.err
			}
			runs++
			return outcome{value: 1}, nil
		})
		if !errors.Is(err, tt.ended) || len(m.a) != tt.count {
			t.Errorf("%s: %d pairs, %v", tt.name, len(m.a), err)
		}
		if tt.count == 0 {
			continue
		}
		whole := m.comparison(c)
		if labels, words := strings.Join(whole.Labels, "; "), whole.Points[0].InWords(); !strings.Contains(labels,
			tt.label) || !strings.HasSuffix(words, tt.hint) {
			t.Errorf("%s: %s; %s", tt.name, labels, words)
		}
		if left := strings.Contains(said.String(),
			fmt.Sprintf("pair 3 of %d left out: \"send alpha\": no p50 here", tt.pairs)); left != errors.Is(tt.err, missing) {
			t.Errorf("%s: said %s", tt.name, said.String())
		}
		if unfinished := tt.ended != nil; (len(whole.Incomplete) > 0) != unfinished {
			t.Errorf("%s: incomplete: %q", tt.name, whole.Incomplete)
		}
	}
}

// TestFailedSide hands on what a test that failed said, and its exit code.
func TestFailedSide(t *testing.T) {
	for script, want := range map[string]int{
		"echo no device >&2; exit 3": exit.Setup, "echo no device >&2; kill -9 $$": exit.Failed,
	} {
		_, err := side{
			line: "write host", program: "/bin/sh", words: []string{"sh", "-c", script},
		}.run(t.Context(), figure.Of("bw"))
		if exit.Code(err) != want || !strings.Contains(err.Error(), "no device") {
			t.Errorf("%s: exit code %d of %v", script, exit.Code(err), err)
		}
	}
}

// TestProgressTellsThatItFlows: the line of progress of a test of either kind shows when its messages flow.
func TestProgressTellsThatItFlows(t *testing.T) {
	for _, c := range []struct {
		p     drive.Progress
		flows bool
	}{
		{drive.Progress{Size: 2, BitsPerS: 1e9}, true},
		{drive.Progress{Size: 2, MedianNs: 2000}, true},
		{drive.Progress{Size: 2, MedianNs: 2000, Warmup: true}, false},
		{drive.Progress{Size: 2}, false},
	} {
		said := &progressed{flows: make(chan struct{})}
		output.NewProgress(output.Streams{Err: said, ErrTerminal: true}, false).Show(c.p)
		got := true
		select {
		case <-said.flows:
		default:
			got = false
		}
		if got != c.flows {
			t.Errorf("%q: flows %t, want %t", said.String(), got, c.flows)
		}
	}
}

// TestNeighbourFlows: what runs beside a test has more than begun when that is measured; one that ends is told of.
func TestNeighbourFlows(t *testing.T) {
	flows := filepath.Join(t.TempDir(), "flows")
	shell := func(script string) Neighbour {
		return Neighbour{side{line: script, program: "/bin/sh", words: []string{"sh", "-c", script}}}
	}
	const warming = `printf '\r4 KiB  warming up' >&2; sleep 0.2; `
	running, err := shell(warming + `: >` + flows + `; printf '\r4 KiB  1 Gb/s' >&2; exec sleep 60`).Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(flows); err != nil {
		t.Error("it was taken for running while it warmed up")
	}
	if err := errors.Join(running.Ended(), running.Stop()); err != nil {
		t.Error(err)
	}
	_, err = shell(warming + `printf '\r         \rno route' >&2; exit 3`).Start(t.Context())
	if exit.Code(err) != exit.Setup || !strings.HasSuffix(err.Error(), "before the test beside it: no route") {
		t.Errorf("exit code %d of %v", exit.Code(err), err)
	}
}
