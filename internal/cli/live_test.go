package cli

import (
	"flag"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/cli/cmd/operation"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/stats"
)

// Tests of whole measurements on the software device. They judge figures of a machine that may be busy with anything,
// so each compares figures that were taken in turns, by ranks, and says how often it would fail by chance.

var liveRepetitions = flag.Int("live-repetitions",
	0, "how often TestCompareTellsLive compares, for results/compare.txt (0: until it is told)")

// liveRuns are the runs a side of a comparison: the third smallest and the third largest of 12 make an interval of 96
// %.
const liveRuns = 12

// liveAttempts bounds how often a live test measures again before it fails.
const liveAttempts = 5

// openLive opens the software device and a second process as its peer, both behind an emulated network.
func openLive(t *testing.T, network string) *measure.Measurer {
	t.Helper()
	m, err := measure.Open(t.Context(), output.Streams{Out: io.Discard, Err: io.Discard}, measure.Config{
		Tool: "gobw", Device: opendevice.Config{Name: "roce0", Emulate: network},
		Peer: measure.PeerConfig{Loopback: true, Timeout: time.Minute}, Output: output.Config{Quiet: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// measureLive runs a command line over an open session.
func measureLive(t *testing.T, m *measure.Measurer, line string) []report.Record {
	t.Helper()
	c, err := operation.Parse(append(strings.Fields(line), "--loopback"), func(*pflag.FlagSet) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	res, err := m.Run(t.Context(), c.Plan, bench.Options{})
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return res.Records
}

// TestSweepAgreesWithAlone: a size measured inside a sweep and alone has the same figure, that is, the two 96 %
// intervals of the median overlap. Runs are taken in turns, so what disturbs the machine disturbs both. Where both come
// from one distribution, the intervals of 12 and 12 runs miss each other with probability 0.0017 on either side (the
// tenth of one lies below the third of the other); only five misses on one side fail the test: about once in 10^13.
func TestSweepAgreesWithAlone(t *testing.T) {
	testrun.OnlyWhole(t, "it judges figures")
	for _, tt := range []struct {
		name, sweep, alone string
		size               uint64
		figure             func(report.Record) float64
	}{
		{
			"bandwidth", "gobw write -s 256,4K,64K -D 20ms --warmup 50", "gobw write -s 4K -D 20ms --warmup 50", 4096,
			func(r report.Record) float64 { return r.Bandwidth.AverageBitsPerS },
		},
		{
			"latency", "golat send -s 2,64,4K -n 100 --warmup 20", "golat send -s 64 -n 100 --warmup 20", 64,
			func(r report.Record) float64 { return r.Latency.P50Ns },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := openLive(t, "")
			at := func(records []report.Record) float64 {
				for _, r := range records {
					if r.SizeBytes == tt.size {
						return tt.figure(r)
					}
				}
				t.Fatalf("no record of %d bytes", tt.size)
				return 0
			}
			sides := map[bool]int{}
			for attempt := range liveAttempts {
				var inSweep, alone []float64
				for i := range liveRuns {
					if i%2 == 0 {
						inSweep = append(inSweep, at(measureLive(t, m, tt.sweep)))
						alone = append(alone, at(measureLive(t, m, tt.alone)))
					} else {
						alone = append(alone, at(measureLive(t, m, tt.alone)))
						inSweep = append(inSweep, at(measureLive(t, m, tt.sweep)))
					}
				}
				a, b := stats.Summarize(inSweep, stats.DefaultConfidence), stats.Summarize(alone, stats.DefaultConfidence)
				t.Logf("in a sweep %.4g, %.4g to %.4g; alone %.4g, %.4g to %.4g", a.Median, a.Interval.Low, a.Interval.High,
					b.Median, b.Interval.Low, b.Interval.High)
				if a.Interval.Low <= b.Interval.High && b.Interval.Low <= a.Interval.High {
					testrun.Later(t, t.Name(), attempt+1)
					return
				}
				if sides[a.Median > b.Median]++; sides[a.Median > b.Median] == liveAttempts {
					t.Errorf("a sweep and a test alone measure %d bytes differently", tt.size)
				}
			}
		})
	}
}

// liveSide is one side of a comparison being measured.
type liveSide struct {
	m    *measure.Measurer
	line string
	doc  *report.Document
}

func (s *liveSide) measure(t *testing.T) {
	for _, r := range measureLive(t, s.m, s.line) {
		r.Run = len(s.doc.Records) + 1
		r.RateLimitBitsPerS = 0 // a fault does not tell of itself
		s.doc.Records = append(s.doc.Records, r)
	}
}

// compareLive measures three sides in turns and tells what the gate says of the second and the third against the first.
func compareLive(t *testing.T, sides []*liveSide, figure string) (alarms [2]bool, text string) {
	t.Helper()
	for _, s := range sides {
		s.doc = &report.Document{Complete: true}
	}
	for i := range liveRuns {
		for j := range sides {
			sides[(i+j)%len(sides)].measure(t)
		}
	}
	var said []string
	for i, s := range sides[1:] {
		c, err := compare.Documents([]*report.Document{sides[0].doc}, []*report.Document{s.doc},
			compare.Options{Unlike: true, Figures: []string{figure}, Accept: stats.Accepted{stats.Disturbed}})
		if err != nil {
			t.Fatal(err)
		}
		p := c.Points[0]
		alarms[i] = p.Word == stats.Worse
		said = append(said, fmt.Sprintf("%s %+.1f %% (p %.3g)", p.String(), 100*p.WorseBy, p.P))
	}
	return alarms, strings.Join(said, ", ")
}

// TestCompareTellsLive plants a slowdown of 10 % in the emulated network below the software device and none, and the
// gate worse>5% tells them apart. The figure judged is the least latency: of 8 messages one gets through undisturbed on
// the busiest machine. Without a slowdown an alarm needs p < 0.01 on one side and a median that is 5 % apart; the test
// fails only when one of the two sides is misjudged in five attempts, which by chance is less than once in 10^9. With
// -live-repetitions it reports how other figures fare, which a busy machine does disturb.
func TestCompareTellsLive(t *testing.T) {
	testrun.OnlyWhole(t, "it judges figures")
	delayed := func(delay string) *measure.Measurer { return openLive(t, "delay="+delay) }
	first, second, slower := delayed("4ms"), delayed("4ms"), delayed("4400us")
	line := "golat send -s 64 -n 8 --warmup 0"
	byDelay := []*liveSide{{m: first, line: line}, {m: second, line: line}, {m: slower, line: line}}
	if *liveRepetitions == 0 {
		for attempt := range liveAttempts {
			alarms, text := compareLive(t, byDelay, "min")
			t.Log("without and with a slowdown:", text)
			if alarms == [2]bool{false, true} {
				testrun.Later(t, t.Name(), attempt+1)
				return
			}
		}
		t.Errorf("in %d attempts the gate never told a slowdown of 10 %% from none", liveAttempts)
		return
	}
	byRate := func() []*liveSide { // a session that nobody uses ends: opened when it is its turn
		plain := openLive(t, "")
		paced := func(rate string) *liveSide {
			return &liveSide{m: plain, line: "gobw write -s 4K -D 100ms --warmup 100 --rate " + rate}
		}
		return []*liveSide{paced("200M"), paced("200M"), paced("180M")}
	}
	for _, tt := range []struct {
		name, figure string
		sides        []*liveSide
	}{
		{"a delay of 4.4 instead of 4 ms, least latency", "min", byDelay},
		{"a delay of 4.4 instead of 4 ms, median latency", "p50", byDelay},
		{"a rate of 180 instead of 200 Mb/s, bandwidth", "bw", nil},
	} {
		if tt.sides == nil {
			tt.sides = byRate()
		}
		var quiet, found int
		for range *liveRepetitions {
			alarms, text := compareLive(t, tt.sides, tt.figure)
			t.Logf("%s: %s", tt.name, text)
			if !alarms[0] {
				quiet++
			}
			if alarms[1] {
				found++
			}
		}
		t.Logf("%s: of %d, the slowdown was found in %d, and without one the gate was quiet in %d", tt.name, *liveRepetitions,
			found, quiet)
	}
}
