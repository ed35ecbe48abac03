package search

import "slices"

// symptom is what makes a point bad.
type symptom struct {
	*hunt
	counter string // empty: its rate
	known   []verdict
}

type verdict struct {
	p   Point
	bad bool
}

// wrong names what is wrong with a point's figures: "" is its rate.
func (h *hunt) wrong(p Point, f Figures) (counters []string, slowed bool) { //nolint:nonamedreturns // they tell which is which
	for name, n := range f.Counters {
		if n > counted && n > 3*h.noise[name] {
			counters = append(counters, name)
		}
	}
	slices.Sort(counters)
	return counters, f.Value < slow*h.expected(p)
}

// look measures a point and follows up what is wrong with it.
func (h *hunt) look(p Point) bool {
	n := len(h.out.Found)
	h.try(p)
	return len(h.out.Found) > n
}

// follow reduces a bad point to its minimal set and confirms it.
func (h *hunt) follow(p Point, f Figures) {
	counters, slowed := h.wrong(p, f)
	if len(counters) == 0 && !slowed || h.over() {
		return
	}
	y := &symptom{hunt: h}
	if !slowed {
		y.counter = counters[0]
	}
	a := Anomaly{Counter: y.counter, FoundAt: len(h.steps)}
	if !y.bad(p) { // once is noise
		return
	}
	a.Bad, a.Rule, a.Good = y.reduce(p)
	if h.over() || len(a.Rule) == 0 {
		return
	}
	y.known = nil
	if h.refine(a.Bad); !y.bad(a.Bad) { // its values cost more than a look at each had shown
		return
	}
	y.confirm(&a)
	if h.over() {
		return
	}
	if a.Confirmed {
		if h.out.Found = append(h.out.Found, a); len(h.out.Found) >= h.enough {
			h.err = errEnough
		}
	} else {
		h.out.Unproven = append(h.out.Unproven, a)
	}
}

// confirm measures the simplest bad point beside its neighbour, in pairs.
func (y *symptom) confirm(a *Anomaly) {
	from := len(y.steps)
	if slices.Equal(a.Good, a.Bad) {
		return
	}
	a.Pairs = y.pairs(a.Good, a.Bad, confirmations)
	bad, good, n := 0, 0, 0
	for _, step := range y.steps[from:] {
		if step.Failure != "" {
			continue
		}
		wrong := y.isBad(step.Point, step.Figures)
		switch {
		case !slices.Equal(step.Point, a.Bad):
			if !wrong {
				good++
			}
			continue
		case wrong:
			bad++
		}
		n++
		share := step.Figures.Value / y.expected(a.Bad)
		if y.counter != "" {
			share = step.Figures.Counters[y.counter]
		}
		a.Share += (share - a.Share) / float64(n)
	}
	jump := (1 + a.Pairs.Change) * y.expected(a.Good) / y.expected(a.Bad) // beyond what the two are expected to differ by
	a.Confirmed = bad == confirmations && good == confirmations && (y.counter != "" || jump < leastJump)
}

func (y *symptom) isBad(p Point, f Figures) bool {
	counters, slowed := y.wrong(p, f)
	if y.counter != "" {
		return slices.Contains(counters, y.counter)
	}
	return slowed
}

// bad measures a point, again where it lies near the limit, and remembers the answer. One that cannot be measured is not bad.
func (y *symptom) bad(p Point) bool {
	for _, v := range y.known {
		if slices.Equal(v.p, p) {
			return v.bad
		}
	}
	votes, n := 0, 0
	for n < 5 {
		f, ok := y.at(p)
		if !ok {
			break
		}
		n++
		if y.isBad(p, f) {
			votes++
		}
		share := f.Value / y.expected(p)
		if n%2 == 1 && (y.counter != "" || share < slow*0.9 || share > slow*1.1 || n == 5) { // clear, or voted on
			break
		}
	}
	is := 2*votes > n
	y.known = append(y.known, verdict{p, is})
	return is
}

// moved tells whether a point stays bad with some dimensions changed. What a repair changes back tells nothing.
func (y *symptom) moved(p Point, changed []int, to func(d int) int) (Point, bool) {
	q := slices.Clone(p)
	for _, d := range changed {
		q[d] = to(d)
	}
	if slices.Equal(p, q) {
		return p, true
	}
	if r := y.Space.repaired(q); !slices.Equal(r, q) || y.over() {
		return q, false
	}
	return q, y.bad(q)
}

// reduce finds which dimensions a bad point needs, and of each the interval. First what differs from the base goes back to it, in
// groups; then what stands at the base's value is moved away from it, in groups; then the edges of what is needed are bisected.
func (y *symptom) reduce(p Point) (Point, Rule, Point) {
	var differ []int
	for d := range p {
		if p[d] != y.base[d] {
			differ = append(differ, d)
		}
	}
	for group := (len(differ) + 1) / 2; group >= 1; group /= 2 {
		for from := 0; from < len(differ); from += group {
			if q, bad := y.moved(p, differ[from:min(from+group, len(differ))], func(d int) int { return y.base[d] }); bad {
				p = q
			}
		}
		differ = slices.DeleteFunc(differ, func(d int) bool { return p[d] == y.base[d] })
	}
	var rest []int
	for d := range p {
		if !slices.Contains(differ, d) {
			rest = append(rest, d)
		}
	}
	needed := append(differ, y.pinned(p, rest)...)
	slices.Sort(needed)
	var rule Rule
	good := p
	for _, d := range needed {
		c, neighbour := y.extent(p, d)
		if neighbour == nil { // it is bad at all values that go with the others
			continue
		}
		rule = append(rule, c)
		if slices.Equal(good, p) || y.Space.Dimensions[d].Cost != AnyCost {
			good = neighbour
		}
	}
	return p, rule, good
}

// pinned are the dimensions of a group that must keep the base's value: the point is good with one of the others.
func (y *symptom) pinned(p Point, group []int) []int {
	if len(group) == 0 || y.over() {
		return nil
	}
	rounds := 0
	for _, d := range group {
		rounds = max(rounds, len(y.others(p, d)))
	}
	for round := range rounds {
		_, bad := y.moved(p, group, func(d int) int {
			others := y.others(p, d)
			if len(others) == 0 {
				return p[d]
			}
			return others[round%len(others)]
		})
		switch {
		case bad:
		case len(group) == 1 && y.allowed(p, group[0], y.others(p, group[0])[round]):
			return group
		case len(group) > 1:
			return append(y.pinned(p, group[:len(group)/2]), y.pinned(p, group[len(group)/2:])...)
		}
	}
	return nil
}

// allowed tells whether a value goes with the rest of the point, and can be measured there.
func (y *symptom) allowed(p Point, d, v int) bool {
	q := p.with(d, v)
	if !slices.Equal(y.Space.repaired(q), q) {
		return false
	}
	y.bad(q)
	return !slices.ContainsFunc(y.steps, func(s Step) bool { return s.Failure != "" && slices.Equal(s.Point, q) })
}

// others are the values to which a dimension is moved to see whether it matters: both ends, or all words.
func (y *symptom) others(p Point, d int) []int {
	dim := &y.Space.Dimensions[d]
	values := []int{dim.low(), dim.high()}
	if dim.Words != nil {
		values = slices.Clone(dim.Values)
	}
	return slices.Compact(slices.DeleteFunc(values, func(v int) bool { return v == p[d] }))
}

// extent is what a rule says of one dimension, and the nearest good point beside it.
func (y *symptom) extent(p Point, d int) (Condition, Point) {
	dim := &y.Space.Dimensions[d]
	c := Condition{Dimension: dim.Name}
	var good Point
	if dim.Words != nil {
		for _, v := range dim.Values {
			if !y.allowed(p, d, v) {
				continue
			}
			if q, bad := y.moved(p, []int{d}, func(int) int { return v }); bad {
				c.Words = append(c.Words, dim.Word(v))
			} else {
				good = q
			}
		}
		return c, good
	}
	for _, down := range []bool{true, false} {
		end := y.furthest(p, d, down)
		if p[d] == end {
			continue
		}
		if _, bad := y.moved(p, []int{d}, func(int) int { return end }); bad && !y.goodBase(p, d, end) {
			continue
		}
		last, first := y.edge(p, d, end)
		if end < p[d] {
			c.Low = &last
		} else {
			c.High = &last
		}
		good = p.with(d, first)
	}
	return c, good
}

// furthest is the last value in one direction that goes with the rest of the point.
func (y *symptom) furthest(p Point, d int, down bool) int { //nolint:revive // a direction, not a mode
	values := slices.Clone(y.Space.Dimensions[d].Values)
	if !down {
		slices.Reverse(values)
	}
	for _, v := range values {
		if down == (v < p[d]) && v != p[d] && y.allowed(p, d, v) {
			return v
		}
	}
	return p[d]
}

// goodBase tells whether the base lies between a value and an end, and is good: then so is not all that way.
func (y *symptom) goodBase(p Point, d, end int) bool {
	b := y.base[d]
	if b <= min(p[d], end) || b >= max(p[d], end) {
		return false
	}
	_, bad := y.moved(p, []int{d}, func(int) int { return b })
	return !bad
}

// edge bisects between a bad value and the end beyond which it is good: the last bad value, and the first good one.
func (y *symptom) edge(p Point, d, end int) (last, first int) {
	dim := &y.Space.Dimensions[d]
	if y.goodBase(p, d, end) {
		end = y.base[d]
	}
	last, first = p[d], end
	isBad := func(v int) bool {
		_, bad := y.moved(p, []int{d}, func(int) int { return v })
		return bad
	}
	for {
		lo, hi := min(last, first), max(last, first)
		var inside []int
		for _, v := range dim.Values {
			if v > lo && v < hi {
				inside = append(inside, v)
			}
		}
		v := lo + (hi-lo)/2
		switch {
		case len(inside) > 0:
			v = inside[len(inside)/2]
		case !dim.Fine || v == lo:
			return last, first
		}
		if y.over() {
			return last, first
		}
		if isBad(v) {
			last = v
		} else {
			first = v
		}
	}
}
