package stats

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/testrun"
)

// The coverage of rank intervals, by hand from the number of choices with a small rank sum: 1, 1, 2, 3, 5, 7.
func TestRankInterval(t *testing.T) {
	for _, tt := range []struct {
		n, m       int
		confidence float64
		k          int
		covered    float64
	}{
		{3, 3, 0.95, 0, 0}, // 2 of 20 orders lie outside at least: 90 %
		{3, 3, 0.8, 2, 1 - 2*2.0/20},
		{4, 4, 0.95, 1, 1 - 2*1.0/70},
		{5, 5, 0.95, 3, 1 - 2*4.0/252},
		{40, 40, 0.95, 0, 0}, // by the normal approximation
	} {
		k, covered := rankSum(tt.n, tt.m).bounds(tt.confidence)
		if tt.n+tt.m <= exactRankSum && (k != tt.k || math.Abs(covered-tt.covered) > 1e-12) {
			t.Errorf("%d and %d at %g: got %d with %v, want %d with %v", tt.n, tt.m, tt.confidence, k, covered, tt.k, tt.covered)
		}
		if k > 0 && covered < tt.confidence-0.01 {
			t.Errorf("%d and %d: covers %v", tt.n, tt.m, covered)
		}
	}
	if LeastRuns(0.95) != 4 || LeastRuns(0.8) != 3 {
		t.Errorf("least runs: %d and %d, want 4 and 3", LeastRuns(0.95), LeastRuns(0.8))
	}
}

// The selection without a table finds what the table finds.
func TestKthDifference(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	a, b := make([]float64, 80), make([]float64, 70)
	for i := range a {
		a[i] = float64(i) + r.Float64()
	}
	for i := range b {
		b[i] = 3*float64(i) + float64(i%5)/5
	}
	all := kthTable(a, b)
	for _, k := range []int{1, 2, 100, 2800, 5599, 5600} {
		if got := kthDifference(a, b, k); math.Abs(got-all[k-1]) > 1e-12*math.Abs(all[k-1]) {
			t.Errorf("k %d: got %v, want %v", k, got, all[k-1])
		}
	}
}

func kthTable(a, b []float64) []float64 {
	var all []float64
	for _, x := range a {
		for _, y := range b {
			all = append(all, y-x)
		}
	}
	slices.Sort(all)
	return all
}

// What intervals say of their coverage is true: the change lies in them as often.
func TestUnpairedCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	const rounds = 2000
	for _, n := range []int{4, 7, 12} {
		inside, told := 0, 0.0
		for range rounds {
			e := Unpaired(noisy(r, n, 0.1, 1), noisy(r, n, 0.1, 1.2), 0.95, HigherIsBetter)
			if e.Interval.Low <= 0.2 && 0.2 <= e.Interval.High {
				inside++
			}
			told = e.Interval.Confidence
		}
		if share := float64(inside) / rounds; math.Abs(share-told) > 0.015 {
			t.Errorf("%d runs: %.3f of the intervals hold the change, they say %.3f", n, share, told)
		}
	}
}

func noisy(r *rand.Rand, n int, sigma, level float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = level * math.Exp(sigma*r.NormFloat64())
	}
	return out
}

func TestConclude(t *testing.T) {
	level := func(v float64, n int) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = v * (1 + 0.001*float64(i%5))
		}
		return out
	}
	type margins struct{ same, confidence float64 } // 0: the default
	inf := []float64{1, math.Inf(1), 1, 1, 1}
	for _, tt := range []struct {
		name     string
		old, new []float64
		better   Direction
		margins  margins
		want     string
	}{
		{"slower", level(100, 6), level(80, 6), HigherIsBetter, margins{}, "worse"},
		{"faster", level(100, 6), level(120, 6), HigherIsBetter, margins{}, "better"},
		{"longer", level(100, 6), level(120, 6), LowerIsBetter, margins{}, "worse"},
		{"equal", level(100, 6), level(100, 6), HigherIsBetter, margins{}, "same"},
		{"within the margin", level(100, 6), level(97, 6), HigherIsBetter, margins{}, "same"},
		{"beyond a narrow margin", level(100, 6), level(97, 6), HigherIsBetter, margins{same: 0.01}, "worse"},
		{"three runs", level(100, 3), level(50, 3), HigherIsBetter, margins{}, "cannot tell: too-few"},
		{"three runs, less confidence", level(100, 3), level(50, 3), HigherIsBetter, margins{confidence: 0.8}, "worse"},
		{"one run", level(100, 1), level(1, 1), HigherIsBetter, margins{}, "cannot tell: too-few"},
		{
			"wide",
			[]float64{100, 60, 140, 90, 80, 120},
			[]float64{310, 50, 150, 70, 60, 320},
			HigherIsBetter,
			margins{},
			"cannot tell: unclear",
		},
		{"infinite", inf, inf, LowerIsBetter, margins{}, "cannot tell: not-finite"},
		{"not a number", level(1, 5), []float64{1, 1, math.NaN(), 1, 1}, LowerIsBetter, margins{}, "cannot tell: not-finite"},
		{"none", nil, level(1, 5), LowerIsBetter, margins{}, "cannot tell: not-finite"},
		{"zeros", []float64{0, 0, 0, 0}, []float64{0, 0, 0, 0}, LowerIsBetter, margins{}, "same"},
		{"from zero", []float64{0, 0, 0, 0}, []float64{5, 6, 7, 5}, LowerIsBetter, margins{}, "worse"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			same, confidence := cmp.Or(tt.margins.same, DefaultMargin), cmp.Or(tt.margins.confidence, DefaultConfidence)
			v := Conclude([]Effect{Unpaired(tt.old, tt.new, confidence, tt.better)}, same, confidence)[0]
			if v.String() != tt.want {
				t.Errorf("got %q (%s), want %q", v, v.Reason, tt.want)
			}
			if v.Reason == "" || v.Cause == TooFew && v.Settle == "" {
				t.Errorf("%+v does not say why, or what to do", v)
			}
		})
	}
}

// An interval says what it covers, not what was asked for.
func TestVerdictSaysItsCoverage(t *testing.T) {
	old, new := []float64{1, 1.1, 1.2, 1.3, 1.4}, []float64{2, 2.1, 2.2, 2.3, 2.4}
	for confidence, want := range map[float64]string{0.95: "96.8 % interval", 0.8: "84.9 % interval"} {
		v := Conclude([]Effect{Unpaired(old, new, confidence, LowerIsBetter)}, DefaultMargin, confidence)[0]
		if !strings.Contains(v.Reason, want) {
			t.Errorf("at %v: %q lacks %q", confidence, v.Reason, want)
		}
	}
}

func TestBenjaminiHochberg(t *testing.T) {
	got := BenjaminiHochberg([]float64{0.04, 0.01, 0.03, 0.5})
	want := []float64{0.16 / 3, 0.04, 0.16 / 3, 0.5}
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-12 {
			t.Errorf("got %v, want %v", got, want)
			break
		}
	}
}

func TestParseAccepted(t *testing.T) {
	a, err := ParseAccepted("unclear, disturbed")
	if err != nil || !a.Has(Unclear) || !a.Has(Disturbed) || a.Has(Missing) {
		t.Errorf("got %v, %v", a, err)
	}
	if _, err := ParseAccepted("too-few"); err == nil || !strings.Contains(err.Error(), "want unclear or disturbed") {
		t.Errorf("got %v, want what there is", err)
	}
}

var comparisons = flag.Int("comparisons", 100, "of the simulation of many points judged together")

// TestManyEqualPoints: comparisons of 48 points that are equal raise an alarm in at most 5 %, and a tenth's slowdown of
// one of them is found where the noise allows. go test ./report/stats -run ManyEqualPoints -v -comparisons 10000
func TestManyEqualPoints(t *testing.T) {
	if !testrun.Whole() {
		*comparisons = min(*comparisons, 20)
	}
	r := rand.New(rand.NewPCG(3, 3))
	t.Logf("%5s %6s %14s %18s %22s %20s", "runs", "noise", "false alarms", "all told the same", "10 % slower: found",
		"all 10 % slower")
	for _, runs := range []int{5, 10, 20} {
		for _, noise := range []float64{0.01, 0.03, 0.1} {
			alarms, same, found, foundAll := 0, 0, 0, 0
			judge := func(slow func(i int) bool) []Verdict {
				effects := make([]Effect, 48)
				for i := range effects {
					level := 1.0
					if slow(i) {
						level = 0.9
					}
					effects[i] = Unpaired(noisy(r, runs, noise, 1), noisy(r, runs, noise, level), DefaultConfidence, HigherIsBetter)
				}
				return Conclude(effects, DefaultMargin, DefaultConfidence)
			}
			count := func(vs []Verdict, w Word) (n int) {
				for _, v := range vs {
					if v.Word == w {
						n++
					}
				}
				return n
			}
			for range *comparisons {
				none := judge(func(int) bool { return false })
				if count(none, Better)+count(none, Worse) > 0 {
					alarms++
				}
				if count(none, Same) == 48 {
					same++
				}
				if judge(func(i int) bool { return i == 7 })[7].Word == Worse {
					found++
				}
				if count(judge(func(int) bool { return true }), Worse) == 48 {
					foundAll++
				}
			}
			share := func(n int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(*comparisons)) }
			t.Logf("%5d %4.0f %% %14s %18s %22s %20s", runs, 100*noise, share(alarms), share(same), share(found),
				share(foundAll))
			n := float64(*comparisons)
			if limit := 0.05*n + 3*math.Sqrt(n*0.05*0.95); float64(alarms) > limit {
				t.Errorf("%d runs with noise of %g: an alarm in %d of %d comparisons of equal points", runs, noise, alarms,
					*comparisons)
			}
		}
	}
}

// TestNotWorse: the whole interval has to lie within the limit.
func TestNotWorse(t *testing.T) {
	for _, better := range []Direction{LowerIsBetter, HigherIsBetter} {
		e := Effect{Better: better, Change: 0.03, Interval: &Interval{Low: 0.01, High: 0.05}}
		if better == HigherIsBetter {
			e.Change, e.Interval = -0.03, &Interval{Low: -0.05, High: -0.01}
		}
		if !e.NotWorse(0.05) || e.NotWorse(0.0499) {
			t.Errorf("%v: worse by up to 5 %%: %v within 5 %%, %v within 4.99 %%", better, e.NotWorse(0.05), e.NotWorse(0.0499))
		}
	}
}
