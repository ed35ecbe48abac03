package stats

import (
	"math"
	"slices"
)

// Interval is a confidence interval.
type Interval struct {
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence"` // the coverage reached, at least what was asked
}

// Summary is the median of some repetitions and, where there are enough, its confidence interval.
type Summary struct {
	N        int       `json:"n"`
	Median   float64   `json:"median"`
	Interval *Interval `json:"interval,omitempty"`
}

// DefaultConfidence is the confidence of intervals unless told otherwise.
const DefaultConfidence = 0.95

// Summarize gives the median of values and its confidence interval from order statistics: whatever the distribution,
// the median lies between the k-th smallest and the k-th largest with probability 1 - 2 P(B < k), B binomial (n, 1/2).
// The largest k that keeps the confidence is taken; below 6 values none keeps 0.95 and there is no interval. The median
// of an even number is the mean of the middle two.
func Summarize(values []float64, confidence float64) Summary {
	n := len(values)
	if n == 0 {
		return Summary{Median: math.NaN()}
	}
	sorted := slices.Sorted(slices.Values(values))
	s := Summary{N: n, Median: median(sorted)}
	if k, covered := signs(slices.Repeat([]int{1}, n)).bounds(confidence); k > 0 {
		s.Interval = &Interval{Low: sorted[k-1], High: sorted[n-k], Confidence: covered}
	}
	return s
}

// Median is that of [Summarize]; of no values it is not a number.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return median(slices.Sorted(slices.Values(values)))
}

func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
