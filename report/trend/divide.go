package trend

import (
	"math"
	"math/rand/v2"
	"slices"
)

// leastSegment is how many results lie between two changes at least: fewer are an outlier as likely as a new state.
const leastSegment = 3

// LeastResults are needed to find a change: two states.
const LeastResults = 2 * leastSegment

// divide finds the changes of one series: hierarchical division, in which each step takes the split with the largest energy
// statistic of all segments and keeps it where a permutation test finds fewer than a share of alpha orders that split as well.
type divide struct {
	values       []float64
	ranks        []int // of each value among the distinct ones, from 1
	distinct     []float64
	permutations int
	alpha        float64
	lot          *rand.Rand
	tree         tree
	apart        []float64 // work space: of each value of a segment, the sum of its distances to all others
}

// split is a place at which a segment divides: values before at lie in one part.
type split struct {
	at int
	q  float64
	p  float64 // of the permutation test
}

// newDivide prepares a series of finite values. The statistic does not depend on their unit.
func newDivide(values []float64, alpha float64, permutations int, lot *rand.Rand) *divide {
	largest := 0.0
	for _, v := range values {
		largest = max(largest, math.Abs(v))
	}
	d := &divide{values: make([]float64, len(values)), permutations: permutations, alpha: alpha, lot: lot}
	for i, v := range values {
		if largest > 0 {
			v /= largest // so that no sum of distances overflows
		}
		d.values[i] = v
	}
	d.distinct = slices.Compact(slices.Sorted(slices.Values(d.values)))
	d.ranks = make([]int, len(values))
	for i, v := range d.values {
		at, _ := slices.BinarySearch(d.distinct, v)
		d.ranks[i] = at + 1
	}
	d.tree = newTree(len(d.distinct))
	d.apart = make([]float64, len(values))
	return d
}

// first is the first split with its p, whether it stands or not; false where there are too few values for one.
func (d *divide) first() (split, bool) {
	segments := [][]int{d.ranks}
	s, ok := d.best(d.ranks)
	if ok {
		s.p = d.test(segments, s.q)
	}
	return s, ok
}

// all finds every change, in the order of the series, given the first, which stands.
func (d *divide) all(first split) []split {
	found := []split{first}
	for len(found) < len(d.values)/leastSegment {
		var segments [][]int
		best, from, ok := split{q: math.Inf(-1)}, 0, false
		bounds := []int{0}
		for _, s := range found {
			bounds = append(bounds, s.at)
		}
		bounds = append(bounds, len(d.values))
		slices.Sort(bounds)
		for i := range len(bounds) - 1 {
			segment := d.ranks[bounds[i]:bounds[i+1]]
			segments = append(segments, segment)
			if s, can := d.best(segment); can && s.q > best.q {
				best, from, ok = s, bounds[i], true
			}
		}
		if !ok {
			break
		}
		if best.p = d.test(segments, best.q); best.p > d.alpha {
			break
		}
		best.at += from
		found = append(found, best)
	}
	slices.SortFunc(found, func(a, b split) int { return a.at - b.at })
	return found
}

// test is the share of orders, drawn within the segments, whose best split is as good as q; the order seen is one of them. It
// ends early where the share cannot fall to alpha any more.
func (d *divide) test(segments [][]int, q float64) float64 {
	shuffled := make([][]int, len(segments))
	for i, s := range segments {
		shuffled[i] = slices.Clone(s)
	}
	enough := int(math.Ceil(d.alpha*float64(d.permutations+1))) + 1
	asGood := 0
	for drawn := 1; drawn <= d.permutations; drawn++ {
		most := math.Inf(-1)
		for _, s := range shuffled {
			d.lot.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
			if b, ok := d.best(s); ok {
				most = max(most, b.q)
			}
		}
		if most >= q*(1-1e-12) { // another order of the same sums
			if asGood++; asGood >= enough {
				return float64(asGood+1) / float64(drawn+1)
			}
		}
	}
	return float64(asGood+1) / float64(d.permutations+1)
}

// best is the split of a segment with the largest n·m/(n+m) · (2 mean|x-y| - mean|x-x'| - mean|y-y'|), x before and y after
// it. It takes n log n steps: the sums of distances follow from one place to the next.
func (d *divide) best(segment []int) (split, bool) {
	n := len(segment)
	if n < LeastResults {
		return split{}, false
	}
	d.tree.clear()
	for _, r := range segment {
		d.tree.add(r, d.distinct[r-1])
	}
	all := 0.0
	for i, r := range segment {
		d.apart[i] = d.tree.distances(r, d.distinct[r-1])
		all += d.apart[i]
	}
	all /= 2
	d.tree.clear()
	best := split{q: math.Inf(-1)}
	before, after := 0.0, all // sums of the distances within each part
	for i, r := range segment[:n-leastSegment] {
		v := d.distinct[r-1]
		near := d.tree.distances(r, v)
		before += near
		after -= d.apart[i] - near
		d.tree.add(r, v)
		if i+1 < leastSegment {
			continue
		}
		x, y := float64(i+1), float64(n-i-1)
		between := all - before - after
		q := x * y / (x + y) * (2*between/(x*y) - 2*before/(x*(x-1)) - 2*after/(y*(y-1)))
		if q > best.q {
			best = split{at: i + 1, q: q}
		}
	}
	return best, true
}

// tree holds values by their rank and tells their number and sum up to a rank (Fenwick).
type tree struct {
	counts []int
	sums   []float64
	count  int
	sum    float64
}

func newTree(ranks int) tree {
	return tree{counts: make([]int, ranks+1), sums: make([]float64, ranks+1)}
}

func (t *tree) clear() {
	clear(t.counts)
	clear(t.sums)
	t.count, t.sum = 0, 0
}

func (t *tree) add(rank int, v float64) {
	t.count++
	t.sum += v
	for ; rank < len(t.counts); rank += rank & -rank {
		t.counts[rank]++
		t.sums[rank] += v
	}
}

// distances is the sum of the distances from a value to all that are held.
func (t *tree) distances(rank int, v float64) float64 {
	count, sum := 0, 0.0
	for ; rank > 0; rank -= rank & -rank {
		count += t.counts[rank]
		sum += t.sums[rank]
	}
	return v*float64(count) - sum + (t.sum - sum) - v*float64(t.count-count)
}
