package search

import (
	"math"
	"slices"
)

const (
	leastSteps = 4    // sizes an octave, each measured twice
	mostSteps  = 32   // those between them are measured once
	manySizes  = 240  // in all, where that leaves the least an octave
	leastDip   = 0.08 // of a message's time
	edgeTests  = 3
	dipAlarm   = 0.05 // of a search whose sizes have no dip
)

// Dips measures sizes from the least to the largest of the space, 4 to 32 an octave. Where the time of a message jumps
// by more than the slope on both sides explains, it bisects to the byte, and likewise where the time falls back.
func Dips(s *Search) {
	dim, base := &s.Space.Dimensions[s.Space.Size], s.Space.Base()
	at := func(size int) Point { return base.with(s.Space.Size, size) }
	time := func(size int) float64 { return 1 / s.median(at(size)) }
	octaves := math.Log2(float64(dim.high()) / float64(max(dim.low(), 1)))
	steps := leastSteps * max(min(int(manySizes/octaves), mostSteps)/leastSteps, 1)
	sizes := ladder(dim.low(), dim.high(), steps)
	// Some twice, apart: what disturbs for a while does not disturb both.
	for _, all := range [][]int{ladder(dim.low(), dim.high(), leastSteps), sizes} {
		for _, size := range all {
			s.at(at(size))
		}
	}
	sizes = slices.DeleteFunc(sizes, func(size int) bool { return s.median(at(size)) == 0 })
	for i := 0; i+1 < len(sizes) && !s.over(); i++ {
		a, b := sizes[i], sizes[i+1]
		jumps := func() (jump, slope float64, does bool) {
			slope = slopeBeside(sizes, i, time)
			jump = time(b) - time(a) - slope*float64(b-a)
			return jump, slope, jump > leastDip*time(a)
		}
		if _, _, does := jumps(); !does {
			continue
		}
		s.atLeast(at(a), edgeTests)
		s.atLeast(at(b), edgeTests)
		jump, slope, does := jumps()
		if !does { // it did not last
			continue
		}
		middle := time(a) + jump/2
		y := &symptom{Search: s, lead: 1, doubt: jump / 4 / middle, look: func(p Point) (float64, bool) {
			f, ok := s.at(p)
			return f.Value * (middle + slope*float64(p[s.Space.Size]-a)), ok
		}}
		first, last := y.edge(at(b), s.Space.Size, a)
		f := Finding{Rule: Rule{{Dimension: dim.Name, Low: &first}}, Bad: at(first), Good: at(last)}
		holds := false
		doubt := dipAlarm / float64(len(sizes))
		pairs := max(12, 2+int(-math.Log2(doubt))) // fewer cannot leave so little doubt
		if f.Pairs, holds = (claim{pairs: pairs, least: leastDip / 2, doubt: doubt}).holds(s, f.Good, f.Bad, rate); !holds {
			continue
		}
		for k, size := range sizes[i+1:] {
			if f.Until == 0 && float64(size)/time(size) >= float64(last)/time(last) {
				f.Until = s.end(sizes[i+k], size, at)
			}
		}
		s.Answer.Found = append(s.Answer.Found, f)
	}
}

// end is the first size behind a slow one at which the time has fallen back, if it falls at once; else the one given.
func (s *Search) end(slow, normal int, at func(size int) Point) int {
	s.atLeast(at(slow), edgeTests)
	s.atLeast(at(normal), edgeTests)
	high, low := 1/s.median(at(slow)), 1/s.median(at(normal))
	if high-low <= leastDip*low {
		return normal
	}
	middle := (high + low) / 2
	y := &symptom{Search: s, lead: 1, doubt: (high - low) / 4 / middle, look: func(p Point) (float64, bool) {
		f, ok := s.at(p)
		return f.Value * middle, ok
	}}
	_, first := y.edge(at(slow), s.Space.Size, normal)
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
