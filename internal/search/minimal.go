package search

import (
	"fmt"
	"maps"
	"slices"
)

// symptom is what is wrong with a bad point.
type symptom struct {
	*hunt
	counter string // that moves; empty: its rate is low
	known   map[string]verdict
}

// verdict is whether a point shows a symptom.
type verdict int

const (
	untold verdict = iota // it breaks a rule, or its test fails
	good
	bad
)

// shows tells whether figures have the symptom.
func (y *symptom) shows(p Point, f Figures) bool {
	if y.counter != "" {
		n := f.Counters[y.counter]
		return n > counted && n > 3*y.noise[y.counter]
	}
	return f.Value < slow*y.expected(p)
}

// follow reduces a point to its minimal set and confirms it, if it is bad.
func (h *hunt) follow(p Point, f Figures) {
	y := &symptom{hunt: h}
	for _, y.counter = range slices.Concat([]string{""}, slices.Sorted(maps.Keys(f.Counters))) {
		if y.shows(p, f) {
			break
		}
	}
	again := func() bool { y.known = map[string]verdict{}; return y.is(p) == bad } // once is noise
	if !y.shows(p, f) || h.over() || !again() {
		return
	}
	a := Anomaly{Counter: y.counter, FoundAt: len(h.steps)}
	p = y.simplified(p)
	a.Bad, a.Good = p, p
	for d := range p {
		c, neighbour := y.extent(p, d)
		if neighbour == nil { // it is bad at all values that go with the others
			continue
		}
		a.Rule = append(a.Rule, c)
		if slices.Equal(a.Good, p) || h.Space.Dimensions[d].Cost != AnyCost {
			a.Good = neighbour
		}
	}
	if h.over() || len(a.Rule) == 0 {
		return
	}
	h.refine(a.Good)
	if h.refine(p); !again() { // its values cost more than a look at each had shown
		return
	}
	y.confirm(&a)
	switch {
	case h.over():
	case !a.Confirmed && slices.ContainsFunc(h.out.Unproven, func(b Anomaly) bool { return b.Rule.String() == a.Rule.String() }):
	case !a.Confirmed:
		h.out.Unproven = append(h.out.Unproven, a)
	default:
		if h.out.Found = append(h.out.Found, a); len(h.out.Found) == h.Enough {
			h.err = ErrEnough
		}
	}
}

// confirm measures the simplest bad point beside its neighbour, in pairs. Where tests scatter the pairs are judged together.
func (y *symptom) confirm(a *Anomaly) {
	from, n := len(y.steps), confirmations
	if y.votes > 1 {
		n = judgePairs
	}
	a.Pairs = y.pairs(a.Good, a.Bad, n)
	right := 0
	for _, step := range y.steps[from:] {
		isBad := slices.Equal(step.Point, a.Bad)
		if step.Failure == "" && isBad == y.shows(step.Point, step.Figures) {
			right++
		}
		switch {
		case !isBad:
		case y.counter != "":
			a.Share += step.Figures.Counters[y.counter] / float64(n)
		default:
			a.Share += step.Figures.Value / y.expected(a.Bad) / float64(n)
		}
	}
	jump, least := 1+a.Pairs.Change, leastJump
	if y.votes > 1 && y.counter == "" && a.Pairs.Interval != nil { // single tests say little
		right, jump, least = 2*n, 1+a.Pairs.Interval.High, leastNoisyJump
	}
	jump *= y.expected(a.Good) / y.expected(a.Bad) // beyond what the two are expected to differ by
	a.Confirmed = right == 2*n && (y.counter != "" || jump < least)
}

// is measures a point, again where it lies near the limit, and remembers the answer.
func (y *symptom) is(p Point) verdict {
	key := fmt.Sprint(p)
	if v, known := y.known[key]; known {
		return v
	}
	if !slices.Equal(y.Space.repaired(p), p) {
		return untold
	}
	votes, n := 0, 0
	for n < 5 {
		f, ok := y.at(p)
		if !ok {
			return untold
		}
		if y.votes > 1 { // one test tells nothing
			f.Value = y.besides(p)
		}
		n++
		if y.shows(p, f) {
			votes++
		}
		share := f.Value / y.expected(p)
		if n%2 == 1 && (y.votes > 1 || y.counter != "" || share < slow*0.9 || share > slow*1.1) { // clear
			break
		}
	}
	v := good
	if 2*votes > n {
		v = bad
	}
	y.known[key] = v
	return v
}

// simplified puts back to the base what a bad point does not need.
func (y *symptom) simplified(p Point) Point {
	for d := 0; d < len(p); d++ {
		if q := p.with(d, y.base[d]); p[d] != y.base[d] && y.is(q) == bad {
			p, d = q, -1 // what did not go with the old value may go with this one
		}
	}
	return p
}

// extent is what a rule says of one dimension, and the nearest good point beside it; nil: there is none.
func (y *symptom) extent(p Point, d int) (Condition, Point) {
	dim := &y.Space.Dimensions[d]
	c := Condition{Dimension: dim.Name}
	var neighbour Point
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
	below, above := slices.Clone(dim.Values), slices.Clone(dim.Values)
	below = slices.DeleteFunc(below, func(v int) bool { return v >= p[d] })
	above = slices.DeleteFunc(above, func(v int) bool { return v <= p[d] })
	slices.Reverse(above)
	for _, side := range [][]int{below, above} { // its end first
		end := slices.IndexFunc(side, func(v int) bool { return y.is(p.with(d, v)) != untold })
		if end < 0 || y.is(p.with(d, side[end])) == bad {
			continue
		}
		last, first := y.edge(p, d, side[end])
		if first < p[d] {
			c.Low = &last
		} else {
			c.High = &last
		}
		neighbour = p.with(d, first)
	}
	return c, neighbour
}

// edge bisects between a bad value and a good one beyond it: the last bad value, and the first good one.
func (y *symptom) edge(p Point, d, end int) (last, first int) {
	dim := &y.Space.Dimensions[d]
	last, first = p[d], end
	for !y.over() {
		low, high := min(last, first), max(last, first)
		inside := slices.DeleteFunc(slices.Clone(dim.Values), func(v int) bool { return v <= low || v >= high })
		v := low + (high-low)/2
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
