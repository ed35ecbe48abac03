package stats

import (
	"cmp"
	"errors"
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

// Summarize gives the median of values and its confidence interval from order statistics: whatever the distribution, the
// median lies between the k-th smallest and the k-th largest with probability 1 - 2 P(B < k), B binomial (n, 1/2). The
// largest k that keeps the confidence is taken; below 6 values none keeps 0.95 and there is no interval. The median of
// an even number is the mean of the middle two.
func Summarize(values []float64, confidence float64) Summary {
	n := len(values)
	if n == 0 {
		return Summary{Median: math.NaN()}
	}
	sorted := slices.Sorted(slices.Values(values))
	s := Summary{N: n, Median: median(sorted)}
	tail := 0.0 // P(B < k)
	for k := 1; k <= n/2; k++ {
		tail += math.Exp(logChoose(n, k-1) - float64(n)*math.Ln2)
		if 1-2*tail < confidence {
			break
		}
		s.Interval = &Interval{Low: sorted[k-1], High: sorted[n-k], Confidence: 1 - 2*tail}
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

func logChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

// exactRanks is up to how many values together the rank test enumerates all orders; above, it uses the normal
// approximation, which is good to the third digit there.
const exactRanks = 60

// mannWhitney tests whether x and y come from the same distribution, against one lying above the other: p is two-sided.
// U counts the pairs in which x is the larger, ties as half. Ties share mid-ranks; up to 60 values p is exact (the
// permutation distribution of the ranks seen), above it is the normal approximation with the correction for ties.
func mannWhitney(x, y []float64) (u, p float64, err error) {
	if len(x) == 0 || len(y) == 0 {
		return 0, 0, errors.New("a rank test needs at least one value on each side")
	}
	all := slices.Concat(x, y)
	if slices.ContainsFunc(all, math.IsNaN) {
		return 0, 0, errors.New("a rank test cannot order NaN")
	}
	doubled, ties := doubledRanks(all)
	sum := 0
	for _, r := range doubled[:len(x)] {
		sum += r
	}
	n, m := float64(len(x)), float64(len(y))
	u = float64(sum)/2 - n*(n+1)/2
	if len(all) <= exactRanks && ties == 0 {
		below := 0.0
		for at, share := range rankSums(len(x), len(y)) {
			if float64(at) <= min(u, n*m-u) {
				below += share
			}
		}
		return u, min(1, 2*below), nil
	}
	if len(all) <= exactRanks {
		return u, exactRankP(doubled, len(x), sum), nil
	}
	total := n + m
	sigma := math.Sqrt(n * m / 12 * (total + 1 - ties/(total*(total-1))))
	if sigma == 0 {
		return u, 1, nil
	}
	z := max(0, math.Abs(u-n*m/2)-0.5) / sigma
	return u, math.Erfc(z / math.Sqrt2), nil
}

// doubledRanks gives twice the mid-rank of each value (an integer) and the sum of t³-t over groups of t ties.
func doubledRanks(values []float64) (doubled []int, ties float64) {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	doubled = make([]int, len(values))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && values[order[j]] == values[order[i]] {
			j++
		}
		for _, at := range order[i:j] {
			doubled[at] = i + 1 + j
		}
		t := float64(j - i)
		ties += t*t*t - t
		i = j
	}
	return doubled, ties
}

// exactRankP is the share of all choices of n ranks whose sum lies at least as far from its mean as sum.
func exactRankP(doubled []int, n, sum int) float64 {
	total := 0
	for _, r := range doubled {
		total += r
	}
	// The mean is n/len of the total; compare in integers.
	far := func(s int) int { return max(s*len(doubled)-n*total, n*total-s*len(doubled)) }
	extreme := 0.0
	for s, share := range choices(doubled, n) {
		if far(s) >= far(sum) {
			extreme += share
		}
	}
	return min(1, extreme)
}

// smallestP is the smallest p that mannWhitney can give for n and m values: 2 of all orders. Where it is not below the
// level asked for there are too few values to tell anything.
func smallestP(n, m int) float64 {
	return min(1, 2*math.Exp(-logChoose(n+m, n)))
}
