package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gobw/gobw/report/plain"
)

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-9*max(1, math.Abs(want)) }

func TestSummarize(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []float64
		want   Summary
	}{
		{"one run claims nothing", []float64{7}, Summary{N: 1, Median: 7}},
		{"two", []float64{9, 7}, Summary{N: 2, Median: 8}},
		// 5 values: min…max covers 1 - 2/32 = 0.9375 < 0.95.
		{"five are too few", []float64{5, 1, 4, 2, 3}, Summary{N: 5, Median: 3}},
		// 6 values: min…max covers 1 - 2/64 = 0.96875.
		{"six", []float64{6, 5, 1, 4, 2, 3}, Summary{N: 6, Median: 3.5, Interval: &Interval{1, 6, 0.96875}}},
		// 10 values: k=2 covers 1 - 2 (1+10)/1024 = 0.978515625; k=3 adds 45: 0.890625.
		{
			"ten", []float64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, Summary{N: 10, Median: 5.5, Interval: &Interval{2, 9, 0.978515625}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Summarize(tt.values, 0.95)
			if diff := cmp.Diff(got, tt.want, cmp.Comparer(near)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMannWhitney(t *testing.T) {
	for _, tt := range []struct {
		name string
		x, y []float64
		p    float64
	}{
		// All of x below y: 1 of C(6,3)=20 orders on each side.
		{"apart 3", []float64{1, 2, 3}, []float64{4, 5, 6}, 0.1},
		{"apart 4", []float64{5, 6, 7, 8}, []float64{1, 2, 3, 4}, 2.0 / 70},
		// x = ranks 1, 2, 4: U = 7-6 = 1; sums as far from 10.5 as 7: 6, 7 and 14, 15: 4 of 20.
		{"one swapped", []float64{1, 2, 4}, []float64{3, 5, 6}, 0.2},
		{"equal", []float64{3, 3, 3}, []float64{3, 3}, 1},
		// What is equal counts against: of the six pairs 2-1, 3-1, 3-2, 3-2 are above, 2-2 twice equal. Of ten orders those
		// with at most two pairs are 1+1+2.
		{"ties", []float64{2, 3}, []float64{1, 2, 2}, 0.8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := Unpaired(tt.x, tt.y, 0.95, HigherIsBetter)
			if !near(e.P, tt.p) {
				t.Errorf("p %v, want %v", e.P, tt.p)
			}
		})
	}
}

// P and the interval tell the same: an interval of a confidence up to 1 - P does not hold zero.
func TestPBelongsToTheInterval(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for range 500 {
		old, new := make([]float64, 4+r.IntN(6)), make([]float64, 4+r.IntN(6))
		for _, side := range [][]float64{old, new} {
			for i := range side {
				side[i] = float64(1 + r.IntN(9)) // with ties
			}
		}
		for i := range new {
			new[i] += 2
		}
		n := min(len(old), len(new))
		for name, effect := range map[string]func(confidence float64) Effect{
			"unpaired": func(confidence float64) Effect { return Unpaired(old, new, confidence, HigherIsBetter) },
			"paired":   func(confidence float64) Effect { return Paired(old[:n], new[:n], confidence, HigherIsBetter) },
		} {
			p := effect(0.5).P
			if just := effect(1 - p - 1e-9).Interval; p < 0.5 && (just == nil || just.Low <= 0 && just.High >= 0) {
				t.Errorf("%s: p %v, and the interval %v holds zero", name, p, just)
			}
			if beyond := effect(1 - p + 1e-9).Interval; p < 1 && beyond != nil && (beyond.Low > 0 || beyond.High < 0) {
				t.Errorf("%s: p %v, and the interval %v does not hold zero", name, p, beyond)
			}
		}
	}
}

// The approximation used for many values agrees with the exact p and coverage where both can be had.
func TestNullApproximation(t *testing.T) {
	for name, tt := range map[string]struct {
		null
		sum int
	}{
		"rank sum": {rankSum(28, 28), 300},
		"signs":    {signs(plain.UpTo(1, 40)), 300},
		"runs":     {signs(slices.Repeat([]int{1}, exactSigns)), 90},
	} {
		normal := tt.null
		normal.shares = nil
		if exact, p := tt.p(tt.sum), normal.p(tt.sum); math.Abs(exact-p) > 0.005 {
			t.Errorf("%s: approximate p %v, exact %v", name, p, exact)
		}
		k, covered := tt.bounds(0.95)
		nearly, covers := normal.bounds(0.95)
		if math.Abs(float64(k-nearly)) > 1 || math.Abs(covered-covers) > 0.005 {
			t.Errorf("%s: order %d with %v, exact %d with %v", name, nearly, covers, k, covered)
		}
	}
}
