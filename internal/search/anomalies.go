package search

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

const (
	counted     = 0.001 // events per message that a counter should not have, beside thrice what the base has
	temperature = 0.05
	cooling     = 0.99
	suspect     = 1.06 // a rate below 1.06 times the limit of an anomaly is measured again
	baseTests   = 6
	doubtful    = 0.1  // a look within 10 % of the limit is repeated
	steady      = 1.15 // tests of one point differ by less: one look tells
	noisyLead   = 5    // on a noisy host one answer must lead by 5 looks
)

// hunt is one search for anomalies.
type hunt struct {
	*Search
	noise   map[string]float64 // the largest value of each counter in tests of the base
	top     [2]float64         // the most messages and bytes a second that any test had
	lead    int                // by how many looks one answer must lead
	slow    float64            // of the rate with a smaller value: an anomaly has less
	jump    claim              // what confirms that a point is slow
	refuted map[cause]int      // how often it was followed up for nothing
}

// cause is what may be wrong: a counter moves, or a test is slower with the bad value
// of a dimension than with the good one.
type cause struct {
	counter        string
	dim, good, bad int // -1, 0, 0 of a counter
}

// Anomalies looks for them until something ends it. More of a setting should not be slower: a larger depth, a larger
// MTU, longer lists. Nor should messages a second grow with the size, or bytes a second fall. Where a test breaks this,
// the two neighbouring values are found between which its rate falls, and the settings that the fall needs. Tests are
// chosen by annealing, towards what is slow.
func Anomalies(s *Search) {
	h := &hunt{
		Search: s, noise: map[string]float64{}, lead: 1, slow: 0.8, jump: claim{pairs: 6, least: 0.15, doubt: 0.05},
		refuted: map[cause]int{},
	}
	base := s.Space.Base()
	h.atLeast(base, baseTests)
	for _, step := range h.steps {
		for name, n := range step.Figures.Counters {
			h.noise[name] = max(h.noise[name], n)
		}
	}
	h.scatters()
	h.pass(base, false) // each setting alone
	h.Answer.Begun = !h.over()
	for !h.over() {
		h.pass(h.fresh(), true)
	}
}

// scatters tells whether tests of one point have begun to differ by much. From then on one look is not enough.
func (h *hunt) scatters() bool {
	for _, values := range h.results {
		if h.lead == 1 && slices.Max(values) > steady*slices.Min(values) {
			h.lead, h.slow, h.jump = noisyLead, 0.7, claim{pairs: 12, least: 0.25, doubt: 0.05}
			return true
		}
	}
	return false
}

// try measures a point, and follows up counters that should be still.
func (h *hunt) try(p Point) (Step, bool) {
	f, ok := h.at(p)
	if !ok {
		return Step{}, false
	}
	h.top[0], h.top[1] = max(h.top[0], f.Value), max(h.top[1], f.Value*h.bytes(p))
	limit := func(name string) float64 { return 2*counted + 3*h.noise[name] }
	var moved []string
	for name, n := range f.Counters {
		if counted+n > limit(name) {
			moved = append(moved, name)
		}
	}
	for _, name := range h.ranked(moved) {
		moves := func(q Point) (float64, bool) {
			f, ok := h.at(q)
			return limit(name) / (counted + f.Counters[name]), ok
		}
		if c := (cause{counter: name, dim: -1}); h.worthwhile(c, p) {
			if h.reduce(&symptom{Search: h.Search, lead: h.lead, doubt: doubtful, look: moves}, c, p) {
				h.refuted[c]--
			}
		}
	}
	return Step{Point: p, Figures: f}, true
}

// ranked sorts counters, the one first whose variance over its mean is the largest so far (Collie, NSDI'22): where
// several move for one cause, that one tells most.
func (h *hunt) ranked(names []string) []string {
	dispersion := map[string]float64{}
	for _, name := range names {
		sum, squares := 0.0, 0.0
		for _, s := range h.steps {
			n := s.Figures.Counters[name]
			sum, squares = sum+n, squares+n*n
		}
		dispersion[name] = squares/sum - sum/float64(len(h.steps))
	}
	slices.SortFunc(names,
		func(a, b string) int { return cmp.Or(cmp.Compare(dispersion[b], dispersion[a]), cmp.Compare(a, b)) })
	return names
}

// bytes of a message.
func (h *hunt) bytes(p Point) float64 {
	if s := h.Space.Size; s >= 0 {
		return float64(p[s])
	}
	return 1
}

// energy is the larger share of two bounds, the most messages and the most bytes a second
// that were seen; less where counters move.
func (h *hunt) energy(s Step) float64 {
	e := max(s.Figures.Value/h.top[0], s.Figures.Value*h.bytes(s.Point)/h.top[1])
	for _, name := range slices.Sorted(maps.Keys(s.Figures.Counters)) { // the same sum each time
		e -= math.Log1p(max(s.Figures.Counters[name]-h.noise[name], 0) / counted)
	}
	return e
}

// fresh is a random point that no known rule explains.
func (h *hunt) fresh() Point {
	p := h.Space.random(h.rng)
	for tries := 0; h.explained(p) && tries < 100; tries++ {
		p = h.Space.random(h.rng)
	}
	return p
}

// pass takes each dimension of a point to its ends and to a value between them, and looks at what changes. One that
// walks goes on from a point that is worse, and from one that is better with the probability of annealing.
func (h *hunt) pass(p Point, walks bool) {
	at, ok := h.try(p)
	t := temperature
	for _, d := range h.rng.Perm(len(p)) {
		if !ok {
			return
		}
		dim, tests := &h.Space.Dimensions[d], []Step{at}
		// between its ends a gain may hide a loss
		values := []int{dim.low(), dim.Values[h.rng.IntN(len(dim.Values))], dim.high()}
		if dim.Words != nil {
			values = []int{dim.draw(h.rng)}
		}
		for _, v := range values {
			q := h.Space.Moved(at.Point, d, v)
			if slices.ContainsFunc(tests, func(s Step) bool { return slices.Equal(s.Point, q) }) || h.explained(q) {
				continue
			}
			next, ok := h.try(q)
			if !ok {
				continue
			}
			if slices.Equal(q, at.Point.with(d, v)) {
				tests = append(tests, next)
			}
			if worse := h.energy(at) - h.energy(next); walks && (worse > 0 || h.rng.Float64() < math.Exp(worse/t)) {
				at = next
			}
			t *= cooling
		}
		slices.SortFunc(tests, func(a, b Step) int { return a.Point[d] - b.Point[d] })
		for i := range tests[1:] {
			h.compare(tests[i], tests[i+1], d)
		}
	}
}

// compare looks at two tests that differ in one dimension, of which the second has the larger value. It follows up the
// one that is slower and should not be.
func (h *hunt) compare(a, b Step, d int) {
	if h.Space.Dimensions[d].AnyCost {
		return
	}
	good, bad := a.Point[d], b.Point[d]
	if h.fall(d, good, bad, a.Figures.Value, b.Figures.Value) < suspect*h.slow {
		h.follow(b.Point, cause{dim: d, good: good, bad: bad})
	}
	if d == h.Space.Size && a.Figures.Value < suspect*h.slow*b.Figures.Value {
		h.follow(a.Point, cause{dim: d, good: bad, bad: good})
	}
}

// fall is the rate at the bad value of a dimension as a share of the rate at the good one. The rate is of bytes if the
// bad value is a larger size, else of messages.
func (h *hunt) fall(d, good, bad int, atGood, atBad float64) float64 {
	if d == h.Space.Size && bad > good {
		return atBad * float64(bad) / (atGood * float64(good))
	}
	return atBad / atGood
}

// worthwhile tells whether to follow up a cause at a point. A cause that was refuted is followed up ever more
// rarely. It counts as refuted until it holds.
func (h *hunt) worthwhile(c cause, p Point) bool {
	if h.explained(p) || h.rng.IntN(1+h.refuted[c]) > 0 {
		return false
	}
	h.refuted[c]++
	return true
}

// falls compares a point with the same point at the good value of a cause, in a pair of tests. Values beyond the good
// one are good, too. Sizes beyond the bad one are bad, since bytes a second grow with the size.
func (h *hunt) falls(c cause) func(q Point) (share float64, ok bool) {
	d, rising := c.dim, c.bad > c.good
	return func(q Point) (share float64, ok bool) {
		switch {
		case q[d] == c.good || q[d] > c.good != rising:
			return math.Inf(1), true
		case d == h.Space.Size && q[d] != c.bad && q[d] > c.bad == rising:
			return 0, true
		}
		points := [2]Point{q.with(d, c.good), q}
		if !slices.Equal(h.Space.repaired(points[0]), points[0]) {
			return 0, false
		}
		var f [2]Figures
		first := h.rng.IntN(2)
		for _, i := range []int{first, 1 - first} {
			if f[i], ok = h.at(points[i]); !ok {
				return 0, false
			}
		}
		return h.fall(d, c.good, q[d], f[0].Value, f[1].Value), true
	}
}

// left is the median of as many looks as tell.
func (h *hunt) left(p Point, c cause) float64 {
	look := h.falls(c)
	var shares []float64
	for range 2*h.lead - 1 {
		if share, ok := look(p.with(c.dim, c.bad)); ok {
			shares = append(shares, share)
		}
	}
	return median(shares)
}

// follow finds the neighbouring values between which the rate falls, and the settings that it needs.
func (h *hunt) follow(p Point, c cause) {
	if !h.worthwhile(c, p) {
		return
	}
	wide := c
	look := h.falls(c)
	below := func(limit float64, lead int) *symptom {
		return &symptom{Search: h.Search, lead: lead, doubt: doubtful, look: func(q Point) (float64, bool) {
			share, ok := look(q)
			return share / limit, ok
		}}
	}
	if below(suspect*h.slow, min(h.lead, 2)).is(p) != bad {
		return
	}
	left := h.left(p, c)
	if left == 0 || left > suspect*h.slow {
		return
	}
	last, first := below(math.Sqrt(left), h.lead).edge(p, c.dim, c.good)
	if _, between := h.Space.Dimensions[c.dim].middle(last, first); between { // it falls little by little
		return
	}
	c.good, c.bad = first, last
	look = h.falls(c)
	p = p.with(c.dim, c.bad)
	if left = h.left(p, c); left > 0 && left < h.slow && h.reduce(below(math.Sqrt(left), h.lead), c, p) {
		h.refuted[wide]--
	}
}

// reduce takes the settings that do not matter out of a bad point, tells the range of those that do, and confirms what
// is left. It tells whether that holds.
func (h *hunt) reduce(y *symptom, c cause, p Point) (holds bool) {
	from := p
	if y.is(p) != bad {
		return false
	}
	base := h.Space.Base()
	p = h.Space.reduced(p, func(d, _ int) []int {
		if d == c.dim {
			return nil
		}
		return base[d : d+1]
	}, func(q Point) bool { return (c.dim < 0 || q[c.dim] == p[c.dim]) && y.is(q) == bad })
	if c.dim >= 0 && c.dim == h.Space.Size { // where another setting shows it, too, that tells the sizes better
		for d := range p {
			if low := h.Space.Dimensions[d].low(); d != c.dim && p[d] > low && !h.Space.Dimensions[d].AnyCost {
				h.follow(p, cause{dim: d, good: low, bad: p[d]})
			}
		}
	}
	if h.explained(p) {
		return true
	}
	f, value := Finding{Counter: c.counter, Bad: p}, rate
	if c.dim < 0 {
		value = func(g Figures) float64 { return 1 / (counted + g.Counters[c.counter]) }
	}
	confirmed := func() bool {
		f.Pairs, holds = h.jump.holds(h.Search, f.Good, p, value)
		return holds
	}
	again := func() bool {
		y.known, y.lead = nil, h.lead
		return h.reduce(y, c, from)
	}
	if h.scatters() {
		return again()
	}
	if c.dim >= 0 {
		if f.Good = p.with(c.dim, c.good); !confirmed() {
			return false
		}
	}
	for d := range p {
		e, neighbour := y.extent(p, d)
		if neighbour == nil { // it is bad at all values that go with the others
			continue
		}
		f.Rule = append(f.Rule, e)
		if c.dim < 0 && (f.Good == nil || !h.Space.Dimensions[d].AnyCost) {
			f.Good = neighbour
		}
	}
	if h.scatters() {
		return again()
	}
	y.known = nil
	if f.Good == nil || h.over() || y.is(p) != bad { // once is noise
		return false
	}
	if c.dim < 0 && !confirmed() {
		return false
	}
	var events []float64
	for _, s := range h.steps {
		if slices.Equal(s.Point, p) {
			events = append(events, s.Figures.Counters[c.counter])
		}
	}
	f.Events = median(events)
	if h.over() {
		return false
	}
	h.Answer.Found = append(h.Answer.Found, f)
	return true
}

// explained tells whether a rule that was found holds. One that was not confirmed may be noise, and would hide much.
func (h *hunt) explained(p Point) bool {
	return slices.ContainsFunc(h.Answer.Found, func(f Finding) bool { return f.Rule.Holds(&h.Space, p) })
}
