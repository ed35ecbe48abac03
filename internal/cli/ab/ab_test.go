package ab

import (
	"errors"
	"flag"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/testrun"
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
		f := flags{confidence: stats.DefaultConfidence}
		fs := pflag.NewFlagSet("ab", pflag.ContinueOnError)
		f.gate.Bind(fs, "worse")
		f.output.Bind(fs, render.ComparisonFormats())
		if err := fs.Parse(tt.args); err != nil {
			t.Fatal(err)
		}
		if c, err := f.config("gobw", fs.Args()); err != nil || c.B.test.Device.Strict != tt.strict {
			t.Errorf("%v: strict %v, %v; want %v", tt.args, c.B.test.Device.Strict, err, tt.strict)
		}
	}
}

func TestParseSide(t *testing.T) {
	for line, want := range map[string]side{
		"write host -q 4":                {},
		"golat send host":                {latency: true},
		"gobw atomic --loopback=1":       {},
		"perftest:/opt/ib_read_lat h":    {program: "/opt/ib_read_lat", args: []string{"h"}, latency: true, stock: true},
		"perftest:ib_write_bw h -s 4K":   {program: "ib_write_bw", args: []string{"h", "-s", "4K"}, stock: true},
		"/opt/old/gobw write host -q 4":  {program: "/opt/old/gobw", args: []string{"write", "host", "-q", "4"}},
		"./golat send --from-the-future": {program: "./golat", args: []string{"send", "--from-the-future"}, latency: true},
	} {
		got, err := parseSide("gobw", line)
		if err != nil || got.program != want.program || got.latency != want.latency || got.stock != want.stock || !slices.Equal(got.args, want.args) {
			t.Errorf("%q: %+v, %v; want %+v", line, got, err, want)
		}
	}
	for _, line := range []string{"", "gobw", "qualify nic", "perftest:", "write host --save x", "write host --format=json", "./gobw write --save=x", "write host --szie 4", "rm -rf x"} {
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
	err := refused("serve", "write host", "--pairs", "-1", "--figure", "qps", "--width", "200%", "--time", "soon",
		"--expect", "worst", "--accept", "all", "--confidence", "2", "--format", "xml", "--seed", "x")
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"A: ", "--pairs", "--figure", "--width", "--time", "--expect", "--accept", "--confidence", "--format", "--seed"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %s in:\n%v", want, err)
		}
	}
	if err := refused("write host", "golat write host"); err == nil || !strings.Contains(err.Error(), "no figure to compare") {
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
	for _, text := range []string{"", bandwidthText + bandwidthText, " 65536 5000 1.0 inf-ish x\n", " 1 2 3 0.00 5\n", " 1 2 3 nan 5\n"} {
		if v, err := perftestFigure(text, false, false, "bw"); err == nil {
			t.Errorf("%q: %v, want an error", text, v)
		}
	}
	if _, err := perftestFigure(bandwidthText, false, false, "p99.9"); err == nil {
		t.Error("perftest prints no p99.9 of bandwidth")
	}
}

// TestComparison judges rounds as they come from a machine that drifts: planted, not planted, and with a control that differs.
func TestComparison(t *testing.T) {
	bw, _ := figure.Named("bw")
	c := config{Figure: bw, Pairs: 21, Confidence: 0.95, A: side{line: "a"}, B: side{line: "b"}}
	rounds := func(b, again float64) measurement {
		var m measurement
		for i := range 21 {
			speed := 1e9 * math.Exp(0.5*math.Sin(float64(i)))
			wobble := func(k int) float64 { return 1 + 0.01*math.Sin(float64(7*i+3*k)) }
			m.add([arms]outcome{armA: {value: speed * wobble(1)}, armB: {value: b * speed * wobble(2)}, armAgain: {value: again * speed * wobble(3)}})
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
	m, err := rounds(output.Streams{}, c, func(arm int) (outcome, error) { return outcome{value: float64(arm % 2)}, nil })
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

var trials = flag.Int("trials", 150, "of each row of the simulation of --width")

// noises are processes that the logarithm of a figure may follow from run to run, by their names.
func noises() map[string]func(r *rand.Rand) func() float64 {
	return map[string]func(r *rand.Rand) func() float64{
		"normal, 4 %": func(r *rand.Rand) func() float64 { return func() float64 { return 0.04 * r.NormFloat64() } },
		"skewed":      func(r *rand.Rand) func() float64 { return func() float64 { return 0.04 * r.ExpFloat64() } },
		"heavy tail": func(r *rand.Rand) func() float64 { // every seventh run waits for something else
			return func() float64 {
				x := 0.01 * r.NormFloat64()
				if r.Float64() < 0.15 {
					x += 0.3 * r.ExpFloat64()
				}
				return x
			}
		},
		"drift": func(r *rand.Rand) func() float64 {
			at := 0.0
			return func() float64 { at += 0.01 + 0.02*r.NormFloat64(); return at + 0.02*r.NormFloat64() }
		},
		"autocorrelated": func(r *rand.Rand) func() float64 {
			at := 0.0
			return func() float64 {
				at = 0.9*at + 0.04*math.Sqrt(1-0.9*0.9)*r.NormFloat64()
				return at + 0.01*r.NormFloat64()
			}
		},
	}
}

// TestWidthKeepsItsPromise: where the width of the interval ends the measuring, the interval still holds the true change as often
// as it says, and equal sides are called different in at most one of twenty. results/verdicts.txt has more trials.
func TestWidthKeepsItsPromise(t *testing.T) {
	latency, _ := figure.Named("p50")
	made, widths := noises(), []float64{0.06, 0.03}
	if !testrun.Whole() {
		*trials, widths = min(*trials, 50), widths[:1]
	}
	t.Logf("%-15s %5s %6s %8s %7s %6s %7s %6s", "noise", "width", "change", "covered", "alarms", "found", "missed", "pairs")
	for _, width := range widths {
		for _, name := range slices.Sorted(maps.Keys(made)) {
			for _, change := range []float64{0, 0.05, 0.10} {
				c := config{Figure: latency, Pairs: 128, Width: width, Confidence: 0.95, Output: output.Config{Quiet: true}}
				covered, alarms, found, missed, pairs := 0, 0, 0, 0, 0
				for trial := range *trials {
					c.Seed = uint64(trial)
					next := made[name](rand.New(rand.NewPCG(uint64(trial), 5)))
					m, err := rounds(output.Streams{}, c, func(arm int) (outcome, error) {
						v := math.Exp(next())
						if arm == armB {
							v *= 1 + change
						}
						return outcome{value: v}, nil
					})
					if err != nil {
						t.Fatal(err)
					}
					p := m.comparison(c).Points[0]
					if p.Interval != nil && p.Interval.Low <= change && change <= p.Interval.High {
						covered++
					}
					switch {
					case p.Word == stats.Better || p.Word == stats.Worse && change == 0:
						alarms++
					case p.Word == stats.Worse:
						found++
					case p.Word == stats.Same && change > stats.DefaultMargin:
						missed++
					}
					pairs += len(m.a)
				}
				n := float64(*trials)
				share := func(k int) float64 { return 100 * float64(k) / n }
				t.Logf("%-15s %3.0f %% %4.0f %% %6.1f %% %5.1f %% %4.0f %% %5.1f %% %6.1f", name, 100*width, 100*change, share(covered), share(alarms), share(found), share(missed), float64(pairs)/n)
				if slack := 3 * math.Sqrt(n*0.05*0.95); float64(covered) < 0.95*n-slack || float64(alarms) > 0.05*n+slack || float64(missed) > 0.05*n+slack {
					t.Errorf("%s, width %g, change %g: covered in %d of %d, %d false alarms, %d called the same", name, width, change, covered, *trials, alarms, missed)
				}
			}
		}
	}
}

func TestLooks(t *testing.T) {
	var got []int
	for n := range 201 {
		if isLook(n) {
			got = append(got, n)
		}
	}
	if want := []int{8, 11, 16, 23, 32, 45, 64, 91, 128, 181}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestSideError hands on the exit code of a test that failed.
func TestSideError(t *testing.T) {
	err := error(&sideError{line: "write host", said: "no device", code: exit.Setup})
	if exit.Code(err) != exit.Setup || !strings.Contains(err.Error(), "no device") {
		t.Errorf("exit code %d of %v", exit.Code(err), err)
	}
	if exit.Code(errors.Join(err, errors.New("more"))) != exit.Setup {
		t.Error("the code is lost among other errors")
	}
}
