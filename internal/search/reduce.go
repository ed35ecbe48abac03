package search

import (
	"fmt"
	"math"
	"slices"
)

// symptom tells bad points from good ones.
type symptom struct {
	*Search
	look  func(p Point) (share float64, ok bool) // below 1: this look says that the point is bad; not ok: it says nothing
	lead  int                                    // by how many looks one answer must lead; at least 1
	doubt float64                                // a share within this of 1 needs another look
	known map[string]verdict
	split int // undecided points: still tied after the last allowed look
}

// verdict is whether a point shows a symptom.
type verdict int

const (
	untold verdict = iota // it breaks a rule, or its test fails
	good
	bad
)

const (
	mostLooks = 15 // at a point
	mostEdges = 3  // that turn out to be none
	mostSplit = 2  // points near an edge: what falls little by little has none
)

// is tells whether a point is bad, and remembers the answer.
func (y *symptom) is(p Point) verdict {
	key := fmt.Sprint(p)
	if v, known := y.known[key]; known {
		return v
	}
	if !slices.Equal(y.Space.repaired(p), p) {
		return untold
	}
	lead, need := 0, y.lead
	for looks := 0; max(lead, -lead) < need && looks < mostLooks; looks++ {
		share, ok := y.look(p)
		switch {
		case !ok:
			return untold
		case math.Abs(share-1) <= y.doubt:
			need = max(need, 2)
		}
		if lead++; share < 1 {
			lead -= 2
		}
	}
	v := good
	if lead < 0 {
		v = bad
	}
	if max(lead, -lead) < need {
		y.split++
	}
	if y.known == nil {
		y.known = map[string]verdict{}
	}
	y.known[key] = v
	return v
}

// again asks once more if one look is not enough: a wrong answer would make a wrong rule.
func (y *symptom) again(p Point) verdict {
	if y.lead > 1 {
		delete(y.known, fmt.Sprint(p))
	}
	return y.is(p)
}

// reduced makes a point simpler. It gives each dimension the first of its values for which still holds, until no
// dimension changes.
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
			q := p.with(d, v)
			told := y.is(q)
			if told == good {
				told = y.again(q)
			}
			switch told {
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
				if y.again(p.with(d, v)) == bad {
					return nil
				}
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

// edge bisects between the value of a bad point and a good value. It returns the last bad and the first good value.
func (y *symptom) edge(p Point, d, end int) (last, first int) {
	dim := &y.Space.Dimensions[d]
	last, first = p[d], end
	most := y.split + mostSplit
	for tries := 0; !y.over() && tries < mostEdges && y.split < most; {
		v, found := dim.middle(last, first)
		switch {
		case found && y.is(p.with(d, v)) == bad:
			last = v
		case found:
			first = v
		case first != end && y.again(p.with(d, first)) == bad:
			tries, last, first = tries+1, first, end
		case last != p[d] && y.again(p.with(d, last)) == good:
			tries, last, first = tries+1, p[d], last
		default:
			return last, first
		}
	}
	return last, first
}

// middle is a value between two others, if there is one.
func (d *Dimension) middle(a, b int) (v int, found bool) {
	low, high := min(a, b), max(a, b)
	if inside := d.between(low, high); len(inside) > 0 {
		return inside[len(inside)/2], true
	}
	v = low + (high-low)/2
	return v, d.Fine && v > low
}

// between are the values between two others, of which neither is one.
func (d *Dimension) between(low, high int) []int {
	return slices.DeleteFunc(slices.Clone(d.Values), func(v int) bool { return v <= low || v >= high })
}
