package search

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/gobw/gobw/report/stats"
)

// Anomaly is a combination of settings that is slower than its settings apart, or that moves a counter which should be still.
type Anomaly struct {
	Counter   string       `json:"counter,omitempty"` // empty: it is slow
	Rule      Rule         `json:"rule"`              // all of it is needed
	Bad       Point        `json:"bad"`               // the simplest point that shows it
	Good      Point        `json:"good"`              // its nearest good neighbour
	Share     float64      `json:"share"`             // of the expected rate that is left; of a counter: events per message
	Pairs     stats.Effect `json:"pairs"`             // Bad against Good
	Confirmed bool         `json:"confirmed"`         // in 3 of 3 pairs; false: it came and went, which is noise or a rare event
	FoundAt   int          `json:"found_at"`          // points measured when it was first seen
}

// Anomalies is the answer to what is slow for no reason.
type Anomalies struct {
	Base     Point     `json:"base"`
	Swept    bool      `json:"swept"` // each value was measured alone: without it nothing is known to be slow
	Found    []Anomaly `json:"found"`
	Unproven []Anomaly `json:"unproven,omitempty"` // seen, and not seen again
}

const (
	slow           = 0.8   // of what is expected: below it a point is an anomaly
	leastJump      = 0.85  // of its neighbour's rate: what slows down little by little is no anomaly
	leastNoisyJump = 0.7   // where tests scatter: what is expected is not known better
	counted        = 0.001 // events per message, and thrice what the plain points had
	freshPoints    = 12    // random points, of which the best is annealed
	annealSteps    = 12    // from it, without a better one
	temperature    = 0.05
	cooling        = 0.99
	confirmations  = 3
	baseTests      = 5
	costTests      = 3
	calm           = 1.3 // the spread of a machine on which one test tells
	mostVotes      = 7
	sameSlowness   = 1.1 // two points of a sweep between which none needs to be measured
)

// hunt is a search for anomalies.
type hunt struct {
	*Search
	base         Point
	small, large int                // message sizes of the sweep
	plain        cost               // seconds of a message and of a further byte, at the base
	costs        [][]cost           // per dimension, of each of its values: how many times the base's
	noise        map[string]float64 // the most that the sweep had of each counter
	votes        int                // tests that tell whether a point is bad: more where tests of the base scatter
	out          Anomalies
}

// cost is what a message takes, whatever its size, and what each byte of it adds.
type cost struct{ message, byte float64 }

// near tells whether two costs differ by no more than the noise of a test.
func (c cost) near(o cost) bool { return near(c.message, o.message) && near(c.byte, o.byte) }

func near(a, b float64) bool { return a < sameSlowness*b && b < sameSlowness*a }

// Anomalies looks for them until somebody ends it, or it has measured as many points as it may, which is no error. First each
// dimension is swept alone, from the base: what a value costs by itself is expected where it meets others. Then points are drawn
// and annealed towards what is slower than the costs of their values together.
func (s *Search) Anomalies(ctx context.Context) (*Anomalies, error) {
	s.begin(ctx)
	h := &hunt{Search: s, base: s.Space.Base(), noise: map[string]float64{}}
	h.out.Base = h.base
	h.sweep()
	h.plain = h.measured(h.base, baseTests) // with what the sweep has added
	h.out.Swept = !h.over()
	swept := h.steps
	for i, step := range swept { // a value may be slow alone where nothing explains it
		same := func(s Step) bool { return slices.Equal(s.Point, step.Point) }
		if step.Figures.Value = h.median(step.Point); step.Figures.Value > 0 && !slices.ContainsFunc(swept[:i], same) && !h.explained(step.Point) {
			h.follow(step.Point, step.Figures)
		}
	}
	for !h.over() {
		h.anneal(h.fresh())
	}
	return &h.out, s.err
}

// sweep measures what each value costs alone, at a small and at a large size.
func (h *hunt) sweep() {
	dims := h.Space.Dimensions
	if s := h.Space.Size; s >= 0 {
		h.small, h.large = dims[s].low(), dims[s].high()
	}
	h.plain = h.measured(h.base, baseTests)
	h.votes = 1
	for spread := h.spread(); spread > calm && h.votes < mostVotes; spread /= calm {
		h.votes += 2
	}
	h.costs = make([][]cost, len(dims))
	for d := range dims {
		h.costs[d] = make([]cost, len(dims[d].Values))
		for i := range h.costs[d] {
			h.costs[d][i] = cost{1, 1}
		}
		base := dims[d].near(h.base[d])
		switch {
		case d == h.Space.Size:
		case dims[d].Words != nil:
			for i := range dims[d].Values {
				h.price(d, i, 1)
			}
		default:
			h.price(d, 0, 1)
			h.price(d, len(dims[d].Values)-1, 1)
			h.sweepBetween(d, 0, base)
			h.sweepBetween(d, base, len(dims[d].Values)-1)
		}
	}
}

// spread is how many times the least rate of one point the largest is: of all that has been measured so far, which are the base's.
func (h *hunt) spread() float64 {
	most := 1.0
	for _, a := range h.steps {
		for _, b := range h.steps {
			if slices.Equal(a.Point, b.Point) && b.Figures.Value > 0 {
				most = max(most, a.Figures.Value/b.Figures.Value)
			}
		}
	}
	return most
}

// sweepBetween measures the values between two that were measured, unless they cost the same.
func (h *hunt) sweepBetween(d, low, high int) {
	c, middle := h.costs[d], (low+high)/2
	if middle == low || h.over() {
		return
	}
	if c[low].near(c[high]) {
		for i := low + 1; i < high; i++ {
			c[i] = cost{max(c[low].message, c[high].message), max(c[low].byte, c[high].byte)}
		}
		return
	}
	h.price(d, middle, 1)
	h.sweepBetween(d, low, middle)
	h.sweepBetween(d, middle, high)
}

// price measures what a value costs beside the base's; with one test, more where it seems to cost something.
func (h *hunt) price(d, i, tests int) {
	v := h.Space.Dimensions[d].Values[i]
	p := h.Space.Moved(h.base, d, v)
	if p[d] != v || v == h.base[d] { // it does not go with the base, or is its own
		return
	}
	c := h.measured(p, tests)
	if tests == 1 && !near(c.message, h.plain.message) {
		c.message = h.seconds(p, h.small, costTests)
	}
	if math.IsInf(c.message, 0) || h.over() {
		return
	}
	c.message /= h.plain.message
	if c.byte = max(c.byte/h.plain.byte, 1); h.plain.byte == 0 {
		c.byte = 1
	}
	if tests < baseTests { // of many dimensions the noise would add up
		c = cost{rounded(c.message), rounded(c.byte)}
	}
	h.costs[d][i] = c
}

// rounded takes for 1 what is nearly that.
func rounded(ratio float64) float64 {
	if near(ratio, 1) {
		return 1
	}
	return ratio
}

// refine measures the costs of a point's values as often as the base's.
func (h *hunt) refine(p Point) {
	for d, v := range p {
		if i := h.Space.Dimensions[d].near(v); d != h.Space.Size && h.Space.Dimensions[d].Values[i] == v {
			h.price(d, i, baseTests)
		}
	}
}

// measured is what a message takes at a point, and a byte of it.
func (h *hunt) measured(p Point, tests int) cost {
	c := cost{message: h.seconds(p, h.small, tests)}
	if h.large > 0 {
		c.byte = max(h.seconds(p, h.large, tests)-c.message, 0) / float64(h.large)
	}
	return c
}

// seconds of a message of this size at a point, the median of some tests; infinite where none can be made.
func (h *hunt) seconds(p Point, size, tests int) float64 {
	base := h.base
	if s := h.Space.Size; s >= 0 {
		p, base = h.Space.repaired(p.with(s, size)), h.Space.repaired(base.with(s, size))
	}
	if h.votes > 1 && !slices.Equal(p, base) {
		return 1 / h.besides(p)
	}
	for h.count(p) < tests {
		f, ok := h.at(p)
		if !ok {
			return math.Inf(1)
		}
		for name, n := range f.Counters {
			h.noise[name] = max(h.noise[name], n)
		}
	}
	return 1 / h.median(p)
}

// besides is the rate of a point where tests scatter, and drift: that of the base at a size of the sweep, times the ratio to it in
// pairs.
func (h *hunt) besides(p Point) float64 {
	base, seconds := h.base, h.plain.message
	if s := h.Space.Size; s >= 0 {
		size := h.small
		if p[s]*p[s] > h.small*h.large { // nearer to the large one
			size = h.large
		}
		base, seconds = h.Space.repaired(base.with(s, size)), seconds+h.plain.byte*float64(size)
	}
	return (1 + h.pairs(base, p, h.votes).Change) / seconds
}

// natural is what a value may cost. Where values cannot be slower than others, or than smaller ones, and it is, it may cost what
// the cheapest of those does.
func (h *hunt) natural(d, v int) cost {
	dim := &h.Space.Dimensions[d]
	i := dim.near(v)
	c, others := h.costs[d][i], h.costs[d]
	if dim.Cost == AnyCost {
		return c
	}
	if dim.Cost == LowCost {
		others = others[:i+1]
	}
	for _, o := range others {
		if c.message > o.message/slow {
			c.message = o.message
		}
		if c.byte > o.byte/slow {
			c.byte = o.byte
		}
	}
	return c
}

// expected is the least rate that the costs of a point's values explain together. Of values that are faster than the base's only
// the best one counts: two need not add up.
func (h *hunt) expected(p Point) float64 {
	seconds, gain := h.plain, 1.0
	for d, v := range p {
		if d != h.Space.Size {
			c := h.natural(d, v)
			seconds.message *= max(c.message, 1)
			seconds.byte *= c.byte
			gain = min(gain, c.message)
		}
	}
	total := seconds.message * gain
	if h.Space.Size >= 0 {
		total += seconds.byte * float64(p[h.Space.Size])
	}
	return 1 / total
}

// energy is how much of the expected rate is left; less where counters move.
func (h *hunt) energy(s Step) float64 {
	e := s.Figures.Value / h.expected(s.Point)
	for name, n := range s.Figures.Counters {
		e -= math.Log1p(max(n-h.noise[name], 0) / counted)
	}
	return e
}

// fresh measures random points that no known rule explains.
func (h *hunt) fresh() []Step {
	var steps []Step
	for range freshPoints {
		p := h.Space.random(h.rng)
		for tries := 0; h.explained(p) && tries < 100; tries++ {
			p = h.Space.random(h.rng)
		}
		if f, ok := h.try(p); ok {
			steps = append(steps, Step{Point: p, Figures: f})
		}
	}
	return steps
}

// try measures a point, and follows up what is wrong with it.
func (h *hunt) try(p Point) (Figures, bool) {
	f, ok := h.at(p)
	if ok {
		h.follow(p, f)
	}
	return f, ok
}

// explained tells whether a rule that was found holds. One that was not confirmed may be noise, and would hide much.
func (h *hunt) explained(p Point) bool {
	return slices.ContainsFunc(h.out.Found, func(a Anomaly) bool { return a.Rule.Holds(&h.Space, p) })
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
		f, ok := h.try(p)
		if !ok {
			continue
		}
		next := Step{Point: p, Figures: f}
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
