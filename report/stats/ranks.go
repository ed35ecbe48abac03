package stats

import (
	"math"
)

// null is the distribution of a count where there is no difference. It is symmetric about its mean.
type null struct {
	// the probability of each count; nil: there are many values, and the distribution is taken as normal
	shares      []float64
	mean, sigma float64
}

// The largest numbers of values with an exact distribution. For more, the normal one is good to the third digit.
const (
	exactRankSum = 60
	exactSigns   = 200
)

// rankSum is the distribution of Mann and Whitney's count: of the n·m pairs with a value of each side, how many have
// the smaller value on the second side.
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

// signs is the distribution of the sum of the ranks with a positive sign, where both signs are equally likely. The sum
// is that of Wilcoxon's test or, where all ranks are 1, of the sign test.
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

// bounds gives a k and a coverage: the interval from the k-th smallest to the k-th largest of the values, differences
// or means covers at least the confidence. Where k is not positive, there is no such interval.
func (d null) bounds(confidence float64) (k int, covered float64) {
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

// p is the two-sided probability of a count: of one as small or smaller, and of its mirror image on the large side.
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

// LeastRuns is how many runs on each side an interval of this confidence takes at least. With n runs on each side, the
// rarest order is one of (2n)! / (n!)^2.
func LeastRuns(confidence float64) int {
	return least(confidence, func(n float64) float64 { return n / (4*n - 2) })
}

// LeastPairs is how many pairs an interval of this confidence takes at least.
func LeastPairs(confidence float64) int {
	return least(confidence, func(float64) float64 { return 0.5 })
}
