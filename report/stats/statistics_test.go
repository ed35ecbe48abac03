package stats

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		{"ten", []float64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, Summary{N: 10, Median: 5.5, Interval: &Interval{2, 9, 0.978515625}}},
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
		// Ties 1,2,2 | 2,3: ranks 1, 3, 3 | 3, 5. Pairs of y: sums 8 (3+5: three ways), 6 (3+3: three), 4 (1+3: three), 6 (1+5).
		// The mean is 6; sums 8 and 4 are as far as 8: 6 of 10.
		{"ties", []float64{2, 3}, []float64{1, 2, 2}, 0.6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if p := mannWhitney(tt.x, tt.y); !near(p, tt.p) {
				t.Errorf("p %v, want %v", p, tt.p)
			}
		})
	}
}

// The approximation used for many values agrees with the exact p and coverage where both can be had.
func TestNullApproximation(t *testing.T) {
	x, y := make([]float64, 28), make([]float64, 28)
	for i := range x {
		x[i], y[i] = float64(i*7%31), float64(i*11%37)+1.5
	}
	doubled := doubledRanks(append(x, y...))
	sum, _ := sums(doubled[:28])
	for name, tt := range map[string]struct {
		null
		sum int
	}{
		"choices": {choices(doubled, 28), sum},
		"signs":   {signs(doubled), sum - 100},
		"runs":    {signs(slices.Repeat([]int{1}, exactSigns)), 0},
	} {
		normal := tt.null
		normal.shares = nil
		if exact, p := tt.p(tt.sum), normal.p(tt.sum); math.Abs(exact-p) > 0.005 {
			t.Errorf("%s: approximate p %v, exact %v", name, p, exact)
		}
		k, covered := tt.order(0.95)
		nearly, covers := normal.order(0.95)
		if math.Abs(float64(k-nearly)) > 1 || math.Abs(covered-covers) > 0.005 {
			t.Errorf("%s: order %d with %v, exact %d with %v", name, nearly, covers, k, covered)
		}
	}
}

// Many tied values: the normal approximation with the correction for ties and for continuity (Hollander, Wolfe, Chicken:
// Nonparametric Statistical Methods, section 4.1), worked out by its formula elsewhere.
func TestMannWhitneyManyTies(t *testing.T) {
	x, y := make([]float64, 31), make([]float64, 31)
	for i := range x {
		x[i], y[i] = float64(i/8), float64((i+6)/8)
	}
	if p := mannWhitney(x, y); math.Abs(p-0.0222646205) > 1e-9 {
		t.Errorf("p %.10f; want 0.0222646205", p)
	}
}
