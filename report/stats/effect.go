package stats

import (
	"math"
	"slices"
	"sync"
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
	_, p, err := mannWhitney(old, new)
	if err != nil {
		return e
	}
	e.P = p
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
	if k, covered := rankInterval(len(a), len(b), confidence); k > 0 {
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

// LeastRuns is how many runs on each side an interval of this confidence takes at least.
func LeastRuns(confidence float64) int {
	n := 1
	for 1-smallestP(n, n) < confidence && n < 1000 {
		n++
	}
	return n
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

func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
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

// rankInterval is the order of the differences that bounds their median with at least the confidence, and the coverage
// reached; 0 where no order does. Up to 60 values the coverage is that of the exact distribution of the rank sum.
func rankInterval(n, m int, confidence float64) (k int, covered float64) {
	if n+m > exactRanks {
		mean, sigma := float64(n*m)/2, math.Sqrt(float64(n*m*(n+m+1))/12)
		z := math.Sqrt2 * math.Erfinv(confidence)
		k = int(math.Floor(mean - z*sigma + 0.5))
		if k < 1 {
			return 0, 0
		}
		return k, 1 - math.Erfc((mean-float64(k)+0.5)/sigma/math.Sqrt2)
	}
	tail := 0.0 // P(U < k)
	for u, share := range rankSums(n, m) {
		tail += share
		if 1-2*tail < confidence {
			break
		}
		k, covered = u+1, 1-2*tail
	}
	return k, covered
}

// rankSumsSeen keeps the distributions that were computed: a comparison of many points asks for few.
var rankSumsSeen sync.Map //nolint:gochecknoglobals // a cache of constants: {n, m} to []float64

// rankSums is the distribution of the Mann-Whitney U of n and m values without ties.
func rankSums(n, m int) []float64 {
	if seen, ok := rankSumsSeen.Load([2]int{n, m}); ok {
		return seen.([]float64)
	}
	ranks := make([]int, n+m)
	for i := range ranks {
		ranks[i] = i
	}
	least := n * (n - 1) / 2
	out := choices(ranks, n)[least : least+n*m+1]
	rankSumsSeen.Store([2]int{n, m}, out)
	return out
}

// choices are the shares of all choices of n ranks that have each sum.
func choices(ranks []int, n int) []float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	ways := make([][]float64, n+1) // ways[k][s]: choices of k of the ranks seen, with the sum s
	for k := range ways {
		ways[k] = make([]float64, total+1)
	}
	ways[0][0] = 1
	for seen, r := range ranks {
		for k := min(n, seen+1); k >= 1; k-- {
			for s := total; s >= r; s-- {
				ways[k][s] += ways[k-1][s-r]
			}
		}
	}
	all := 0.0
	for _, w := range ways[n] {
		all += w
	}
	for s := range ways[n] {
		ways[n][s] /= all
	}
	return ways[n]
}
