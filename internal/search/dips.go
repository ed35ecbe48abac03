package search

import (
	"math"
	"slices"
)

const (
	leastSteps = 4 // sizes an octave
	mostSteps  = 32
	manySizes  = 240  // in all, where that leaves the least an octave
	leastDip   = 0.08 // of a message's time
	edgeTests  = 3
	dipAlarm   = 0.05 // of a search whose sizes have no dip
)

// Dips measures sizes from the least to the largest of the space, 4 to 32 an octave. Where the time of a message jumps
// by more than the slope on both sides explains, it bisects to the byte, and likewise where the time falls back.
func Dips(s *Search) {
	dim := &s.Space.Dimensions[s.Space.Size]
	octaves := math.Log2(float64(dim.high()) / float64(max(dim.low(), 1)))
	steps := leastSteps * max(min(int(manySizes/octaves), mostSteps)/leastSteps, 1)
	sizes := ladder(dim.low(), dim.high(), steps)
	for _, size := range sizes {
		s.at(s.sized(size))
	}
	sizes = slices.DeleteFunc(sizes, func(size int) bool { return s.median(s.sized(size)) == 0 })
	for i := 0; i+1 < len(sizes) && !s.over(); i++ {
		a, b := sizes[i], sizes[i+1]
		if s.takes(b) <= (1+leastDip)*min(s.takes(a), s.takes(sizes[max(i-1, 0)])) { // a may have been disturbed
			continue
		}
		for _, size := range sizes[max(i-1, 0):min(i+3, len(sizes))] {
			s.atLeast(s.sized(size), edgeTests)
		}
		slope := slopeBeside(sizes, i, s.takes) / s.takes(a)
		if s.takes(b)/s.takes(a)-1-slope*float64(b-a) <= leastDip { // it did not last, or is the slope
			continue
		}
		jump := s.longer(s.sized(b), s.sized(a)) - slope*float64(b-a)
		if jump <= leastDip {
			continue
		}
		longest := func(size int) float64 { return 1 + jump/2 + slope*float64(size-a) } // of a size that is not slow
		y := s.slower(s.sized(a), jump/4/longest(a), longest)
		first, last := y.edge(s.sized(b), s.Space.Size, a)
		f := Finding{Rule: Rule{{Dimension: dim.Name, Low: &first}}, Bad: s.sized(first), Good: s.sized(last)}
		holds := false
		doubt := dipAlarm / float64(len(sizes))
		pairs := 10 + int(-math.Log2(doubt)) // with 8 fewer, no pair may be disturbed
		if f.Pairs, holds = (claim{pairs: pairs, least: leastDip / 2, doubt: doubt}).holds(s, f.Good, f.Bad, rate); holds {
			f.Until = s.until(last, sizes[i+1:], longest)
			s.Answer.Found = append(s.Answer.Found, f)
		}
	}
}

func (s *Search) sized(size int) Point { return s.Space.Base().with(s.Space.Size, size) }

// takes is the time of a message.
func (s *Search) takes(size int) float64 { return 1 / s.median(s.sized(size)) }

// until is the size behind a good one and some slow ones at which the time falls back, or else at which the bandwidth
// is as high again; 0: there is none. A message of a size that is not slow takes at most longest times as long as a
// good one.
func (s *Search) until(good int, sizes []int, longest func(size int) float64) int {
	takes := func(size int) float64 { return 1 + s.longer(s.sized(size), s.sized(good)) }
	for k, size := range sizes[1:] {
		if s.takes(size) > (1-leastDip/2)*s.takes(sizes[k]) {
			continue
		}
		if t := takes(size); t <= longest(size) && float64(size)/t >= float64(good)/longest(good) && !s.over() {
			return s.end(sizes[k], size)
		}
	}
	for _, size := range sizes {
		if float64(size)/s.takes(size) >= float64(good)/s.takes(good) && float64(size)/takes(size) >= float64(good) &&
			!s.over() {
			return size
		}
	}
	return 0
}

// longer is by how much a message takes longer than another one, as a share. They are measured back to back: the
// machine may change its speed.
func (s *Search) longer(p, than Point) float64 {
	return 1/(1+s.pairs(than, p, edgeTests, rate).Change) - 1
}

// slower tells sizes whose message takes longest times as long as a good size's, or longer. It measures each right
// after the good one.
func (s *Search) slower(good Point, doubt float64, longest func(size int) float64) *symptom {
	return &symptom{Search: s, lead: 2, doubt: doubt, look: func(p Point) (float64, bool) {
		g, ok := s.at(good)
		f, also := s.at(p)
		return f.Value / g.Value * longest(p[s.Space.Size]), ok && also
	}}
}

// end is the first size behind a slow one at which the time has fallen back, if it falls at once; else the one given.
func (s *Search) end(slow, normal int) int {
	fall := s.longer(s.sized(slow), s.sized(normal))
	if fall <= leastDip {
		return normal
	}
	middle := 1 + fall/2
	y := s.slower(s.sized(normal), fall/4/middle, func(int) float64 { return middle })
	_, first := y.edge(s.sized(slow), s.Space.Size, normal)
	return first
}

// slopeBeside is how much longer a byte more takes around the interval that begins at
// sizes[i]: the larger of the two sides'.
func slopeBeside(sizes []int, i int, time func(size int) float64) float64 {
	slope := 0.0
	for _, k := range []int{i - 1, i + 1} {
		if k >= 0 && k+1 < len(sizes) {
			slope = max(slope, (time(sizes[k+1])-time(sizes[k]))/float64(sizes[k+1]-sizes[k]))
		}
	}
	return slope
}

// ladder is sizes from low to high in equal ratios, so many an octave, with the powers of two among them.
func ladder(low, high, steps int) []int {
	sizes, octave := []int{low, high}, float64(steps)
	for k := math.Floor(math.Log2(float64(low))) * octave; math.Exp2(k/octave) < float64(high); k++ {
		if size := int(math.Round(math.Exp2(k / octave))); size > low && size < high {
			sizes = append(sizes, size)
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}
