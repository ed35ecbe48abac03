package search

import (
	"math"
	"slices"
)

const (
	stepsPerOctave = 4
	leastDip       = 0.08 // of a message's time
	edgeTests      = 3
	dipAlarm       = 0.05 // of a search whose sizes have no dip
)

// Dips measures sizes from the least to the largest of the space, four an octave. Where the time of a message jumps by more than
// the slope on both sides explains, it bisects to the byte.
func Dips(s *Search) {
	dim, base := &s.Space.Dimensions[s.Space.Size], s.Space.Base()
	at := func(size int) Point { return base.with(s.Space.Size, size) }
	time := func(size int) float64 { return 1 / s.median(at(size)) }
	sizes := ladder(dim.low(), dim.high())
	for range 2 { // each twice, apart: what disturbs for a while does not disturb both
		for _, size := range sizes {
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
		for _, size := range sizes[i+1:] {
			if f.Until == 0 && float64(size)/time(size) >= float64(last)/time(last) {
				f.Until = size
			}
		}
		s.Answer.Found = append(s.Answer.Found, f)
	}
}

// slopeBeside is how much longer a byte more takes around the interval that begins at sizes[i]: the larger of the two sides'.
func slopeBeside(sizes []int, i int, time func(size int) float64) float64 {
	slope := 0.0
	for _, k := range []int{i - 1, i + 1} {
		if k >= 0 && k+1 < len(sizes) {
			slope = max(slope, (time(sizes[k+1])-time(sizes[k]))/float64(sizes[k+1]-sizes[k]))
		}
	}
	return slope
}

// ladder is sizes from low to high in equal ratios, with the powers of two among them.
func ladder(low, high int) []int {
	sizes := []int{low, high}
	for k := math.Floor(math.Log2(float64(low))) * stepsPerOctave; math.Exp2(k/stepsPerOctave) < float64(high); k++ {
		if size := int(math.Round(math.Exp2(k / stepsPerOctave))); size > low && size < high {
			sizes = append(sizes, size)
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}
