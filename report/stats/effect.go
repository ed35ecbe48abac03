package stats

import (
	"math"
	"slices"

	"github.com/gobw/gobw/report/plain"
)

// Direction says which way a figure is better.
type Direction int8

// Directions.
const (
	Neither        Direction = 0
	HigherIsBetter Direction = 1
	LowerIsBetter  Direction = -1
)

// Effect is by how much one set of values differs from another, as a share of it, and what the values allow to say of that.
type Effect struct {
	Change   float64   `json:"change"`             // (new - old) / old
	Interval *Interval `json:"interval,omitempty"` // of the change; nil: too few values for one
	P        float64   `json:"p"`                  // two-sided, of no change
	N        int       `json:"n"`                  // values, or pairs, on the side that has fewer
	Better   Direction `json:"better"`             // which way the figure is better
	Pairs    bool      `json:"pairs,omitempty"`    // measured back to back, see [Paired]
}

// Unpaired is the effect between two independent sets of values. The change is that of their medians, so that it can be computed
// again from what is printed. The interval is that of the middle of all ratios of a new to an old value (Hodges and Lehmann's
// estimate), exact by ranks, with the rank test that belongs to it. Values that are not all positive have no ratios; their
// differences are taken as shares of the larger of the two medians. Without a value on each side, or with one that is not
// finite, the change is NaN.
func Unpaired(old, new []float64, confidence float64, better Direction) Effect {
	e := Effect{Change: math.NaN(), P: 1, N: min(len(old), len(new)), Better: better}
	if e.N == 0 || !finite(old) || !finite(new) {
		return e
	}
	e.P = mannWhitney(old, new)
	a, b := slices.Sorted(slices.Values(old)), slices.Sorted(slices.Values(new))
	back, change := math.Expm1, func(old, new float64) float64 { return new/old - 1 }
	middles := [2]float64{median(a), median(b)}
	if a[0] > 0 && b[0] > 0 {
		a, b = logs(a), logs(b)
	} else {
		scale := max(math.Abs(median(a)), math.Abs(median(b)))
		if scale == 0 {
			scale = max(math.Abs(a[0]), math.Abs(b[0]), math.Abs(a[len(a)-1]), math.Abs(b[len(b)-1]), math.SmallestNonzeroFloat64)
		}
		back = func(d float64) float64 { return d / scale }
		change = func(old, new float64) float64 { return back(new - old) }
	}
	all := len(a) * len(b)
	e.Change = change(middles[0], middles[1])
	k, covered := choices(plain.UpTo(0, len(a)+len(b)), len(a)).order(confidence)
	if k -= len(a) * (len(a) - 1) / 2; k > 0 { // beyond the least sum
		e.Interval = &Interval{Low: back(kthDifference(a, b, k)), High: back(kthDifference(a, b, all+1-k)), Confidence: covered}
	}
	return e
}

// Worse is the change and its interval turned so that more is worse: for a figure without a better side, as it is.
func (e Effect) Worse() (change, low, high float64) {
	low, high = math.Inf(-1), math.Inf(1)
	if e.Interval != nil {
		low, high = e.Interval.Low, e.Interval.High
	}
	if e.Better == HigherIsBetter {
		return -e.Change, -high, -low
	}
	return e.Change, low, high
}

// Finite makes an effect fit for JSON, which has no infinity: a change of which the verdict says that it is none becomes 0. It
// tells by how much the figure is worse.
func (e *Effect) Finite() (worseBy float64) {
	if !finite([]float64{e.Change}) {
		e.Change = 0
		return 0
	}
	worseBy, _, _ = e.Worse()
	return worseBy
}

func finite(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
}

func logs(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = math.Log(v)
	}
	return out
}

// mannWhitney is the two-sided p value of Mann and Whitney's test: do x and y come from the same distribution, or does one lie above
// the other?
func mannWhitney(x, y []float64) float64 {
	doubled := doubledRanks(slices.Concat(x, y))
	sum, _ := sums(doubled[:len(x)])
	return choices(doubled, len(x)).p(sum)
}

// kthDifference is the k-th smallest of all b - a, both sorted, k from 1: found by halving the values between which it
// lies, so that many values need no table of all pairs.
func kthDifference(a, b []float64, k int) float64 {
	n := len(a)
	below := func(d float64) int { // how many differences are at most d
		count, near := 0, 0
		for _, y := range b {
			for near < n && y-a[near] > d {
				near++
			}
			count += n - near
		}
		return count
	}
	low, high := b[0]-a[n-1], b[len(b)-1]-a[0]
	for range 200 {
		middle := low + (high-low)/2
		if middle <= low || middle >= high {
			break
		}
		if below(middle) >= k {
			high = middle
		} else {
			low = middle
		}
	}
	if below(low) >= k {
		return low
	}
	return high
}
