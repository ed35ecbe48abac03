// Package search runs many short tests to find the best settings, sizes that fall off, and combinations that are slow.
// It knows tests only as points of a space.
package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gobw/gobw/report/stats"
)

// Figures are what a test gave.
type Figures struct {
	Value    float64            `json:"value"`              // more is better: messages a second, or 1 / latency
	Counters map[string]float64 `json:"counters,omitempty"` // of what should not happen, per message
}

// rate is what most questions go by.
func rate(f Figures) float64 { return f.Value }

// PointError is a point whose test failed. The search skips it.
type PointError struct{ Err error }

func (e *PointError) Error() string { return e.Err.Error() }

// Step is one measured point.
type Step struct {
	Point   Point   `json:"point"`
	Figures Figures `json:"figures"`
	Failure string  `json:"failure,omitempty"`
}

// Nothing is the failure of a test in which no message arrived.
const Nothing = "no message came through in the time of a test"

// ErrPoints ends a search that has measured as many points as it may.
var ErrPoints = errors.New("as many points as were allowed are measured")

// Finding is settings with which a device is slow, or moves a counter that should be
// still, reduced to the smallest cause.
type Finding struct {
	Rule    Rule    `json:"rule"`              // all of it is needed
	Counter string  `json:"counter,omitempty"` // empty: it is slow
	Bad     Point   `json:"bad"`               // the simplest point that shows it
	Good    Point   `json:"good"`              // its nearest good neighbour
	Events  float64 `json:"events,omitempty"`  // of the counter, per message
	// of dips: the first measured size at which the bandwidth is normal again
	Until int          `json:"until,omitempty"`
	Pairs stats.Effect `json:"pairs"` // the rate of Bad against Good
}

// Answer is what a search has found.
type Answer struct {
	Best  *BestSettings `json:"best,omitempty"`
	Found []Finding     `json:"found,omitempty"`
	// what a search without an end needs to know is measured: it may end at any time
	Begun bool `json:"begun,omitempty"`
}

// Search is one search. What it does follows from the seed and the figures alone, so that one which was interrupted
// goes on from its steps. It belongs to one goroutine.
type Search struct {
	Space Space
	// Measure runs the test of a point once. A [PointError] says that this point cannot be measured and others can.
	Measure func(ctx context.Context, p Point) (Figures, error)

	Seed   uint64
	Most   int        // points; 0: no limit
	Known  []Step     // of an earlier run of the same search: taken in place of measuring
	Tell   func(Step) // told each step as it is measured; nil: nobody
	Answer Answer     // so far

	measure func(p Point) (Figures, error)
	rng     *rand.Rand
	steps   []Step
	results map[string][]float64 // of each point, by its text
	err     error                // what ended it
}

// Run asks a question: [Best], [Dips] or [Anomalies]. What ended it early is the
// error; the answer is then what is known.
func (s *Search) Run(ctx context.Context, question func(*Search)) error {
	s.rng, s.steps, s.results, s.err = rand.New(rand.NewPCG(s.Seed, 0)), nil, map[string][]float64{}, nil
	s.measure = func(p Point) (Figures, error) {
		if err := context.Cause(ctx); err != nil {
			return Figures{}, err
		}
		return s.Measure(ctx, slices.Clone(p))
	}
	question(s)
	return s.err
}

// Steps are what was measured so far.
func (s *Search) Steps() []Step { return s.steps }

// at measures a point. It tells whether there are figures: there are none where
// the point failed, or the search is over.
func (s *Search) at(p Point) (Figures, bool) {
	n := len(s.steps)
	switch {
	case s.err != nil:
		return Figures{}, false
	case n < len(s.Known) && slices.Equal(s.Known[n].Point, p):
		return s.add(s.Known[n])
	case s.Most > 0 && n >= s.Most:
		s.err = ErrPoints
		return Figures{}, false
	}
	f, err := s.measure(p)
	if err == nil && !(f.Value > 0) { // once more: where the machine was busy nothing may have moved
		f, err = s.measure(p)
	}
	step := Step{Point: slices.Clone(p), Figures: f}
	failed, is := errors.AsType[*PointError](err)
	switch {
	case is:
		step.Failure = failed.Error()
	case err != nil:
		s.err = err
		return Figures{}, false
	case !(f.Value > 0) || math.IsInf(f.Value, 0):
		step.Figures.Value, step.Failure = 0, Nothing
	}
	if s.Tell != nil {
		defer s.Tell(step)
	}
	return s.add(step)
}

// add takes a step over.
func (s *Search) add(step Step) (Figures, bool) {
	s.steps = append(s.steps, step)
	if step.Failure == "" {
		key := fmt.Sprint(step.Point)
		s.results[key] = append(s.results[key], step.Figures.Value)
	}
	return step.Figures, step.Failure == ""
}

// over tells whether the search has ended early.
func (s *Search) over() bool { return s.err != nil }

// atLeast measures a point until it has so many tests, or none can be made.
func (s *Search) atLeast(p Point, tests int) {
	for n := len(s.values(p)); n < tests; n++ {
		if _, ok := s.at(p); !ok {
			break
		}
	}
}

// values are all that was measured of a point.
func (s *Search) values(p Point) []float64 { return s.results[fmt.Sprint(p)] }

func (s *Search) median(p Point) float64 { return median(s.values(p)) }

// median of some values; 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return stats.Summarize(values, stats.DefaultConfidence).Median
}

// pairs measures a and b back to back n times, in an order drawn by lot, and gives the effect of b against a.
func (s *Search) pairs(a, b Point, n int, value func(Figures) float64) stats.Effect {
	var old, new []float64
	for range n {
		first, second := a, b
		swap := s.rng.IntN(2) == 1
		if swap {
			first, second = b, a
		}
		f, ok := s.at(first)
		g, also := s.at(second)
		if !ok || !also {
			continue
		}
		if swap {
			f, g = g, f
		}
		old, new = append(old, value(f)), append(new, value(g))
	}
	e := stats.Paired(old, new, stats.DefaultConfidence, stats.HigherIsBetter)
	if e.N == 0 {
		e.Change = 0
	}
	return e
}

// claim says how pairs must show that a point is worse.
type claim struct {
	pairs int     // number of pairs; a third as many are measured before, to see whether it is likely
	least float64 // least difference, at the interval's nearer end
	doubt float64 // highest probability that there is no difference
}

// holds tells whether one point is worse than another.
func (c claim) holds(s *Search, better, worse Point, value func(Figures) float64) (e stats.Effect, holds bool) {
	if e = s.pairs(better, worse, c.pairs/3, value); e.Change > -c.least {
		return e, false
	}
	e = s.pairs(better, worse, c.pairs, value)
	return e, e.P <= c.doubt && e.Interval != nil && e.Interval.High <= -c.least
}
