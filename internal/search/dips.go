package search

import (
	"context"
	"math"
	"slices"

	"github.com/gobw/gobw/report/stats"
)

// Dip is a size from which messages take longer than their neighbours promise.
type Dip struct {
	Before int          `json:"before"`          // the last size that is as its smaller neighbours promise
	From   int          `json:"from"`            // the first that is not
	Until  int          `json:"until,omitempty"` // the measured size at which the rate of bytes is again what it was; 0: none
	Slower stats.Effect `json:"slower"`          // the rate of messages of From against Before, in pairs
}

// Dips is the answer to where sizes fall below their neighbours.
type Dips struct {
	Sizes []Sized `json:"sizes"` // in order: what the sweep measured
	Found []Dip   `json:"found"`
}

// Sized is a measured size.
type Sized struct {
	Size  int     `json:"size"`
	Value float64 `json:"value"` // messages a second
}

const (
	stepsPerOctave = 4
	leastDip       = 0.08 // of a message's time
	edgeTests      = 3
	mostEdgeTests  = 11
	dipPairs       = 12
	dipAlarm       = 0.05 // of a search whose sizes have no dip
)

// Dips measures sizes from low to high, four an octave, and bisects wherever the time of a message jumps by more than the slope
// on both sides explains, to the byte.
func (s *Search) Dips(ctx context.Context, low, high int) (*Dips, error) {
	s.begin(ctx)
	out := &Dips{}
	base := s.Space.Base()
	at := func(size int) Point { return base.with(s.Space.Size, size) }
	time := func(size, tests int) float64 {
		p := at(size)
		for s.count(p) < tests && !s.over() {
			if _, ok := s.at(p); !ok {
				break
			}
		}
		return 1 / s.median(p)
	}
	sizes := ladder(low, high)
	for range 2 { // each twice, apart: what disturbs for a while does not disturb both
		for _, size := range sizes {
			s.at(at(size))
		}
	}
	sizes = slices.DeleteFunc(sizes, func(size int) bool { return s.median(at(size)) == 0 })
	for i := 0; i+1 < len(sizes) && !s.over(); i++ {
		a, b := sizes[i], sizes[i+1]
		if !s.jumps(sizes, i, time) {
			continue
		}
		ta, tb := time(a, edgeTests), time(b, edgeTests)
		if !s.jumps(sizes, i, time) { // it did not last
			continue
		}
		slope := s.slope(sizes, i, time)
		for b-a > 1 && !s.over() {
			m := a + (b-a)/2
			left, right := ta+slope*float64(m-a), tb-slope*float64(b-m)
			tm := time(m, edgeTests)
			for n := edgeTests + 2; n <= mostEdgeTests && math.Abs(tm-(left+right)/2) < (right-left)/4; n += 2 { // between the two: noise
				tm = time(m, n)
			}
			if math.Abs(tm-left) <= math.Abs(tm-right) {
				a, ta = m, tm
			} else {
				b, tb = m, tm
			}
		}
		if s.over() {
			break
		}
		d := Dip{Before: a, From: b, Slower: s.pairs(at(a), at(b), dipPairs)}
		if e := d.Slower; e.Change > -leastDip/2 || e.P > dipAlarm/float64(len(sizes)) {
			continue
		}
		for _, size := range sizes[i+1:] {
			if float64(size)*s.median(at(size)) >= float64(a)*s.median(at(a)) {
				d.Until = size
				break
			}
		}
		out.Found = append(out.Found, d)
	}
	for _, size := range sizes {
		out.Sizes = append(out.Sizes, Sized{size, s.median(at(size))})
	}
	return out, s.err
}

// slope is how much longer a byte more takes around the interval that begins at sizes[i]: the larger of the two sides'.
func (s *Search) slope(sizes []int, i int, time func(size, tests int) float64) float64 {
	slope := 0.0
	for _, k := range []int{i - 1, i + 1} {
		if k >= 0 && k+1 < len(sizes) {
			slope = max(slope, (time(sizes[k+1], 1)-time(sizes[k], 1))/float64(sizes[k+1]-sizes[k]))
		}
	}
	return slope
}

// jumps tells whether the time of a message grows by more between two sizes than the slopes beside them explain.
func (s *Search) jumps(sizes []int, i int, time func(size, tests int) float64) bool {
	a, b := sizes[i], sizes[i+1]
	grown := time(b, 1) - time(a, 1) - s.slope(sizes, i, time)*float64(b-a)
	return grown > leastDip*time(a, 1)
}

// ladder is sizes from low to high in equal ratios, with the powers of two among them.
func ladder(low, high int) []int {
	var sizes []int
	for k := math.Floor(math.Log2(float64(low))) * stepsPerOctave; ; k++ {
		size := int(math.Round(math.Exp2(k / stepsPerOctave)))
		if size >= high {
			break
		}
		if size >= low && (len(sizes) == 0 || size > sizes[len(sizes)-1]) {
			sizes = append(sizes, size)
		}
	}
	if len(sizes) == 0 || sizes[0] != low {
		sizes = slices.Insert(sizes, 0, low)
	}
	if sizes[len(sizes)-1] != high {
		sizes = append(sizes, high)
	}
	return sizes
}
