package trend

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gobw/gobw/report/stats"
)

// leastSegment is how many results lie between two changes at least: fewer are an outlier as likely as a new state.
const leastSegment = 3

// LeastResults are needed to find a change: two states.
const LeastResults = 2 * leastSegment

// divide finds the changes of one series: by halves, each segment at the split with the largest statistic, where a
// permutation test finds fewer than a share of alpha of the segment's orders that split as well.
type divide struct {
	measured     []float64
	values       []float64 // those without outliers
	permutations int
	alpha        float64
	lot          *rand.Rand
}

// split is a place at which a segment divides: values before at lie in one part.
type split struct {
	at int
	q  float64
	p  float64 // of the permutation test
}

// newDivide prepares a series of finite values. The statistic does not depend on their unit. A value beyond Tukey's
// fences (one and a half times the range between the quartiles outside of it) counts as the fence: one bad night hides
// no change.
func newDivide(values []float64, alpha float64, permutations int, lot *rand.Rand) *divide {
	d := &divide{measured: values, values: slices.Clone(values), permutations: permutations, alpha: alpha, lot: lot}
	sorted := slices.Sorted(slices.Values(values))
	largest := max(math.Abs(sorted[0]), math.Abs(sorted[len(sorted)-1]), math.SmallestNonzeroFloat64)
	first, third := sorted[len(sorted)/4]/largest, sorted[len(sorted)*3/4]/largest
	reach := 1.5 * (third - first)
	for i, v := range values {
		d.values[i] = v / largest // so that no sum overflows
		if reach > 0 {
			d.values[i] = min(max(d.values[i], first-reach), third+reach)
		}
	}
	return d
}

// next is the best split of a segment, with its p, whether it stands or not; false where the segment is too short for
// one.
func (d *divide) next(from, to int) (best split, some bool) {
	if best, some = d.best(d.values[from:to]); some {
		best.p = 1
		if best.at += from; states(d.measured[from:best.at], d.measured[best.at:to]) {
			best.p = d.test(d.values[from:to], best.q)
		}
	}
	return best, some
}

// states tells whether two parts are two states: each has enough values that are nearer to its median than to the
// other's. Fewer are outliers.
func states(x, y []float64) bool {
	own, other := stats.Median(x), stats.Median(y)
	for _, part := range [][]float64{x, y} {
		near := 0
		for _, v := range part {
			if math.Abs(v-own) < math.Abs(v-other) {
				near++
			}
		}
		if near < leastSegment {
			return false
		}
		own, other = other, own
	}
	return true
}

// all finds every change of a segment, in the order of the series, given its best split, which stands. The segments
// beside it share alpha: one step is one change in all but one of twenty series.
func (d *divide) all(from, to int, first split) []split {
	found := []split{first}
	if s, some := d.next(from, first.at); some && s.p <= d.alpha/2 {
		found = slices.Concat(d.all(from, first.at, s), found)
	}
	if s, some := d.next(first.at, to); some && s.p <= d.alpha/2 {
		found = append(found, d.all(first.at, to, s)...)
	}
	return found
}

// test is the share of a segment's orders, drawn by lot, whose best split is as good as q; the order seen is one of
// them. It ends early where the share cannot fall to alpha any more.
func (d *divide) test(segment []float64, q float64) float64 {
	shuffled := slices.Clone(segment)
	enough := int(math.Ceil(d.alpha*float64(d.permutations+1))) + 1
	asGood := 0
	for drawn := 1; drawn <= d.permutations; drawn++ {
		d.lot.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if s, _ := d.best(shuffled); s.q >= q*(1-1e-12) { // another order of the same sums
			if asGood++; asGood >= enough {
				return float64(asGood+1) / float64(drawn+1)
			}
		}
	}
	return float64(asGood+1) / float64(d.permutations+1)
}

// best is the split of a segment with the largest n·m/(n+m) · (mean x - mean y)², n values x before and m values y
// after it: half of the energy statistic with the exponent 2, which is a squared distance of means, but for what of it
// depends on the spread alone.
func (d *divide) best(segment []float64) (split, bool) {
	n := len(segment)
	if n < LeastResults {
		return split{}, false
	}
	all := 0.0
	for _, v := range segment {
		all += v
	}
	best := split{q: math.Inf(-1)}
	before := 0.0
	for i, v := range segment[:n-leastSegment] {
		before += v
		x, y := float64(i+1), float64(n-i-1)
		apart := before/x - (all-before)/y
		if q := x * y / (x + y) * apart * apart; i+1 >= leastSegment && q > best.q {
			best = split{at: i + 1, q: q}
		}
	}
	return best, true
}
