package search

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

const (
	unclear     = 0.1   // of that limit: a point as near to it is measured again
	counted     = 0.001 // events per message that a counter should not have, beside thrice what the sweep had
	freshPoints = 12    // random points, of which the worst is annealed
	annealSteps = 12    // from it, without a worse one
	temperature = 0.05
	cooling     = 0.99
	baseTests   = 4
	costTests   = 2
	alike       = 1.1  // two tests of a point that differ by less agree
	steady      = 1.15 // the spread of the base's tests, where one test tells
	calm        = 1.3  // two costs that differ by less may differ by noise, where pairs tell
	gaugeTests  = 20   // of the base, to see which rate it keeps
	rare        = 8    // one in so many tests is not rare
	mostWaits   = 30   // tests of the base, until its usual rate comes back
	lately      = 5 * gaugeTests
	mostAgree   = 5
	mostVotes   = 9
)

// hunt is a search for anomalies.
type hunt struct {
	*Search
	base   Point
	sizes  [2]int             // of messages, at which each value is measured
	plain  [2]float64         // seconds of a message of each, at the base
	costs  [][][2]float64     // per dimension, of each of its values: how many times the base's, at each size
	noise  map[string]float64 // the most that the sweep had of each counter
	slow   float64            // of what is expected: below it a point is an anomaly
	same   float64            // two costs that differ by less may differ by noise
	slowed [2]float64         // what is left of the base's usual rate, where that did not come back for long; 0: it has
	faster bool               // the base is, than the sweep took it to be
	alone  bool               // one test tells a point's rate; else one between two tests of the base that tell the same speed, or votes
	votes  int                // pairs that tell it; 1: none are needed
	jump   claim              // of an anomaly beside its neighbour: what slows down little by little is none
}

// Anomalies looks for them until something ends it. First each dimension is swept alone, from the base: what a value costs by
// itself is expected where it meets others. Then points are drawn and annealed towards what is slower than the costs of their
// values together.
func Anomalies(s *Search) {
	h := &hunt{Search: s, base: s.Space.Base(), noise: map[string]float64{}, slow: 0.8, same: alike, alone: true, votes: 1, jump: claim{pairs: 6, least: 0.15, doubt: 0.05}}
	h.sweep()
	h.Answer.Begun = !h.over()
	var swept []Step
	for _, step := range h.steps {
		step.Figures.Value = h.median(step.Point)
		if step.Figures.Value > 0 && !slices.ContainsFunc(swept, func(o Step) bool { return slices.Equal(o.Point, step.Point) }) {
			swept = append(swept, step)
		}
	}
	slices.SortStableFunc(swept, func(a, b Step) int { return cmp.Compare(h.energy(a), h.energy(b)) })
	for _, step := range swept { // a value may be slow alone where nothing explains it; what is worst is least likely to be noise
		h.follow(step)
	}
	for !h.over() {
		h.anneal(h.fresh())
	}
}

// sweep measures what each value costs alone, at a small and at a large size.
func (h *hunt) sweep() {
	dims := h.Space.Dimensions
	if s := h.Space.Size; s >= 0 {
		h.sizes = [2]int{dims[s].low(), dims[s].high()}
	}
	for tests := 1; tests <= baseTests || tests <= gaugeTests && !h.alone; tests++ {
		for _, size := range h.sizes {
			p := h.sized(h.base, size)
			h.atLeast(p, tests)
			h.alone = h.alone && apart(h.values(p)) < steady
		}
	}
	spread, gauges := 1.0, true
	for k, size := range h.sizes {
		values := h.values(h.sized(h.base, size))
		h.plain[k] = 1 / median(values)
		if n := len(values); n > 0 && !h.alone {
			usual := kept(values)
			slices.Sort(values)
			if gauges = gauges && usual > 0; !gauges { // what disturbs a test makes it slower
				usual = values[n-1-n/6]
			}
			h.plain[k] = 1 / usual
			spread = max(spread, values[n-1-n/8]/values[n/8])
		}
	}
	if !h.alone {
		h.jump = claim{pairs: 12, least: 0.15, doubt: 0.05}
	}
	for ; !gauges && spread > calm && h.votes < mostVotes; spread /= calm {
		h.votes, h.slow, h.same, h.jump = h.votes+2, max(h.slow*0.8, 0.5), calm, claim{pairs: 12, least: 0.3, doubt: 0.01} // what is expected is not known better
	}
	h.faster = false
	h.costs = make([][][2]float64, len(dims))
	for d := range dims {
		h.costs[d] = slices.Repeat([][2]float64{{1, 1}}, len(dims[d].Values))
	}
	for d := range dims {
		base, last := dims[d].near(h.base[d]), len(dims[d].Values)-1
		h.price(d, 0, 1)
		h.price(d, last, 1)
		h.sweepBetween(d, 0, base)
		h.sweepBetween(d, base, last)
		if h.faster {
			break
		}
	}
	if h.alone && slices.ContainsFunc(h.steps, func(step Step) bool { return apart(h.values(step.Point)) > calm }) { // it is not so steady after all
		h.alone, h.faster = false, true
	}
	if h.faster {
		h.sweep()
		return
	}
	for _, step := range h.steps {
		for name, n := range step.Figures.Counters {
			h.noise[name] = max(h.noise[name], n)
		}
	}
}

// kept is the fastest rate that a point keeps: two of its tests in a row have it, but for small differences, and that is not rare.
// 0: there is none.
func kept(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	for n := len(sorted); n > 0; n-- {
		from, _ := slices.BinarySearch(sorted, sorted[n-1]/alike)
		inside, pairs := func(v float64) bool { return v >= sorted[from] && v <= sorted[n-1] }, 0
		for i := range values[1:] {
			if inside(values[i]) && inside(values[i+1]) {
				pairs++
			}
		}
		if rare*pairs >= len(values) {
			return median(sorted[from:n])
		}
	}
	return 0
}

// apart is how many times the slowest of some tests the fastest is.
func apart(values []float64) float64 {
	if len(values) == 0 {
		return 1
	}
	return slices.Max(values) / slices.Min(values)
}

// sweepBetween prices the values between two, of which those between equal ends cost the same.
func (h *hunt) sweepBetween(d, low, high int) {
	c, middle := h.costs[d], (low+high)/2
	switch {
	case middle == low:
	case h.Space.Dimensions[d].Words == nil && h.near(c[low][0]/c[high][0]) && h.near(c[low][1]/c[high][1]):
		for i := low + 1; i < high; i++ {
			c[i] = [2]float64{max(c[low][0], c[high][0]), max(c[low][1], c[high][1])}
		}
	default:
		h.price(d, middle, 1)
		h.sweepBetween(d, low, middle)
		h.sweepBetween(d, middle, high)
	}
}

// price measures what a value costs beside the base's, with more tests where one says that it costs something.
func (h *hunt) price(d, i, tests int) {
	v := h.Space.Dimensions[d].Values[i]
	p := h.Space.Moved(h.base, d, v)
	if d == h.Space.Size || p[d] != v || v == h.base[d] { // it does not go with the base, or is its own
		return
	}
	for k, size := range h.sizes {
		c := h.ratio(h.sized(p, size), k, tests)
		if tests == 1 && !h.near(c) && (c < 1 || !h.gauges()) {
			c = h.ratio(h.sized(p, size), k, costTests)
		}
		if tests < baseTests && h.near(c) { // of many dimensions the noise would add up
			c = 1
		}
		if k == 1 { // bytes cost at least what the base's do
			c = max(c, 1)
		}
		if !h.over() && !math.IsInf(c, 0) {
			h.costs[d][i][k] = c
		}
	}
}

// ratio is how many times the base's time a point takes at a size of the sweep.
func (h *hunt) ratio(p Point, k, tests int) float64 {
	if !h.alone {
		var values []float64
		for range 2*(tests/baseTests) + 1 {
			v, _ := h.rate(p)
			values = append(values, v*h.plain[k])
		}
		return 1 / median(values)
	}
	return 1 / h.atLeast(p, tests) / h.plain[k]
}

// near tells whether a ratio is 1 but for the noise of tests.
func (h *hunt) near(ratio float64) bool { return ratio < h.same && ratio*h.same > 1 }

// refine measures the costs by which a point is judged as often as the base's.
func (h *hunt) refine(p Point) {
	for d, v := range p {
		small, large := h.cheapest(d, v, 0), h.cheapest(d, v, 1)
		for _, i := range slices.Compact([]int{h.Space.Dimensions[d].near(v), small, large}) {
			h.price(d, i, baseTests)
		}
	}
}

// sized is a point with messages of another size.
func (h *hunt) sized(p Point, size int) Point {
	if s := h.Space.Size; s >= 0 {
		return h.Space.repaired(p.with(s, size))
	}
	return p
}

// rate is what a test of a point gives, or two that agree where the speed of the machine changes. Where the base keeps no rate, a test
// that gives about what is expected tells that. Else the rate is the base's at a size of the sweep, times the ratio to it in pairs.
func (h *hunt) rate(p Point) (float64, bool) {
	f, ok := h.at(p)
	switch {
	case !ok:
		return 0, false
	case h.alone:
		return f.Value, true
	case h.votes == 1:
		return h.agreed(p, f)
	case h.near(f.Value / h.expected(p)):
		return h.expected(p), true
	}
	k := h.nearer(p)
	e := h.pairs(h.sized(h.base, h.sizes[k]), p, h.votes, rate)
	return (1 + e.Change) / h.plain[k], e.N > 0
}

// nearer is the size of the sweep at which the base takes most of what it takes at a point's.
func (h *hunt) nearer(p Point) int {
	if h.share(p)*(h.plain[1]-h.plain[0]) > h.plain[0] {
		return 1
	}
	return 0
}

// share is how far a point's size lies between those of the sweep.
func (h *hunt) share(p Point) float64 {
	if s := h.Space.Size; s >= 0 {
		return float64(p[s]-h.sizes[0]) / float64(h.sizes[1]-h.sizes[0])
	}
	return 0
}

// gauges tells whether tests of the base tell the speed of the machine.
func (h *hunt) gauges() bool { return !h.alone && h.votes == 1 }

// gauged repeats the test of a point until it gives what is expected, or lies between two tests of the base that tell the same speed of
// the machine. It waits for the usual speed. Where that does not come back for long, the speed that the machine has now will do: the
// point would be as much faster at the usual one.
func (h *hunt) gauged(p Point, v float64) float64 {
	if v*h.same >= h.expected(p) {
		return v
	}
	k := h.nearer(p)
	base, before := h.sized(h.base, h.sizes[k]), 0.0
	if last := h.steps[max(len(h.steps)-2, 0)]; slices.Equal(last.Point, base) {
		before = h.speed(last.Figures, k)
	}
	for waits := range 2 * mostWaits {
		f, _ := h.at(base)
		after := h.speed(f, k)
		if h.near(before / after) {
			return v / min(max(before, after), 1)
		}
		if before = after; before > 0 {
			if f, ok := h.at(p); ok {
				v = f.Value
			}
		} else if waits >= mostWaits {
			values := h.values(base)
			h.slowed[k] = kept(values[max(len(values)-baseTests, 0):]) * h.plain[k]
		}
	}
	return v
}

// speed is the speed of the machine as a test of the base tells it: 1 is usual. 0: it is neither nearly that nor the one that will do.
func (h *hunt) speed(f Figures, k int) float64 {
	share := f.Value * h.plain[k]
	switch {
	case share >= h.same: // what is faster may have become usual
		values := h.values(h.sized(h.base, h.sizes[k]))
		if usual := kept(values[max(len(values)-lately, 0):]); usual*h.plain[k] > h.same {
			h.plain[k], h.slowed[k], h.faster = 1/usual, 0, true
		}
	case share > h.slow:
		h.slowed[k] = 0
		return share
	case h.slowed[k] > 0 && h.near(share/h.slowed[k]):
		return share
	}
	return 0
}

// agreed repeats the test of a point until two agree, and gives the slower of the two: one test may be much faster or slower.
func (h *hunt) agreed(p Point, f Figures) (float64, bool) {
	var values []float64
	for ok := true; ok; f, ok = h.at(p) {
		v := h.gauged(p, f.Value)
		values = append(values, v)
		slices.Sort(values)
		for i, v := range values[1:] {
			if v < alike*values[i] {
				return values[i], !h.over()
			}
		}
		if len(values) == mostAgree {
			break
		}
	}
	return median(values), !h.over()
}

// cheapest is the value by which another one is judged at a size of the sweep: where it is slower than a smaller one, and may not be,
// that is the cheapest of those.
func (h *hunt) cheapest(d, v, k int) int {
	dim, costs := &h.Space.Dimensions[d], h.costs[d]
	at := dim.near(v)
	if !dim.AnyCost {
		for i := range at {
			if costs[at][k] > costs[i][k]/h.slow {
				at = i
			}
		}
	}
	return at
}

// expected is the least rate that the costs of a point's values explain together: between the sizes of the sweep a byte costs the same.
// Of values that are faster than the base's only the best one counts: two need not add up.
func (h *hunt) expected(p Point) float64 {
	seconds := h.plain
	for k := range seconds {
		gain := 1.0
		for d, v := range p {
			if d != h.Space.Size {
				c := h.costs[d][h.cheapest(d, v, k)][k]
				seconds[k] *= max(c, 1)
				gain = min(gain, c)
			}
		}
		seconds[k] *= gain
	}
	return 1 / (seconds[0] + h.share(p)*(seconds[1]-seconds[0]))
}

// symptom is a rate below what is expected, or a counter that moves.
func (h *hunt) symptom(counter string) *symptom {
	if counter == "" {
		doubt, limit := unclear*max(1, float64(h.votes)/3), func(p Point) float64 { return h.slow * h.expected(p) }
		return &symptom{Search: h.Search, value: rate, test: h.rate, twice: h.gauges(), doubt: doubt, limit: limit}
	}
	limit := 1 / (2*counted + 3*h.noise[counter])
	return &symptom{
		Search: h.Search, value: func(f Figures) float64 { return 1 / (counted + f.Counters[counter]) }, limit: func(Point) float64 { return limit },
	}
}

// follow reduces a point to its minimal set and confirms it, if it is bad and no known rule says why.
func (h *hunt) follow(step Step) {
	if h.explained(step.Point) {
		return
	}
	for _, counter := range slices.Concat([]string{""}, slices.Sorted(maps.Keys(step.Figures.Counters))) {
		if y := h.symptom(counter); y.value(step.Figures) < y.limit(step.Point) && y.is(step.Point) == bad {
			h.reduce(y, Finding{Counter: counter, Bad: step.Point})
			return
		}
	}
}

// reduce takes the settings that do not matter out of a bad point, and tells the range of those that do.
func (h *hunt) reduce(y *symptom, f Finding) {
	p := h.Space.reduced(f.Bad, func(d, _ int) []int { return h.base[d : d+1] }, func(q Point) bool { return y.is(q) == bad })
	refuted := func(o Finding) bool {
		return slices.Equal(o.Bad, p) && o.Counter == f.Counter && o.Pairs.Change > -h.jump.least
	}
	if slices.ContainsFunc(h.Answer.Unproven, refuted) { // pairs did not even make it likely
		return
	}
	h.refine(p)
	if y.known = nil; y.is(p) != bad { // its values cost more than a look at each had shown
		return
	}
	f.Bad = p
	for d := range p {
		c, neighbour := y.extent(p, d)
		if neighbour == nil { // it is bad at all values that go with the others
			continue
		}
		f.Rule = append(f.Rule, c)
		if f.Good == nil || !h.Space.Dimensions[d].AnyCost {
			f.Good = neighbour
		}
	}
	if f.Good == nil {
		return
	}
	h.refine(f.Good)
	if y.known = nil; h.over() || y.is(p) != bad { // once is noise
		return
	}
	jump, holds := h.jump, false
	if f.Counter == "" { // beyond what the two are expected to differ by
		f.Left = h.median(p) / h.expected(p)
		jump.least = 1 - (1-jump.least)*h.expected(p)/h.expected(f.Good)
	}
	f.Pairs, holds = jump.holds(h.Search, f.Good, p, y.value)
	f.Events = counted/(1+f.Pairs.Change) - counted
	switch {
	case h.over():
	case holds:
		h.Answer.Found = append(h.Answer.Found, f)
	case !slices.ContainsFunc(h.Answer.Unproven, func(o Finding) bool { return o.Rule.String() == f.Rule.String() }):
		h.Answer.Unproven = append(h.Answer.Unproven, f)
	}
}

// explained tells whether a rule that was found holds. One that was not confirmed may be noise, and would hide much.
func (h *hunt) explained(p Point) bool {
	return slices.ContainsFunc(h.Answer.Found, func(f Finding) bool { return f.Rule.Holds(&h.Space, p) })
}

// energy is how much of the expected rate is left; less where counters move.
func (h *hunt) energy(s Step) float64 {
	e := s.Figures.Value / h.expected(s.Point)
	for name, n := range s.Figures.Counters {
		e -= math.Log1p(max(n-h.noise[name], 0) / counted)
	}
	return e
}

// try measures a point, and follows up what is wrong with it.
func (h *hunt) try(p Point) (Step, bool) {
	f, ok := h.at(p)
	if ok && h.gauges() {
		f.Value = h.gauged(p, f.Value)
	}
	step := Step{Point: p, Figures: f}
	if ok {
		h.follow(step)
	}
	return step, ok
}

// fresh measures random points that no known rule explains.
func (h *hunt) fresh() []Step {
	var steps []Step
	for range freshPoints {
		p := h.Space.random(h.rng)
		for tries := 0; h.explained(p) && tries < 100; tries++ {
			p = h.Space.random(h.rng)
		}
		if step, ok := h.try(p); ok {
			steps = append(steps, step)
		}
	}
	return steps
}

// anneal goes from the worst of the fresh points to worse ones, one dimension at a time.
func (h *hunt) anneal(fresh []Step) {
	if len(fresh) == 0 {
		return
	}
	at := slices.MinFunc(fresh, func(a, b Step) int { return cmp.Compare(h.energy(a), h.energy(b)) })
	t := temperature
	for idle := 0; idle < annealSteps && !h.over(); idle++ {
		p := h.Space.mutated(at.Point, h.rng)
		if h.explained(p) {
			continue
		}
		next, ok := h.try(p)
		if !ok {
			continue
		}
		worse := h.energy(at) - h.energy(next)
		if worse > 0 {
			idle = 0
		}
		if worse > 0 || h.rng.Float64() < math.Exp(worse/t) {
			at = next
		}
		t *= cooling
	}
}
