package search

import (
	"context"
	"errors"
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

// Meter measures a point.
type Meter interface {
	// Measure runs the test once. A [PointError] says that this point cannot be measured and others can.
	Measure(ctx context.Context, p Point) (Figures, error)
}

// PointError is a point whose test failed. The search skips it.
type PointError struct{ Err error }

func (e *PointError) Error() string { return e.Err.Error() }

// Unwrap is the cause.
func (e *PointError) Unwrap() error { return e.Err }

// Step is one measured point.
type Step struct {
	Point   Point   `json:"point"`
	Figures Figures `json:"figures"`
	Failure string  `json:"failure,omitempty"`
}

// Nothing is the failure of a test in whose time no message came through.
const Nothing = "no message came through in the time of a test"

// ErrPoints ends a search that has measured as many points as it may.
var ErrPoints = errors.New("as many points as were allowed are measured")

// ErrEnough ends a search that has found as many anomalies as it should.
var ErrEnough = errors.New("enough is found")

// Search is one search. What it does follows from the seed and the figures alone, so that one which was interrupted goes on
// from its steps. It belongs to one goroutine.
type Search struct {
	Space  Space
	Meter  Meter
	Seed   uint64
	Most   int        // points; 0: no limit
	Enough int        // anomalies; 0: no limit
	Known  []Step     // of an earlier run of the same search: taken in place of measuring
	Tell   func(Step) // told each step as it is measured; nil: nobody

	measure func(p Point) (Figures, error)
	stopped func() error // why, if somebody stopped it
	rng     *rand.Rand
	steps   []Step
	err     error // what ended it
}

func (s *Search) begin(ctx context.Context) {
	s.rng, s.steps, s.err = rand.New(rand.NewPCG(s.Seed, 0)), nil, nil
	s.measure = func(p Point) (Figures, error) { return s.Meter.Measure(ctx, slices.Clone(p)) }
	s.stopped = func() error { return context.Cause(ctx) }
}

// Steps are what was measured so far.
func (s *Search) Steps() []Step { return s.steps }

// at measures a point. It tells whether there are figures: there are none where the point failed, or the search is over.
func (s *Search) at(p Point) (Figures, bool) {
	if s.err != nil {
		return Figures{}, false
	}
	n := len(s.steps)
	if n < len(s.Known) && slices.Equal(s.Known[n].Point, p) {
		s.steps = append(s.steps, s.Known[n])
		return s.Known[n].Figures, s.Known[n].Failure == ""
	}
	s.err = s.stopped()
	if s.err == nil && s.Most > 0 && n >= s.Most {
		s.err = ErrPoints
	}
	if s.err != nil {
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
	s.steps = append(s.steps, step)
	if s.Tell != nil {
		s.Tell(step)
	}
	return step.Figures, step.Failure == ""
}

// over tells whether the search has ended early.
func (s *Search) over() bool { return s.err != nil }

// pairs measures a and b back to back n times, in an order drawn by lot, and gives the effect of b against a.
func (s *Search) pairs(a, b Point, n int) stats.Effect {
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
		old, new = append(old, f.Value), append(new, g.Value)
	}
	e := stats.Paired(old, new, stats.DefaultConfidence, stats.HigherIsBetter)
	if e.N == 0 {
		e.Change = 0
	}
	return e
}
