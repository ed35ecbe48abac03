package expect

import (
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/stats"
)

// TestWhatWasNotSeenDoesNotPass: a run without the figure may be the slow one, and a row that one side lacks is not
// compared.
func TestWhatWasNotSeenDoesNotPass(t *testing.T) {
	measured := func(change func(r *report.Record)) *report.Document {
		d := &report.Document{Schema: report.SchemaVersion, Complete: true}
		for _, size := range []uint64{64, 4096} {
			for run := range 6 {
				r := report.Record{
					Plan: report.Plan{Operation: "write", Kind: "bandwidth", Transport: "UD", SizeBytes: size}, Run: run + 1,
					Bandwidth: report.Bandwidth{AverageBitsPerS: 10e9}, Counters: map[string]int64{"resent_pkts": 0},
					PeerCounters: map[string]int64{"resent_pkts": 0},
				}
				change(&r)
				d.Records = append(d.Records, r)
			}
		}
		return d
	}
	whole := measured(func(*report.Record) {})
	for name, tt := range map[string]struct {
		change func(r *report.Record)
		limits map[string]stats.Word
	}{
		"all is seen": {
			func(*report.Record) {},
			map[string]stats.Word{
				"worse<5%": stats.Pass, "retransmits worse<5%": stats.Pass, "bw >= 9 Gb/s": stats.Pass,
				"retransmits == 0": stats.Pass,
			},
		},
		"two of six runs have no rate": {
			func(r *report.Record) {
				if r.Run < 3 {
					r.Bandwidth = report.Bandwidth{}
				}
			},
			map[string]stats.Word{"worse<5%": stats.CannotTell, "bw >= 9 Gb/s": stats.CannotTell},
		},
		"one of six runs has no counters": {
			func(r *report.Record) {
				if r.Run == 3 {
					r.Counters = nil
				}
			},
			map[string]stats.Word{
				"retransmits worse<5%": stats.CannotTell, "retransmits == 0": stats.CannotTell,
				"local.retransmits == 0 where counted": stats.CannotTell, "worse<5%": stats.Pass,
			},
		},
		"a rate of one run is below zero": {
			func(r *report.Record) {
				if r.Run == 3 {
					r.Bandwidth.AverageBitsPerS *= -1
				}
			},
			map[string]stats.Word{"worse<5%": stats.CannotTell, "bw <= 90 Gb/s": stats.CannotTell},
		},
	} {
		d := measured(tt.change)
		for text, want := range tt.limits {
			e, err := Parse(text, Options{Comparison: strings.Contains(text, "worse")})
			if err != nil {
				t.Fatal(err)
			}
			checks := Judge(d, []*Expectation{e}, Judgement{})
			if e.change != nil {
				c, err := compare.Documents([]*report.Document{whole}, []*report.Document{d},
					compare.Options{Figures: Figures([]*Expectation{e})})
				if err != nil {
					t.Fatal(err)
				}
				checks = JudgeComparison(c, []*Expectation{e}, nil)
			}
			var words []stats.Word
			for _, c := range checks {
				words = append(words, c.Word)
			}
			if got := stats.Gravest(words...); got != want {
				t.Errorf("%s, %s: %q, want %q: %+v", name, text, got, want, checks)
			}
		}
	}
	e, err := Parse("worse<5%", Options{Comparison: true})
	if err != nil {
		t.Fatal(err)
	}
	blind := measured(func(r *report.Record) { // neither side tells anything of one row
		if r.SizeBytes == 64 {
			r.Bandwidth = report.Bandwidth{}
		}
	})
	c, err := compare.Documents([]*report.Document{blind}, []*report.Document{blind}, compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if checks := JudgeComparison(c, []*Expectation{e}, nil); len(checks) != 2 || checks[1].Cause != stats.Missing ||
		!strings.Contains(checks[1].Reason, "nobody counted what arrived") {
		t.Errorf("a row that neither side tells: %+v", checks)
	}
	half := *whole
	half.Records = whole.Records[:6]
	for name, sides := range map[string][2]*report.Document{"old": {&half, whole}, "new": {whole, &half}} {
		c, err := compare.Documents(sides[:1], sides[1:], compare.Options{})
		if err != nil {
			t.Fatal(err)
		}
		checks := JudgeComparison(c, []*Expectation{e}, nil)
		if last := checks[len(checks)-1]; len(checks) != 2 || last.Cause != stats.Missing ||
			!strings.HasPrefix(last.Reason, "the "+name+" result does not have it") {
			t.Errorf("the %s side lacks a row: %+v", name, checks)
		}
	}
}

// saved is a result of report/testdata.
func saved(name string) *report.Document {
	d, err := report.Load("../testdata/" + name + ".json")
	if err != nil {
		panic(err)
	}
	return d
}

// noisyDocument has runs of a bandwidth and a latency test with noise as virtual machines have it: a per-cent-sized
// spread, a drift, and now and then a run that something else disturbed by up to a third.
func noisyDocument(rng *rand.Rand, runs int, slower float64) *report.Document {
	d := saved("repeated")
	template := d.Records[0]
	d.Records = nil
	for run := 1; run <= runs; run++ {
		for _, size := range []uint64{64, 4096, 65536} {
			noise := math.Exp(0.025*rng.NormFloat64() + 0.01*float64(run)/float64(runs))
			if rng.Float64() < 0.1 {
				noise *= 1 + 0.33*rng.Float64()
			}
			seconds := (1e-6 + float64(size)/5e9) * noise * slower * 1e5
			bw := template
			bw.Run, bw.SizeBytes, bw.Seconds = run, size, seconds
			bw.Bandwidth = report.Bandwidth{AverageBitsPerS: 8 * float64(size) * 1e5 / seconds}
			bw.MessagesPerS = 1e5 / seconds
			d.Records = append(d.Records, bw)
		}
		ps := report.Samples{N: 1200, Scale: 1e-3}
		base := 5200 * slower * math.Exp(0.02*rng.NormFloat64())
		for range ps.N {
			ps.Raw = append(ps.Raw, int64(1000*base*math.Exp(0.05*math.Abs(rng.NormFloat64()))))
		}
		l := report.NewLatency(ps)
		lat := template
		lat.Run, lat.Kind, lat.Operation, lat.SizeBytes, lat.Latency = run, "latency", "send", 2, &l
		lat.Bandwidth = report.Bandwidth{}
		d.Records = append(d.Records, lat)
	}
	return d
}

//nolint:gochecknoglobals // a flag of the test
var repetitions = flag.Int("repetitions", 20, "of the comparison with and without a planted slowdown")

// A planted slowdown of 10 % fails the gate and is found at most points, and where nothing was planted no figure
// differs and the gate passes, in at least 19 of 20 repetitions of each.
func TestCompareTellsASlowdownFromNoise(t *testing.T) {
	e, err := Parse("worse<5%", Options{Comparison: true})
	if err != nil {
		t.Fatal(err)
	}
	gate := []*Expectation{e}
	rng := rand.New(rand.NewPCG(2026, 11))
	found, quiet, silent := 0, 0, 0
	for range *repetitions {
		for _, slower := range []float64{1, 1.10} {
			c, err := compare.Documents([]*report.Document{noisyDocument(rng, 12, 1)},
				[]*report.Document{noisyDocument(rng, 12, slower)}, compare.Options{})
			if err != nil {
				t.Fatal(err)
			}
			worse, different := 0, 0
			for _, p := range c.Points {
				if p.Word == stats.Worse {
					worse++
				}
				if p.Word == stats.Worse || p.Word == stats.Better {
					different++
				}
			}
			failed := slices.ContainsFunc(JudgeComparison(c, gate, nil),
				func(c report.Check) bool { return c.Word != stats.Pass })
			if slower == 1 && !failed {
				silent++
			}
			switch {
			case slower > 1 && 2*worse > len(c.Points) && failed:
				found++
			case slower == 1 && different == 0:
				quiet++
			}
		}
	}
	t.Logf("of %d: the slowdown was found in %d; without one no figure differed in %d, and the gate passed in %d",
		*repetitions, found, quiet, silent)
	if least := *repetitions * 19 / 20; found < least || quiet < least {
		t.Errorf("the slowdown was found in %d of %d, its absence in %d; want %d each", found, *repetitions, quiet, least)
	}
}

// What a gate sees as worse fails, and what it did not see cannot be told; only what is unclear may be accepted.
func TestGate(t *testing.T) {
	point := func(row string, better stats.Direction, change, low, high float64) compare.Point {
		e := stats.Effect{
			Change: change, Interval: &stats.Interval{Low: low, High: high, Confidence: 0.96}, P: 1e-6, N: 9, Better: better,
		}
		p := compare.Point{
			Group: "g", Row: row, Figure: "bw", Effect: e,
			Verdict: stats.Conclude([]stats.Effect{e}, stats.DefaultMargin, stats.DefaultConfidence)[0],
		}
		p.WorseBy, _, _ = e.Worse()
		return p
	}
	c := &compare.Comparison{
		Margin: 0.05,
		Points: []compare.Point{
			point("worse", stats.HigherIsBetter, -0.10, -0.12, -0.08),
			point("better", stats.HigherIsBetter, 0.2, 0.15, 0.25),
			point("same", stats.HigherIsBetter, 0, -0.01, 0.01),
			point("wide", stats.LowerIsBetter, 0, -0.09, 0.09),
			{Group: "g", Row: "few", Figure: "bw", Verdict: stats.Unknown(stats.TooFew, "", "2 runs")},
		},
		OnlyOld: []string{"gone"}, Documented: compare.Documented{Incomplete: []string{"half"}},
	}
	for _, tt := range []struct {
		text, accept string
		fail, open   int
	}{
		{"worse<5%", "", 1, 4}, // open: wide, few, gone, half
		{"worse < 5 %", "unclear", 1, 3},
		{"worse<15%", "", 0, 3},
		{"worse<9%", "", 1, 3},
		{"worse<10%", "", 0, 4}, // by how much it cannot tell: 8 to 12 %
		{"worse<10%", "unclear", 0, 3},
		{"worse<0%", "", 1, 5}, // and not "by no more than the margin"
		{"bw worse<5%", "", 1, 4},
		{"p99 worse<50%", "", 0, 3}, // and p99, which no point has
	} {
		accepted, err := stats.ParseAccepted(tt.accept)
		if err != nil {
			t.Fatal(err)
		}
		e, err := Parse(tt.text, Options{Comparison: true})
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		fail, open := 0, 0
		for _, c := range JudgeComparison(c, []*Expectation{e}, accepted) {
			if c.Expression != tt.text {
				t.Errorf("%s: the expectation at %s is %q", tt.text, c.Point, c.Expression)
			}
			switch c.Word {
			case stats.Fail:
				fail++
			case stats.CannotTell:
				open++
			default: // it passed
			}
		}
		if fail != tt.fail || open != tt.open {
			t.Errorf("%s accepting %q: %d fail and %d cannot be told, want %d and %d", tt.text, tt.accept, fail, open,
				tt.fail, tt.open)
		}
	}
	for _, tt := range []struct {
		text   string
		column int
		want   string
	}{
		{"wors<5%", 1, "judged by their change"},
		{"worse<5", 7, "not a percentage"},
		{"worse>5%", 6, "wants <"},
		{"worse<NaN%", 7, "not a percentage"},
		{"worse<1e999%", 7, "not a percentage"},
		{"worse<100%", 7, "nothing is worse by more than 100 %"},
		{"worse<5% of x.json", 10, "given already: write worse<5%"},
		{"seconds worse<5%", 1, "cannot be better or worse"},
		{"bww worse<5%", 1, `did you mean "bw"?`},
		{"", 1, "judged by their change"},
	} {
		_, err := Parse(tt.text, Options{Comparison: true})
		var ee *Error
		if !errors.As(err, &ee) || ee.Column != tt.column || !strings.Contains(ee.Problem, tt.want) {
			t.Errorf("%s: %v, want column %d and %q", tt.text, err, tt.column, tt.want)
		}
	}
}
