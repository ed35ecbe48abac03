package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPairedByHand holds the estimate, interval and p value against what tables and hand calculation give.
func TestPairedByHand(t *testing.T) {
	old := []float64{1, 1, 1, 1, 1, 1}
	grown := []float64{1.1, 1.2, 1.3, 1.4, 1.5, 1.6}
	e := Paired(old, grown, 0.95, HigherIsBetter)
	// Six pairs that all grew: p = 2/64; the interval spans all Walsh means and covers 1 - 2/64.
	if math.Abs(e.P-2.0/64) > 1e-12 || e.Interval == nil || math.Abs(e.Interval.Confidence-(1-2.0/64)) > 1e-12 {
		t.Fatalf("p %v, interval %+v; want 2/64 and 96.875 %%", e.P, e.Interval)
	}
	if math.Abs(e.Interval.Low-0.1) > 1e-9 || math.Abs(e.Interval.High-0.6) > 1e-9 {
		t.Errorf("interval %+v, want 10 %% to 60 %%", e.Interval)
	}
	if math.Abs(e.Change-0.35) > 1e-3 {
		t.Errorf("change %v, want the median of the ratios, 35 %%", e.Change)
	}
	// The change is the median of the ratios, also where some lie far on one side of it.
	skewed := slices.Concat(slices.Repeat([]float64{1.03}, 11), slices.Repeat([]float64{1.3}, 9))
	if e := Paired(slices.Repeat([]float64{1}, 20), skewed, 0.95, HigherIsBetter); math.Abs(e.Change-0.03) > 1e-12 {
		t.Errorf("change %v, want 3 %%", e.Change)
	}
	if e := Paired(old[:5], grown[:5], 0.95, HigherIsBetter); e.Interval != nil || math.Abs(e.P-2.0/32) > 1e-12 {
		t.Errorf("five pairs: interval %+v, p %v; want none and 2/32", e.Interval, e.P)
	}
	// Ratios in logarithms of 1, 1, -1, 2: of the ten means of two, one is below zero and two are zero. What is zero
	// counts against: of the 16 choices of signs those with a sum of 1, 2 and 3 or less are 5, P = 2 * 5/16.
	ones, exp := []float64{1, 1, 1, 1}, []float64{math.E, math.E, 1 / math.E, math.E * math.E}
	if e := Paired(ones, exp, 0.95, HigherIsBetter); math.Abs(e.P-10.0/16) > 1e-12 {
		t.Errorf("with ties: p %v, want 0.625", e.P)
	}
	if LeastPairs(0.95) != 6 || LeastPairs(0.99) != 8 {
		t.Errorf("least pairs %d and %d, want 6 and 8", LeastPairs(0.95), LeastPairs(0.99))
	}
	for name, pair := range map[string][2][]float64{
		"zero": {{0, 1}, {1, 1}}, "infinite": {{1, 1}, {math.Inf(1), 1}}, "not a number": {{1, 1}, {math.NaN(), 1}},
		"nothing": {nil, nil},
	} {
		if e := Paired(pair[0], pair[1], 0.95, HigherIsBetter); !math.IsNaN(e.Change) || e.Interval != nil {
			t.Errorf("%s: %+v, want nothing", name, e)
		}
	}
}

// TestPairedUnderDrift plants 10 % on a machine whose speed doubles and halves, and nothing: pairs tell, by far more
// often than they are wrong.
func TestPairedUnderDrift(t *testing.T) {
	const trials, pairs = 400, 21
	measure := func(r *rand.Rand, planted float64) Word {
		var a, b []float64
		speed := 1.0
		for range pairs {
			speed *= math.Exp(0.3 * r.NormFloat64())
			a = append(a, speed*math.Exp(0.04*r.NormFloat64()))
			b = append(b, planted*speed*math.Exp(0.04*r.NormFloat64()))
		}
		return Conclude([]Effect{Paired(a, b, 0.95, HigherIsBetter)}, DefaultMargin, DefaultConfidence)[0].Word
	}
	r := rand.New(rand.NewPCG(1, 2))
	found, alarms, same := 0, 0, 0
	for range trials {
		if measure(r, 0.9) == Worse {
			found++
		}
		switch measure(r, 1) { //nolint:exhaustive // a comparison has four words
		case Worse, Better:
			alarms++
		case Same:
			same++
		default:
		}
	}
	if found < trials*95/100 || alarms > trials*5/100 || same < trials*9/10 {
		t.Errorf("of %d: %d found, %d false alarms, %d called the same; want 95 %%, at most 5 %%, 90 %%", trials, found,
			alarms, same)
	}
}

// TestPairedCovers: with and without values that were disturbed, the change lies in the intervals as often as they say.
func TestPairedCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	const trials = 4000
	for _, disturbed := range []float64{0, 0.1} {
		side := func(n int, level float64) []float64 {
			out := noisy(r, n, 0.03, level)
			for i := range out {
				if r.Float64() < disturbed {
					out[i] *= 1 - 0.3*r.Float64()
				}
			}
			return out
		}
		for _, n := range []int{6, 10, 20} {
			inside, told := 0, 0.0
			for range trials {
				e := Paired(side(n, 1), side(n, 1.2), 0.95, HigherIsBetter)
				if e.Interval.Low <= 0.2 && 0.2 <= e.Interval.High {
					inside++
				}
				told += e.Interval.Confidence / trials
			}
			if share := float64(inside) / trials; math.Abs(share-told) > 0.015 {
				t.Errorf("%d pairs, %g disturbed: %.3f of the intervals hold the change, they say %.3f", n, disturbed, share, told)
			}
		}
	}
}
