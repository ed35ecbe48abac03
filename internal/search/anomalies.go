package search

import (
	"cmp"
	"context"
	"errors"
	"maps"
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
	slow          = 0.8   // of what is expected: below it a point is an anomaly
	leastJump     = 0.85  // of its neighbour's rate: what slows down little by little is no anomaly
	counted       = 0.001 // events per message, and thrice what the plain points had
	freshPoints   = 12    // random points, of which the best is annealed
	annealSteps   = 12    // from it, without a better one
	temperature   = 0.05
	cooling       = 0.99
	confirmations = 3
	baseTests     = 5
	costTests     = 3
	sameSlowness  = 1.1 // two points of a sweep between which none needs to be measured
)

// hunt is a search for anomalies.
type hunt struct {
	*Search
	base     Point
	small    int                // message sizes of the sweep
	large    int                //
	message  float64            // seconds of a small message at the base
	byteCost float64            // seconds of a further byte
	costs    []costs            // per dimension
	noise    map[string]float64 // the most that plain points had of each counter
	out      Anomalies
	enough   int    // anomalies
	suspect  int    // the dimension that is slow alone, and is followed up; -1: none
	goal     string // what the annealing drives: empty, or a counter
}

// costs are how many times longer a value of one dimension makes a message, and a byte, beside the base's.
type costs struct{ message, bytes map[int]float64 }

// Anomalies looks for them until somebody ends it, or it has measured as many points as it may, which is no error. First each
// dimension is swept alone, from the base: what a value costs by itself is expected where it meets others. Then points are drawn
// and annealed towards what is slower than the costs of their values together.
func (s *Search) Anomalies(ctx context.Context) (*Anomalies, error) {
	return s.anomaliesUntil(ctx, math.MaxInt)
}

// errEnough ends a search that has found as much as it should.
var errEnough = errors.New("enough is found")

func (s *Search) anomaliesUntil(ctx context.Context, enough int) (*Anomalies, error) {
	s.begin(ctx)
	h := &hunt{Search: s, base: s.Space.Base(), noise: map[string]float64{}, enough: enough, suspect: -1}
	h.out.Base = h.base
	h.sweep()
	var goals []string
	for !h.over() {
		points := h.fresh()
		if goals == nil {
			goals = h.goals()
		}
		h.goal, goals = goals[0], append(goals[1:], goals[0])
		h.anneal(points)
	}
	return &h.out, s.err
}

// sweep measures what each value costs alone, at a small and at a large size.
func (h *hunt) sweep() {
	s := h.Space.Size
	if s >= 0 {
		h.small, h.large = h.Space.Dimensions[s].low(), h.Space.Dimensions[s].high()
	}
	h.costs = make([]costs, len(h.base))
	for d := range h.costs {
		h.costs[d] = costs{message: map[int]float64{}, bytes: map[int]float64{}}
	}
	h.message = h.often(h.base, h.small, baseTests)
	if s >= 0 {
		h.byteCost = max(h.often(h.base, h.large, baseTests)-h.message, 0) / float64(h.large)
	}
	for d := range h.Space.Dimensions {
		if d == s {
			continue
		}
		dim := &h.Space.Dimensions[d]
		h.costs[d].message[h.base[d]], h.costs[d].bytes[h.base[d]] = 1, 1
		if dim.Words != nil {
			for _, v := range dim.Values {
				h.cost(d, v)
			}
		} else {
			i := dim.near(h.base[d])
			h.sweepRange(d, 0, i)
			h.sweepRange(d, i, len(dim.Values)-1)
		}
	}
	h.out.Swept = !h.over()
	for d := range h.Space.Dimensions {
		h.unnatural(d)
	}
}

// sweepRange measures the ends of a range of values and, where they differ, what lies between.
func (h *hunt) sweepRange(d, low, high int) {
	dim := &h.Space.Dimensions[d]
	a, b := h.cost(d, dim.Values[low]), h.cost(d, dim.Values[high])
	if high-low < 2 || h.over() || near(a[0], b[0]) && near(a[1], b[1]) {
		return
	}
	h.sweepRange(d, low, (low+high)/2)
	h.sweepRange(d, (low+high)/2, high)
}

func near(a, b float64) bool { return a < sameSlowness*b && b < sameSlowness*a }

// cost measures a value of a dimension once.
func (h *hunt) cost(d, v int) [2]float64 {
	c := h.costs[d]
	if _, known := c.message[v]; !known {
		p := h.Space.moved(h.base, d, v)
		if p[d] != v { // it does not go with the base
			return [2]float64{1, 1}
		}
		message := h.often(p, h.small, 1)
		if ratio := message / h.message; !near(ratio, 1) {
			message = h.often(p, h.small, costTests)
		}
		c.message[v], c.bytes[v] = rounded(message/h.message), 1
		if h.byteCost > 0 {
			c.bytes[v] = max(rounded((h.often(p, h.large, 1)-message)/float64(h.large)/h.byteCost), 1)
		}
		if h.over() || math.IsInf(c.message[v], 0) || math.IsInf(c.bytes[v], 0) {
			c.message[v], c.bytes[v] = 1, 1
		}
	}
	return [2]float64{c.message[v], c.bytes[v]}
}

// refine measures the costs of a point's values as often as the base's.
func (h *hunt) refine(p Point) {
	h.message = h.often(h.base, h.small, baseTests)
	if h.byteCost > 0 {
		h.byteCost = (h.often(h.base, h.large, baseTests) - h.message) / float64(h.large)
	}
	for d, v := range p {
		q := h.Space.moved(h.base, d, v)
		if v == h.base[d] || d == h.Space.Size || d == h.suspect || q[d] != v || h.over() {
			continue
		}
		message := h.often(q, h.small, baseTests)
		h.costs[d].message[v] = message / h.message
		if h.byteCost > 0 {
			h.costs[d].bytes[v] = max((h.often(q, h.large, baseTests)-message)/float64(h.large)/h.byteCost, 1)
		}
	}
}

// rounded takes for 1 what is nearly that: of many dimensions the noise would add up.
func rounded(cost float64) float64 {
	if near(cost, 1) {
		return 1
	}
	return cost
}

// often is how many seconds a message of this size takes at a point, the median of some tests; infinite where none can be made.
func (h *hunt) often(p Point, size, tests int) float64 {
	if s := h.Space.Size; s >= 0 {
		p = h.Space.repaired(p.with(s, size))
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

// expected is the least rate that the costs of a point's values explain together. A value that was not swept costs what the
// dearer of its neighbours does. Of values that are faster than the base's only the best one counts: two need not add up.
func (h *hunt) expected(p Point) float64 {
	message, bytes, gain := h.message, h.byteCost, 1.0
	for d, v := range p {
		if d != h.Space.Size {
			c := dearest(h.costs[d].message, v)
			message *= max(c, 1)
			gain = min(gain, c)
			bytes *= max(dearest(h.costs[d].bytes, v), 1)
		}
	}
	message *= gain
	if h.Space.Size >= 0 {
		message += bytes * float64(p[h.Space.Size])
	}
	return 1 / message
}

func dearest(costs map[int]float64, v int) float64 {
	if c, known := costs[v]; known {
		return c
	}
	below, above := math.MinInt, math.MaxInt
	for at := range costs {
		if at < v {
			below = max(below, at)
		} else {
			above = min(above, at)
		}
	}
	return max(costs[below], costs[above])
}

// unnatural follows up a value that is slow alone though nothing explains it: more depth that is slower, say.
func (h *hunt) unnatural(d int) {
	dim := &h.Space.Dimensions[d]
	if dim.Cost == AnyCost || d == h.Space.Size || h.over() {
		return
	}
	bad := func(v int) float64 {
		least := math.Inf(1)
		for u, c := range h.costs[d].message {
			if dim.Cost == NoCost || u < v {
				least = min(least, c)
			}
		}
		worst := h.costs[d].message[v] / least
		least = math.Inf(1)
		for u, c := range h.costs[d].bytes {
			if dim.Cost == NoCost || u < v {
				least = min(least, c)
			}
		}
		return max(worst, h.costs[d].bytes[v]/least)
	}
	for _, v := range slices.Sorted(maps.Keys(h.costs[d].message)) {
		if bad(v) <= 1/slow {
			continue
		}
		plain := costs{message: maps.Clone(h.costs[d].message), bytes: maps.Clone(h.costs[d].bytes)}
		for u := range plain.message { // what is looked for must not be expected
			if bad(u) > 1/slow {
				plain.message[u], plain.bytes[u] = 1, 1
			}
		}
		found := h.costs[d]
		h.costs[d], h.suspect = plain, d
		for _, size := range []int{h.large, h.small} {
			p := h.base.with(d, v)
			if h.Space.Size >= 0 {
				p = p.with(h.Space.Size, size)
			}
			if h.look(h.Space.repaired(p)) {
				break
			}
		}
		h.costs[d], h.suspect = found, -1
		return
	}
}

// energy is how much of the expected rate is left, or, driven by a counter, less for more events.
func (h *hunt) energy(p Point, f Figures) float64 {
	if h.goal != "" {
		return -f.Counters[h.goal]
	}
	return f.Value / h.expected(p)
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

func (h *hunt) explained(p Point) bool {
	for _, known := range [][]Anomaly{h.out.Found, h.out.Unproven} {
		for _, a := range known {
			if a.Rule.Holds(&h.Space, p) {
				return true
			}
		}
	}
	return false
}

// goals are what to drive, in turn: the rate, and counters that move, first those that vary most beside their mean.
func (h *hunt) goals() []string {
	values := map[string][]float64{}
	for _, step := range h.steps {
		for name, n := range step.Figures.Counters {
			values[name] = append(values[name], n)
		}
	}
	spread := map[string]float64{}
	for name, v := range values {
		sum, squares := 0.0, 0.0
		for _, x := range v {
			sum, squares = sum+x, squares+x*x
		}
		if mean := sum / float64(len(v)); mean > 0 {
			spread[name] = (squares/float64(len(v)) - mean*mean) / mean
		}
	}
	names := slices.SortedFunc(maps.Keys(spread), func(a, b string) int { return cmp.Or(cmp.Compare(spread[b], spread[a]), cmp.Compare(a, b)) })
	goals := []string{""}
	for _, name := range names {
		goals = append(goals, name, "") // the rate is driven every other time
	}
	return goals
}

// anneal goes from the worst of the fresh points to worse ones, one dimension at a time.
func (h *hunt) anneal(fresh []Step) {
	if len(fresh) == 0 {
		return
	}
	at := slices.MinFunc(fresh, func(a, b Step) int { return cmp.Compare(h.energy(a.Point, a.Figures), h.energy(b.Point, b.Figures)) })
	energy, t := h.energy(at.Point, at.Figures), temperature
	for idle := 0; idle < annealSteps && !h.over(); idle++ {
		p := h.Space.mutated(at.Point, h.rng)
		if h.explained(p) {
			continue
		}
		f, ok := h.try(p)
		if !ok {
			continue
		}
		next := h.energy(p, f)
		if next < energy {
			idle = 0
		}
		if next < energy || h.rng.Float64() < math.Exp((energy-next)/t) {
			at, energy = Step{Point: p, Figures: f}, next
		}
		t *= cooling
	}
}
