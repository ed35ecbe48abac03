package search

import (
	"cmp"
	"slices"

	"github.com/gobw/gobw/report/stats"
)

// BestSettings is the answer to which settings are best.
type BestSettings struct {
	Start Point   `json:"start"` // the defaults
	Peak  Point   `json:"peak"`  // the fastest point found
	At    Point   `json:"at"`    // the smallest setting that is within 2 % of it
	Value float64 `json:"value"` // median of At

	// Effects, in pairs; of none: the two points are the same.
	Gain    stats.Effect   `json:"gain"`    // of At against Start
	Behind  stats.Effect   `json:"behind"`  // of At against Peak
	Without []stats.Effect `json:"without"` // of each dimension's default against its value at At
}

const (
	within       = 0.02 // of the peak
	mostDoubt    = 0.05 // a smaller setting must not be worse by more at the interval's end
	judgePairs   = 8
	enoughTests  = 6 // of a point whose median is known well
	freshStarts  = 16
	mostAscents  = 6 // passes over the dimensions
	clearlyBelow = 0.9
)

// Best climbs from the base point: dimension by dimension, successive halving among its values, until
// no change of one dimension helps; then once more from the best of fresh points. Of the peak it gives
// the smallest setting that is as good.
func Best(s *Search) {
	b := &BestSettings{Start: s.Space.Base()}
	s.Answer.Best = b
	b.Peak = s.ascend(b.Start)
	if len(b.Start) > 1 { // along one dimension the first climb has seen all
		var fresh []Point
		for range freshStarts {
			fresh = append(fresh, s.Space.random(s.rng))
		}
		if top := s.ascend(s.halve(fresh)); s.beats(top, b.Peak) {
			b.Peak = top
		}
	}
	if !s.beats(b.Peak, b.Start) { // noise: the defaults are as good
		b.Peak = b.Start
	}
	b.At = s.shrink(b.Peak)
	against := func(a, b Point) (e stats.Effect) {
		if !slices.Equal(a, b) && !s.over() {
			e = s.pairs(a, b, judgePairs, rate)
		}
		return e
	}
	b.Behind, b.Gain = against(b.Peak, b.At), against(b.Start, b.At)
	for d := range b.At {
		b.Without = append(b.Without, against(b.At, s.Space.Moved(b.At, d, b.Start[d])))
	}
	b.Value = s.median(b.At)
}

// ascend climbs until a whole pass changes nothing.
func (s *Search) ascend(p Point) Point {
	for range mostAscents {
		before := p
		for d := range p {
			var points []Point
			for _, v := range s.Space.Dimensions[d].Values {
				points = append(points, s.Space.Moved(p, d, v))
			}
			if next := s.halve(points); s.beats(next, p) {
				p = next
			}
		}
		if slices.Equal(before, p) || s.over() {
			break
		}
	}
	return p
}

// halve is the best of some points by successive halving: all are measured, the better half again, and so on.
func (s *Search) halve(points []Point) Point {
	slices.SortFunc(points, slices.Compare[Point])
	points = slices.CompactFunc(points, slices.Equal[Point])
	for len(points) > 1 && !s.over() {
		for _, p := range points {
			if len(s.values(p)) < enoughTests {
				s.at(p)
			}
		}
		slices.SortStableFunc(points, func(a, b Point) int { return cmp.Compare(s.median(b), s.median(a)) })
		points = points[:len(points)/2]
	}
	return points[0]
}

// beats tells whether a is better than b, beyond noise.
func (s *Search) beats(a, b Point) bool {
	if y := s.median(b); slices.Equal(a, b) || s.over() || y > 0 && s.median(a) < y { // not even by what is known
		return false
	}
	_, gains := claim{pairs: 12, least: 0.01, doubt: 0.02}.holds(s, a, b, rate)
	return gains && !s.over()
}

// shrink takes each dimension back to the smallest value that leaves the point as good as the peak.
func (s *Search) shrink(peak Point) Point {
	below := func(d, v int) []int { return s.Space.Dimensions[d].Values[:s.Space.Dimensions[d].near(v)] }
	return s.Space.reduced(peak, below, func(q Point) bool {
		if f, ok := s.at(q); !ok || f.Value < clearlyBelow*s.median(peak) {
			return false
		}
		e := s.pairs(peak, q, judgePairs, rate)
		return e.Change >= -within/2 && e.Interval != nil && e.Interval.Low >= -mostDoubt
	})
}
