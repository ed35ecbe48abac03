package trend

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/noncontig"
	"github.com/gobw/gobw/report/stats"
)

var simulated = flag.Int("simulated", 90, "how many series each row of the simulations makes")

var start = time.Date(2026, 9, 1, 2, 0, 0, 0, time.UTC)

// night is the result of one night: a bandwidth in Gb/s for each size.
func night(n int, gbs ...float64) *report.Document {
	d := &report.Document{
		Schema: report.SchemaVersion, Complete: true, Started: start.Add(time.Duration(n) * 24 * time.Hour),
		Description: fmt.Sprintf("night-%02d", n),
		Client:      report.Environment{Device: "mlx5_0", Host: "alpha", Version: "v1"},
	}
	for i, v := range gbs {
		r := report.Record{
			Plan: report.Plan{Operation: "write", Kind: "bandwidth", Transport: "RC", QPs: 1, SizeBytes: 1 << (10 + i)},
			Run:  1,
		}
		r.Bandwidth.AverageBitsPerS = v * 1e9
		d.Records = append(d.Records, r)
	}
	return d
}

// trials is how many series a simulation makes. A detector that alarms in one of five series passes all rows of
// TestFalseAlarms with 4 % in 'make quick', 0.002 % in 'make test' (whole: less than 0.001 %).
func trials() int {
	switch {
	case testrun.Whole():
		return *simulated
	case testing.Short():
		return min(*simulated, 10)
	}
	return min(*simulated, 30)
}

func mustTrend(t *testing.T, docs []*report.Document, o compare.Options) *Trend {
	t.Helper()
	tr, err := Documents(docs, o)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// TestGridsAreMedians: a result of the non-contiguous experiment is the median of its rounds, as a result of any other
// test is.
func TestGridsAreMedians(t *testing.T) {
	d := night(0)
	d.Noncontig = &noncontig.Grid{Points: []noncontig.Point{{Strategy: "pack", Layout: "a", Runs: []noncontig.Run{
		{GoodputBitsPerS: 1e9}, {GoodputBitsPerS: 4e9}, {GoodputBitsPerS: 2e9},
	}}}}
	if got := mustTrend(t, []*report.Document{d}, compare.Options{}).Series[0].Points[0].Value; got != 2 {
		t.Errorf("%v Gb/s, want the median 2", got)
	}
}

// The statistic by its definition.
func apart(values []float64, at int) float64 {
	mean := func(v []float64) float64 {
		sum := 0.0
		for _, x := range v {
			sum += x
		}
		return sum / float64(len(v))
	}
	n, m := float64(at), float64(len(values)-at)
	return n * m / (n + m) * math.Pow(mean(values[:at])-mean(values[at:]), 2)
}

func TestBestSplitIsTheDefinitions(t *testing.T) {
	lot := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		values := make([]float64, 6+lot.IntN(30))
		for i := range values {
			values[i] = math.Round(10*lot.NormFloat64()) / 10 // with ties
		}
		values[lot.IntN(len(values))] = 1 // so that the largest is not zero
		d := newDivide(values, 0.05, 1, lot)
		got, _ := d.best(d.values)
		want := split{q: math.Inf(-1)}
		for at := leastSegment; at <= len(values)-leastSegment; at++ {
			if q := apart(d.values, at); q > want.q+1e-12 {
				want = split{at: at, q: q}
			}
		}
		if math.Abs(got.q-want.q) > 1e-9 || math.Abs(apart(d.values, got.at)-want.q) > 1e-9 {
			t.Fatalf("%v: %+v, want %+v", values, got, want)
		}
	}
}

// Steps that were planted are found where they were planted, and no others, in series of the length and noise of
// nightly tests.
func TestPlantedStepsAreFound(t *testing.T) {
	trials := trials() / 3
	for _, tt := range []struct {
		name  string
		steps map[int]float64 // night: factor from then on
		noise float64
	}{
		{"-10 % at 3 % noise", map[int]float64{25: 0.9}, 0.03},
		{"-5 % at 1 % noise", map[int]float64{30: 0.95}, 0.01},
		{"down and up again", map[int]float64{14: 0.8, 28: 1.25}, 0.03},
		{"a week ago", map[int]float64{33: 0.9}, 0.02},
	} {
		t.Run(tt.name, func(t *testing.T) {
			found, where, more := 0, 0, 0
			for trial := range trials {
				lot := rand.New(rand.NewPCG(uint64(trial), 7))
				var docs []*report.Document
				level := 50.0
				for n := range 40 {
					if f, ok := tt.steps[n]; ok {
						level *= f
					}
					docs = append(docs, night(n, level*math.Exp(tt.noise*lot.NormFloat64())))
				}
				lot.Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] }) // the time is in the document
				changes := mustTrend(t, docs, compare.Options{}).Series[0].Changes
				if len(changes) < len(tt.steps) {
					continue
				}
				found++
				if len(changes) > len(tt.steps) {
					more++
				}
				right := 0
				for _, c := range changes {
					for at, factor := range tt.steps {
						if abs(c.At-at) <= 1 && (c.Change > 0) == (factor > 1) {
							right++
						}
					}
				}
				if right == len(tt.steps) {
					where++
				}
			}
			t.Logf("%d of %d found, %d within a night of their place, %d with others", found, trials, where, more)
			if found < trials*95/100 || where < trials*85/100 || more > trials*5/100+int(0.65*math.Sqrt(float64(trials))) {
				t.Errorf("%d of %d trials found all steps, %d at their place, %d found others", found, trials, where, more)
			}
		})
	}
}

// TestTwoBadNightsAreNoChange: one or two bad nights fail no gate and found no new state, at either end of a series,
// also where the others hardly vary. Three do.
func TestTwoBadNightsAreNoChange(t *testing.T) {
	for bad, want := range map[int]bool{1: false, 2: false, 3: true} {
		for _, first := range []bool{false, true} {
			changed, trials := 0, trials()
			for trial := range trials {
				lot := rand.New(rand.NewPCG(uint64(trial), 8))
				var docs []*report.Document
				for n := range 90 {
					level := 50 * math.Exp(0.01*lot.NormFloat64())
					if first && n < bad || !first && n >= 90-bad {
						level *= 0.8
					}
					docs = append(docs, night(n, level))
				}
				changes := mustTrend(t, docs, compare.Options{}).Series[0].Changes
				for _, c := range changes {
					if c.Word == stats.Worse || c.Word == stats.Better {
						changed++
						break
					}
				}
			}
			if wrong := map[bool]int{true: trials - changed, false: changed}[want]; wrong*10 > trials {
				t.Errorf("%d bad nights, at the beginning: %v: %d of %d series changed, want %v", bad, first, changed, trials, want)
			}
		}
	}
}

func abs(n int) int { return max(n, -n) }

// Where nothing changed, at most one trend in twenty says that something did: whatever the noise, with one series and
// many.
func TestFalseAlarms(t *testing.T) {
	noises := map[string]func(*rand.Rand) float64{
		"normal":       func(r *rand.Rand) float64 { return 50 * math.Exp(0.03*r.NormFloat64()) },
		"heavy tails":  func(r *rand.Rand) float64 { return 50 + 1/(0.02+r.Float64()) },
		"two states":   func(r *rand.Rand) float64 { return 50 - 8*float64(r.IntN(2)) },
		"all the same": func(*rand.Rand) float64 { return 50 },
	}
	trials := trials()
	for name, noise := range noises {
		for _, together := range []int{1, 6} {
			t.Run(fmt.Sprintf("%s, %d series", name, together), func(t *testing.T) {
				alarms := 0
				for trial := range trials {
					lot := rand.New(rand.NewPCG(uint64(trial), 3))
					var docs []*report.Document
					for n := range 30 {
						values := make([]float64, together)
						for i := range values {
							values[i] = noise(lot)
						}
						docs = append(docs, night(n, values...))
					}
					tr := mustTrend(t, docs, compare.Options{})
					if slices.ContainsFunc(tr.Series, func(s Series) bool { return len(s.Changes) > 0 }) {
						alarms++
					}
				}
				t.Logf("%d alarms in %d trends", alarms, trials)
				// three standard deviations of a rate of exactly 5 %
				if alarms > trials*5/100+int(0.65*math.Sqrt(float64(trials))) {
					t.Errorf("%d alarms in %d trends without a change", alarms, trials)
				}
			})
		}
	}
}

func steady(nights int, level func(n int) float64) []*report.Document {
	lot := rand.New(rand.NewPCG(5, 5))
	var docs []*report.Document
	for n := range nights {
		docs = append(docs, night(n, level(n)*math.Exp(0.005*lot.NormFloat64())))
	}
	return docs
}

func TestSince(t *testing.T) {
	same := func(int) float64 { return 50 }
	stepAt := func(at int, factor float64) func(int) float64 {
		return func(n int) float64 {
			if n >= at {
				return 50 * factor
			}
			return 50
		}
	}
	week := 7 * 24 * time.Hour
	newest := start.AddDate(0, 0, 29)
	for _, tt := range []struct {
		name   string
		docs   []*report.Document
		window time.Duration // before the newest of the results
		want   stats.Word
		cause  stats.Cause
	}{
		{"nothing changed", steady(30, same), week, stats.Same, ""},
		{"worse within the window", steady(30, stepAt(25, 0.85)), week, stats.Worse, ""},
		{"better within the window", steady(30, stepAt(25, 1.2)), week, stats.Better, ""},
		{"worse before the window", steady(40, stepAt(20, 0.85)), week, stats.Worse, ""},
		{"worse just before the window", steady(30, stepAt(21, 0.85)), week, stats.Worse, ""},
		{"worse from the first night of the window on", steady(30, stepAt(23, 0.85)), week, stats.Worse, ""},
		{"by time", steady(30, stepAt(25, 0.85)), 6 * 24 * time.Hour, stats.Worse, ""},
		{"by date", steady(30, stepAt(25, 0.85)), newest.Sub(start.Add(24*24*time.Hour)) + 1, stats.Worse, ""},
		{"three nights", steady(3, same), week, stats.CannotTell, stats.TooFew},
		{"all new", steady(7, same), week, stats.CannotTell, stats.TooFew},
		{"one new night", steady(20, same), time.Hour, stats.CannotTell, stats.TooFew},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := sinceSpan(mustTrend(t, tt.docs, compare.Options{}), tt.window)
			if len(c.Points) != 1 || c.Points[0].Word != tt.want || c.Points[0].Cause != tt.cause {
				t.Errorf("%+v, want %s %s", c.Points, tt.want, tt.cause)
			}
		})
	}
}

// sinceSpan judges the results of the time before the newest.
func sinceSpan(t *Trend, span time.Duration) *compare.Comparison { return t.Since(t.To.Add(1 - span)) }

func TestSinceTrusts(t *testing.T) {
	docs := steady(30, func(int) float64 { return 50 })
	docs[28].Complete = false
	if p := sinceSpan(mustTrend(t, docs, compare.Options{}), 7*24*time.Hour).Points[0]; p.Cause != stats.Incomplete {
		t.Errorf("an interrupted night: %v", p.Verdict)
	}
	docs[28].Complete = true
	for _, d := range docs[24:] {
		d.Records[0].Warnings = []string{"disturbed: by something"}
	}
	if p := sinceSpan(mustTrend(t, docs, compare.Options{}), 7*24*time.Hour).Points[0]; p.Cause != stats.Disturbed {
		t.Errorf("disturbed nights: %v", p.Verdict)
	}
	if p := sinceSpan(mustTrend(t, docs, compare.Options{Accept: stats.Accepted{stats.Disturbed}}),
		7*24*time.Hour).Points[0]; p.Word != stats.Same {
		t.Errorf("disturbed nights, accepted: %v", p.Verdict)
	}
	for _, d := range docs[20:] {
		d.Records[0].SizeBytes = 4096
	}
	if c := sinceSpan(mustTrend(t, docs, compare.Options{}), 7*24*time.Hour); len(c.OnlyOld) != 1 {
		t.Errorf("a point that is no longer measured: %v", c.OnlyOld)
	}
}

func TestSeriesAreTold(t *testing.T) {
	docs := steady(12, func(int) float64 { return 50 })
	docs[3].Records[0].TxDepth = 16  // another plan
	docs[4].Client.Device = "mlx5_1" // another set-up
	docs[5].Client.Host = "beta"     // the same
	docs[6].Started = time.Time{}    // no time
	docs = append(docs, docs[8])     // twice
	tr := mustTrend(t, docs, compare.Options{})
	if len(tr.Series) != 3 || len(tr.Series[0].Points) != 9 || len(tr.LeftOut) != 2 {
		t.Errorf("%d series, %v left out", len(tr.Series), tr.LeftOut)
	}
}

// The same results give the same trend, in whatever order and company they are read.
func TestDeterministic(t *testing.T) {
	docs := steady(30, func(n int) float64 { return 50 - 4*float64(n/20) })
	one := mustTrend(t, docs, compare.Options{})
	slices.Reverse(docs)
	for _, d := range docs {
		extra := night(0, 1, 2)
		d.Records = append(d.Records, extra.Records[1])
	}
	two := mustTrend(t, docs, compare.Options{})
	if len(one.Series[0].Changes) != 1 || one.Series[0].Changes[0].At != two.Series[0].Changes[0].At {
		t.Errorf("%+v, then %+v", one.Series[0].Changes, two.Series[0].Changes)
	}
}

func TestHostileValues(t *testing.T) {
	for _, v := range []float64{0, -1, 1e300, -1e300, math.MaxFloat64, 5e-324, math.Inf(1), math.NaN()} {
		var docs []*report.Document
		for n := range 12 {
			w := 1.0
			if n%3 == 0 {
				w = v
			}
			docs = append(docs, night(n, w))
		}
		tr := mustTrend(t, docs, compare.Options{})
		_ = sinceSpan(tr, 3*time.Hour)
	}
}

// A long series is divided in seconds: four a day for years.
func TestLongSeries(t *testing.T) {
	docs := make([]*report.Document, 10_000)
	if !testrun.Whole() {
		docs = docs[:2_000]
	}
	change := len(docs)*6/10 + 1
	lot := rand.New(rand.NewPCG(9, 9))
	for n := range docs {
		level := 50.0
		if n >= change {
			level = 48
		}
		docs[n] = night(0, level+lot.NormFloat64())
		docs[n].Started = start.Add(time.Duration(n) * nightLasts)
	}
	began := time.Now()
	tr := mustTrend(t, docs, compare.Options{})
	if c := tr.Series[0].Changes; len(c) == 0 || abs(c[0].At-change) > 10 {
		t.Errorf("%+v", c)
	}
	t.Logf("%v", time.Since(began))
}

func TestParseWindow(t *testing.T) {
	now := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"14d": time.Date(2026, 11, 13, 10, 0, 0, 0, time.UTC), "36h": time.Date(2026, 11, 25, 22, 0, 0, 0, time.UTC),
		"2026-11-01": time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
	} {
		if got, err := ParseWindow(text, now); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "7", "0d", "-3h", "x", "1e9d", "9999999999d", "2026-13-01"} {
		if w, err := ParseWindow(text, now); err == nil {
			t.Errorf("%q: %+v", text, w)
		}
	}
}
