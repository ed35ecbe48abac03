package search

import (
	"fmt"
	"math"
	"slices"
)

// symptom is what is wrong with bad points: their value lies below a limit.
type symptom struct {
	*Search
	value func(f Figures) float64
	test  func(p Point) (value float64, ok bool) // nil: the value of one test
	limit func(p Point) float64
	doubt float64 // a value within this share of the limit is measured again
	twice bool    // so is one that is good: a test may be much faster than others of its point
	known map[string]verdict
}

// verdict is whether a point shows a symptom.
type verdict int

const (
	untold verdict = iota // it breaks a rule, or its test fails
	good
	bad
)

// mostTests of a point that lies near the limit.
const mostTests = 7

// is tells whether a point shows the symptom, by the median of its tests, and remembers the answer.
func (y *symptom) is(p Point) verdict {
	key := fmt.Sprint(p)
	if v, known := y.known[key]; known {
		return v
	}
	if !slices.Equal(y.Space.repaired(p), p) {
		return untold
	}
	var shares []float64 // of the limit
	for len(shares) < mostTests && (len(shares)%2 == 0 || math.Abs(median(shares)-1) <= y.doubt || y.twice && len(shares) == 1 && shares[0] > 1) {
		v, ok := y.tested(p)
		if !ok {
			return untold
		}
		shares = append(shares, v/y.limit(p))
	}
	v := good
	if median(shares) < 1 {
		v = bad
	}
	if y.known == nil {
		y.known = map[string]verdict{}
	}
	y.known[key] = v
	return v
}

func (y *symptom) tested(p Point) (float64, bool) {
	if y.test != nil {
		return y.test(p)
	}
	f, ok := y.at(p)
	return y.value(f), ok
}

// reduced is the smallest point that is still as it should be: each dimension takes the first of the values with which it is, until
// no dimension changes any more.
func (s *Space) reduced(p Point, values func(d, v int) []int, still func(q Point) bool) Point {
	tried := map[string]bool{fmt.Sprint(p): true}
	for d := 0; d < len(p); d++ {
		for _, v := range values(d, p[d]) {
			q := s.Moved(p, d, v)
			if key := fmt.Sprint(q); !tried[key] {
				if tried[key] = true; still(q) { // what did not go with the old value may go with this one
					p, d = q, -1
					break
				}
			}
		}
	}
	return p
}

// extent is what a rule says of one dimension, and the nearest good point beside it; nil: there is none.
func (y *symptom) extent(p Point, d int) (c Condition, neighbour Point) {
	dim := &y.Space.Dimensions[d]
	c.Dimension = dim.Name
	if dim.Words != nil {
		for _, v := range dim.Values {
			switch q := p.with(d, v); y.is(q) {
			case bad:
				c.Words = append(c.Words, dim.Word(v))
			case good:
				neighbour = q
			case untold:
			}
		}
		return c, neighbour
	}
	bound := func(values []int) *int { // on the side of these, the end first
		for _, v := range values {
			switch y.is(p.with(d, v)) {
			case bad:
				return nil
			case good:
				last, first := y.edge(p, d, v)
				neighbour = p.with(d, first)
				return &last
			case untold:
			}
		}
		return nil
	}
	below := dim.between(math.MinInt, p[d])
	above := dim.between(p[d], math.MaxInt)
	slices.Reverse(above)
	c.Low, c.High = bound(below), bound(above)
	return c, neighbour
}

// edge bisects between the value of a bad point and a good one beyond it: the last bad value, and the first good one.
func (y *symptom) edge(p Point, d, end int) (last, first int) {
	dim := &y.Space.Dimensions[d]
	last, first = p[d], end
	for !y.over() {
		low, high := min(last, first), max(last, first)
		inside, v := dim.between(low, high), low+(high-low)/2
		switch {
		case len(inside) > 0:
			v = inside[len(inside)/2]
		case !dim.Fine || v == low:
			return last, first
		}
		if y.is(p.with(d, v)) == bad {
			last = v
		} else {
			first = v
		}
	}
	return last, first
}

// between are the values between two others, of which neither is one.
func (d *Dimension) between(low, high int) []int {
	return slices.DeleteFunc(slices.Clone(d.Values), func(v int) bool { return v <= low || v >= high })
}
