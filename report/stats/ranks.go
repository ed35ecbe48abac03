package stats

import (
	"math"
)

// null is the distribution of a count where there is no difference. It is symmetric about its mean.
type null struct {
	// of the orders that have each count; nil: too many to count, the distribution is taken as normal
	shares      []float64
	mean, sigma float64
}

// Up to how many values orders are counted. Above, the normal distribution is good to the third digit.
const (
	exactRankSum = 60
	exactSigns   = 200
)

// rankSum is the number of the n·m pairs of values in which that of the second side is the smaller one: of Mann and
// Whitney's test.
func rankSum(n, m int) null {
	d := null{mean: float64(n*m) / 2, sigma: math.Sqrt(float64(n*m) * float64(n+m+1) / 12)}
	if n+m > exactRankSum {
		return d
	}
	ways := make([]float64, n*m+1) // the coefficients of the product of (1 - x^(m+i)) / (1 - x^i), i from 1 to n
	ways[0] = 1
	orders := 1.0
	for i := 1; i <= n; i++ {
		for s := n * m; s >= m+i; s-- {
			ways[s] -= ways[s-m-i]
		}
		for s := i; s <= n*m; s++ {
			ways[s] += ways[s-i]
		}
		orders *= float64(m+i) / float64(i)
	}
	for s := range ways {
		ways[s] /= orders
	}
	d.shares = ways
	return d
}

// signs is the sum of those ranks whose sign is positive, where both signs are as likely: of Wilcoxon's test, and where
// all ranks are 1 of the sign test.
func signs(ranks []int) null {
	total, squares := 0, 0.0
	for _, r := range ranks {
		total += r
		squares += float64(r) * float64(r)
	}
	d := null{mean: float64(total) / 2, sigma: math.Sqrt(squares) / 2}
	if len(ranks) > exactSigns {
		return d
	}
	d.shares = make([]float64, total+1)
	d.shares[0] = 1
	for _, r := range ranks {
		for s := total; s >= 0; s-- {
			d.shares[s] /= 2
			if s >= r {
				d.shares[s] += d.shares[s-r] / 2
			}
		}
	}
	return d
}

// order is how many of the lowest counts, and as many of the highest, lie outside of an interval that has at least the
// confidence, and the coverage reached: the k-th smallest and the k-th largest of what is counted bound their median.
func (d null) order(confidence float64) (k int, covered float64) {
	if d.shares == nil {
		k = int(math.Floor(d.mean - math.Sqrt2*math.Erfinv(confidence)*d.sigma + 0.5))
		return k, 1 - math.Erfc((d.mean-float64(k)+0.5)/d.sigma/math.Sqrt2)
	}
	tail := 0.0
	for count, share := range d.shares {
		tail += share
		if 1-2*tail < confidence {
			break
		}
		k, covered = count+1, 1-2*tail
	}
	return k, covered
}

// p is the two-sided chance of a count so small or smaller, and of one as large.
func (d null) p(count int) float64 {
	if d.shares == nil {
		return math.Erfc(max(d.mean-float64(count)-0.5, 0) / d.sigma / math.Sqrt2)
	}
	tail := 0.0
	for _, share := range d.shares[:min(count+1, len(d.shares))] {
		tail += share
	}
	return min(2*tail, 1)
}

// least is the smallest number of values whose rarest order is rare enough for the confidence. The n-th value
// multiplies the chance of that order by share(n).
func least(confidence float64, share func(n float64) float64) int {
	n, rarest := 0, 1.0
	for 1-2*rarest < confidence {
		n++
		rarest *= share(float64(n))
	}
	return n
}

// LeastRuns is how many runs on each side an interval of this confidence takes at least: one of the 2n over n orders is
// the rarest.
func LeastRuns(confidence float64) int {
	return least(confidence, func(n float64) float64 { return n / (4*n - 2) })
}

// LeastPairs is how many pairs an interval of this confidence takes at least.
func LeastPairs(confidence float64) int {
	return least(confidence, func(float64) float64 { return 0.5 })
}
