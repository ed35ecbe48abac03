package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/gobw/gobw/report/plain"
)

// null is the distribution of a sum of ranks where there is no difference. It is symmetric about its mean.
type null struct {
	shares      []float64 // of the orders that have each sum; nil: too many to count, the distribution is taken as normal
	mean, sigma float64
}

// Up to how many ranks orders are counted. Above, the normal distribution is good to the third digit.
const (
	exactChoices = 60
	exactSigns   = 200
)

// choicesSeen keeps the distributions that were computed: a comparison of many points asks for few.
var choicesSeen sync.Map //nolint:gochecknoglobals // a cache of constants: n and the ranks as text to []float64

// choices is the sum of n of the ranks, where each choice is as likely as any other: of Mann and Whitney's test.
func choices(ranks []int, n int) null {
	total, squares := sums(ranks)
	size, of := float64(len(ranks)), float64(n)
	mean := float64(total) / size
	d := null{mean: of * mean, sigma: math.Sqrt(max(squares/size-mean*mean, 0) * of * (size - of) / (size - 1))}
	if len(ranks) > exactChoices {
		return d
	}
	key := fmt.Sprint(n, slices.Sorted(slices.Values(ranks)))
	if seen, ok := choicesSeen.Load(key); ok {
		d.shares = seen.([]float64)
		return d
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
	d.shares = plain.Each(ways[n], func(w float64) float64 { return w / all })
	choicesSeen.Store(key, d.shares)
	return d
}

// signs is the sum of those ranks whose sign is positive, where both signs are as likely: of Wilcoxon's test, and where all ranks
// are 1 of the sign test.
func signs(ranks []int) null {
	total, squares := sums(ranks)
	d := null{mean: float64(total) / 2, sigma: math.Sqrt(squares) / 2}
	if len(ranks) > exactSigns {
		return d
	}
	d.shares = make([]float64, total+1)
	d.shares[0] = 1
	reached := 0
	for _, r := range ranks {
		reached += r
		for s := reached; s >= 0; s-- {
			d.shares[s] /= 2
			if s >= r {
				d.shares[s] += d.shares[s-r] / 2
			}
		}
	}
	return d
}

func sums(ranks []int) (total int, squares float64) {
	for _, r := range ranks {
		total += r
		squares += float64(r) * float64(r)
	}
	return total, squares
}

// order is how many of the lowest sums, and as many of the highest, lie outside of an interval that has at least the confidence, and
// the coverage reached: the k-th smallest and the k-th largest of what the ranks are of bound their median.
func (d null) order(confidence float64) (k int, covered float64) {
	if d.shares == nil {
		k = int(math.Floor(d.mean - math.Sqrt2*math.Erfinv(confidence)*d.sigma + 0.5))
		return k, 1 - math.Erfc((d.mean-float64(k)+0.5)/d.sigma/math.Sqrt2)
	}
	tail := 0.0
	for sum, share := range d.shares {
		tail += share
		if 1-2*tail < confidence {
			break
		}
		k, covered = sum+1, 1-2*tail
	}
	return k, covered
}

// p is the two-sided chance of a sum that lies at least as far from the mean. Ranks are doubled, so a step is 2.
func (d null) p(sum int) float64 {
	far := math.Abs(float64(sum) - d.mean)
	switch {
	case d.sigma == 0:
		return 1
	case d.shares == nil:
		return math.Erfc(max(far-1, 0) / d.sigma / math.Sqrt2)
	}
	p := 0.0
	for s, share := range d.shares {
		if math.Abs(float64(s)-d.mean) >= far-1e-9 {
			p += share
		}
	}
	return min(p, 1)
}

// doubledRanks are twice the mid-ranks of values, so that those of ties are whole.
func doubledRanks(values []float64) []int {
	order := plain.UpTo(0, len(values))
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	doubled := make([]int, len(values))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && values[order[j]] == values[order[i]] {
			j++
		}
		for _, at := range order[i:j] {
			doubled[at] = i + 1 + j
		}
		i = j
	}
	return doubled
}

func logChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

// least is how many runs on each side, or pairs, it takes at least for one of all orders to be as rare as the confidence asks for.
func least(pairs bool, confidence float64) int {
	n := 1
	for ; n < mostNeeded; n++ {
		rarest := 2 * math.Exp(-logChoose(2*n, n))
		if pairs {
			rarest = math.Ldexp(1, 1-n)
		}
		if 1-rarest >= confidence {
			break
		}
	}
	return n
}

// LeastRuns is how many runs on each side an interval of this confidence takes at least.
func LeastRuns(confidence float64) int { return least(false, confidence) }

// LeastPairs is how many pairs an interval of this confidence takes at least.
func LeastPairs(confidence float64) int { return least(true, confidence) }
