package search

import (
	"cmp"
	"context"
	"slices"

	"github.com/gobw/gobw/report/stats"
)

// Best is the answer to which settings are best.
type Best struct {
	Start  Point        `json:"start"`  // the defaults
	Peak   Point        `json:"peak"`   // the fastest point found
	At     Point        `json:"at"`     // the smallest setting that is within Within of it
	Gain   stats.Effect `json:"gain"`   // of At against Start, in pairs; of none: they are the same
	Behind stats.Effect `json:"behind"` // of At against Peak, likewise
	Worth  []Worth      `json:"worth"`
	Value  float64      `json:"value"` // median of At
}

// Worth is what one dimension contributes: the effect of putting it back to its default.
type Worth struct {
	Dimension string       `json:"dimension"`
	Value     int          `json:"value"`
	Default   int          `json:"default"`
	Without   stats.Effect `json:"without"`
}

const (
	within       = 0.02 // of the peak
	mostDoubt    = 0.1  // a smaller setting must not be worse by more at the interval's end
	leastGain    = 0.01 // a change that is worth to take
	acceptPairs  = 4
	acceptDoubt  = 0.01 // that a change which is worth nothing is taken
	tellPairs    = 12
	judgePairs   = 8
	enoughTests  = 6 // of a point whose median is known well
	freshStarts  = 16
	mostAscents  = 6 // passes over the dimensions
	clearlyBelow = 0.9
)

// Best climbs from the base point: dimension by dimension, successive halving among its values, until no change of one
// dimension helps; then once more from the best of fresh points. Of the peak it gives the smallest setting that is as good.
// What ended it early is the error; the answer is then what is known.
func (s *Search) Best(ctx context.Context) (*Best, error) {
	s.begin(ctx)
	b := &Best{Start: s.Space.Base()}
	b.Peak = s.ascend(b.Start)
	if len(b.Start) > 1 { // along one dimension the first climb has seen all
		var fresh []Point
		for range freshStarts {
			fresh = append(fresh, s.Space.random(s.rng))
		}
		if top := s.ascend(s.halve(fresh)); !slices.Equal(top, b.Peak) && !s.over() && s.beats(top, b.Peak) {
			b.Peak = top
		}
	}
	if !slices.Equal(b.Start, b.Peak) {
		if e := s.pairs(b.Start, b.Peak, tellPairs); e.Interval == nil || e.Interval.Low <= 0 { // noise: the defaults are as good
			b.Peak = b.Start
		}
	}
	b.At = s.shrink(b.Peak)
	if s.over() {
		return b, s.err
	}
	if !slices.Equal(b.Peak, b.At) {
		b.Behind = s.pairs(b.Peak, b.At, judgePairs)
	}
	if !slices.Equal(b.Start, b.At) {
		b.Gain = s.pairs(b.Start, b.At, judgePairs)
	}
	for d, dim := range s.Space.Dimensions {
		back := s.Space.Moved(b.At, d, b.Start[d])
		if b.At[d] == b.Start[d] || slices.Equal(back, b.At) {
			continue
		}
		b.Worth = append(b.Worth, Worth{Dimension: dim.Name, Value: b.At[d], Default: b.Start[d], Without: s.pairs(b.At, back, judgePairs)})
	}
	b.Value = s.median(b.At)
	return b, s.err
}

// median of all that was measured of a point; 0: nothing.
func (s *Search) median(p Point) float64 {
	var values []float64
	for _, step := range s.steps {
		if step.Failure == "" && slices.Equal(step.Point, p) {
			values = append(values, step.Figures.Value)
		}
	}
	if len(values) == 0 {
		return 0
	}
	return stats.Summarize(values, stats.DefaultConfidence).Median
}

// ascend climbs until a whole pass changes nothing.
func (s *Search) ascend(p Point) Point {
	for range mostAscents {
		before := p
		for d := range p {
			if next := s.along(p, d); !s.over() && !slices.Equal(next, p) && s.beats(next, p) {
				p = next
			}
		}
		if slices.Equal(before, p) || s.over() {
			break
		}
	}
	return p
}

// along is the best value of one dimension.
func (s *Search) along(p Point, d int) Point {
	var points []Point
	for _, v := range s.Space.Dimensions[d].Values {
		q := s.Space.Moved(p, d, v)
		if !slices.ContainsFunc(points, func(o Point) bool { return slices.Equal(o, q) }) {
			points = append(points, q)
		}
	}
	return s.halve(points)
}

// halve is the best of some points by successive halving: all are measured, the better half again, and so on.
func (s *Search) halve(points []Point) Point {
	for len(points) > 1 && !s.over() {
		for _, p := range points {
			if s.count(p) < enoughTests {
				s.at(p)
			}
		}
		slices.SortStableFunc(points, func(a, b Point) int { return cmp.Compare(s.median(b), s.median(a)) })
		points = points[:len(points)/2]
	}
	return points[0]
}

// count is how often a point was measured.
func (s *Search) count(p Point) int {
	n := 0
	for _, step := range s.steps {
		if slices.Equal(step.Point, p) {
			n++
		}
	}
	return n
}

// beats tells whether a is better than b beyond noise: four pairs make it likely, and twelve more tell.
func (s *Search) beats(a, b Point) bool {
	if y := s.median(b); y > 0 && s.median(a) < y { // not even by what is known
		return false
	}
	if s.pairs(b, a, acceptPairs).Change < leastGain {
		return false
	}
	e := s.pairs(b, a, tellPairs)
	return e.Change >= leastGain && e.P <= acceptDoubt
}

// shrink takes each dimension back to the smallest value that leaves the point as good as the peak.
func (s *Search) shrink(peak Point) Point {
	p := peak
	for d, dim := range s.Space.Dimensions {
		for _, v := range dim.Values {
			q := s.Space.Moved(p, d, v)
			if v >= p[d] || s.over() {
				break
			}
			if slices.Equal(q, p) || smaller(p, q) {
				continue
			}
			if f, ok := s.at(q); !ok || f.Value < clearlyBelow*s.median(peak) {
				continue
			}
			if e := s.pairs(peak, q, judgePairs); e.Change >= -within/2 && e.Interval != nil && e.Interval.Low >= -mostDoubt {
				p = q
				break
			}
		}
	}
	return p
}

// smaller tells whether a has a value that is smaller than b's: b is then no smaller setting.
func smaller(a, b Point) bool {
	for d := range a {
		if a[d] < b[d] {
			return true
		}
	}
	return false
}
