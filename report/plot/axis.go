package plot

import (
	"cmp"
	"math"
	"strconv"

	"github.com/gobw/gobw/report/plain"
)

// Scale maps values to places along an axis.
type Scale uint8

// Scales.
const (
	Linear Scale = iota
	Log10
	Log2
)

// Axis is one axis of a chart.
type Axis struct {
	Label  string
	Units  []plain.Unit // of the values: a linear axis has one, in its label; a logarithmic one has one at each tick
	Scale  Scale
	Format func(v float64) string // of tick labels, in place of numbers
}

// ruler is an axis with its range decided.
type ruler struct {
	Axis
	min, max float64
	unit     plain.Unit // of a linear axis
}

// tick is a place on an axis.
type tick struct {
	value float64
	label string
}

// leastRatio is the ratio of values below which a logarithmic axis of numbers is linear instead.
const leastRatio = 12

// newRuler decides the range for values; a logarithmic axis ignores values that are not positive.
func newRuler(a Axis, values []float64) ruler {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if shows(a.Scale, v) {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	if lo > hi {
		lo, hi = 1, 10
	}
	if a.Scale == Log10 && hi < leastRatio*lo && a.Format == nil {
		a.Scale = Linear
	}
	r := ruler{Axis: a, min: lo, max: hi}
	switch {
	case lo == hi && a.Scale == Linear:
		r.max += cmp.Or(math.Abs(lo)/10, 1)
	case lo == hi:
		r.min, r.max = lo/2, hi*2
	}
	r.unit = plain.Fitting(a.Units, max(math.Abs(r.min), math.Abs(r.max)))
	return r
}

// rounded widens the range to ticks. A linear axis of positive values begins at 0 if that is near.
func (r ruler) rounded() ruler {
	switch r.Scale {
	case Linear:
		if r.min > 0 && r.min < 0.6*r.max {
			r.min = 0
		}
		step := niceStep((r.max - r.min) / 5 / r.unit.Of)
		r.min, r.max = math.Floor(r.min/r.unit.Of/step+1e-9)*step*r.unit.Of,
			math.Ceil(r.max/r.unit.Of/step-1e-9)*step*r.unit.Of
	case Log10:
		r.min, r.max = floor125(r.min), 1/floor125(1/r.max)
	case Log2:
	}
	return r
}

// shows tells whether an axis has a place for a value.
func shows(s Scale, v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (s == Linear || v > 0)
}

// floor125 is the largest of 1, 2, 5 times a power of ten not above v (v > 0).
func floor125(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)+1e-12))
	for _, m := range []float64{5, 2} {
		if m*power <= v*(1+1e-9) {
			return m * power
		}
	}
	return power
}

// niceStep is 1, 2 or 5 times a power of ten, not below raw.
func niceStep(raw float64) float64 { return 1 / floor125(1/raw) }

// place of a value, 0…1 along the axis.
func (r ruler) place(v float64) float64 {
	along := func(v float64) float64 {
		switch r.Scale {
		case Log10, Log2:
			return math.Log(max(v, math.SmallestNonzeroFloat64))
		case Linear:
		}
		return v
	}
	lo, hi := along(r.min), along(r.max)
	return min(max((along(v)-lo)/(hi-lo), 0), 1)
}

// mostTicks bounds an axis whose steps are below the resolution of its numbers.
const mostTicks = 200

// ticks are as many as fit; room is the share of the axis that a label takes.
func (r ruler) ticks(room func(label string) float64) []tick {
	var out []tick
	for level := range 12 {
		out = nil
		for _, v := range r.candidates(level) {
			if v >= r.min-1e-9*(r.max-r.min) && v <= r.max+1e-9*(r.max-r.min) && len(out) < mostTicks {
				out = append(out, tick{v, r.text(v)})
			}
		}
		crowded := false
		for i := 1; i < len(out); i++ {
			crowded = crowded || r.place(out[i].value)-r.place(out[i-1].value) < (room(out[i-1].label)+room(out[i].label))/2
		}
		if !crowded {
			break
		}
	}
	return out
}

// candidates are the values that ticks may have, fewer from level to level.
func (r ruler) candidates(level int) []float64 {
	var out []float64
	switch r.Scale {
	case Linear:
		step := niceStep((r.max - r.min) / r.unit.Of / 6 * math.Pow(1.7, float64(level)))
		first := math.Ceil(r.min/r.unit.Of/step-1e-9) + 0 // not -0, which labels would show
		for i := first; i*step*r.unit.Of <= r.max*(1+1e-9) && len(out) < mostTicks; i++ {
			out = append(out, i*step*r.unit.Of)
		}
	case Log10:
		for e := math.Floor(math.Log10(r.min) - 1e-9); e <= math.Log10(r.max)+1e-9; e += float64(max(level-1, 1)) {
			for _, m := range [][]float64{{1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 2, 5}, {1}}[min(level, 2)] {
				out = append(out, m*math.Pow(10, e))
			}
		}
	case Log2:
		for e := math.Ceil(math.Log2(r.min) - 1e-9); e <= math.Log2(r.max)+1e-9; e += float64(level + 1) {
			out = append(out, math.Exp2(e))
		}
	}
	return out
}

// text of a tick's value.
func (r ruler) text(v float64) string {
	number := func(v float64) string { return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64) }
	switch {
	case r.Format != nil:
		return r.Format(v)
	case r.Scale == Linear || len(r.Units) == 0:
		return number(v / r.unit.Of)
	}
	u := plain.Fitting(r.Units, v*(1+1e-9))
	return number(v/u.Of) + " " + u.Name
}

// name is the label with the unit that all ticks share.
func (r ruler) name() string {
	return r.Label + plain.When(r.Scale == Linear && r.unit.Name != "", " (%s)", r.unit.Name)
}
