package plot

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Scale maps values to places along an axis.
type Scale uint8

// Scales.
const (
	Linear Scale = iota
	Log10
	Log2
	Nines // a share p from 0 to 1, by log10 of 1/(1-p): 90 %, 99 % and 99.9 % are equally far apart
)

// Axis is one axis of a chart. Min widens the range below the data; 0 leaves it to the data.
type Axis struct {
	Label  string // with the unit: "latency (us)"
	Scale  Scale
	Min    float64
	Format func(v float64) string // of tick labels; nil: a number without needless digits
}

// number writes a tick label without needless digits: 0.001, 2.5, 40, 100k, 2M.
func number(v float64) string {
	a := math.Abs(v)
	switch {
	case v == 0:
		return "0"
	case a >= 1e9:
		return strconv.FormatFloat(v/1e9, 'g', 3, 64) + "G"
	case a >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 3, 64) + "M"
	case a >= 1e4:
		return strconv.FormatFloat(v/1e3, 'g', 3, 64) + "k"
	}
	return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64)
}

// Bytes writes a tick label of a size: 512, 4 Ki, 1 Mi.
func Bytes(v float64) string {
	switch {
	case v >= 1<<30:
		return strconv.FormatFloat(v/(1<<30), 'g', 4, 64) + " Gi"
	case v >= 1<<20:
		return strconv.FormatFloat(v/(1<<20), 'g', 4, 64) + " Mi"
	case v >= 1<<10:
		return strconv.FormatFloat(v/(1<<10), 'g', 4, 64) + " Ki"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// ruler is an axis with its range decided.
type ruler struct {
	axis     Axis
	min, max float64
}

// tick is a place on an axis; without a label it is a thin line only.
type tick struct {
	value float64
	label string
}

// mostTicks bounds an axis whose steps are below the resolution of its numbers.
const mostTicks = 200

// newRuler decides the range for values; a logarithmic axis ignores values that are not positive.
func newRuler(a Axis, values []float64) ruler {
	lo, hi := math.Inf(1), math.Inf(-1)
	see := func(v float64) {
		if math.IsNaN(v) || math.IsInf(v, 0) || (a.Scale == Log10 || a.Scale == Log2) && v <= 0 || a.Scale == Nines && (v < 0 || v >= 1) {
			return
		}
		lo, hi = min(lo, v), max(hi, v)
	}
	for _, v := range values {
		see(v)
	}
	if a.Min != 0 {
		see(a.Min)
		see(0)
	}
	if lo > hi {
		lo, hi = 1, 10
		if a.Scale == Nines {
			lo, hi = 0, 0.9
		}
	}
	r := ruler{axis: a, min: lo, max: hi}
	switch a.Scale {
	case Linear:
		if lo > 0 && lo < 0.6*hi { // show the whole, from nothing
			r.min = 0
		}
		if r.min == r.max {
			r.max = r.min + max(1, math.Abs(r.min)*0.1)
		}
		step := niceStep((r.max - r.min) / 5)
		r.min = math.Floor(r.min/step+1e-9) * step
		r.max = math.Ceil(r.max/step-1e-9) * step
	case Log10:
		if hi/lo < 1.25 {
			r.min, r.max = lo/1.12, hi*1.12
		} else {
			r.min, r.max = floor125(lo), ceil(hi, 1, 2, 5)
		}
	case Log2:
		if lo == hi {
			r.min, r.max = lo/2, hi*2
		}
	case Nines:
		r.min, r.max = 0, max(hi, 0.9)
	}
	return r
}

// tight takes back the rounding of a logarithmic range: across, a curve fills the frame.
func (r ruler) tight(values []float64) ruler {
	lo, hi := math.Inf(1), 0.0
	for _, v := range values {
		if v > 0 && !math.IsInf(v, 0) {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	if r.axis.Scale == Log10 && hi/lo >= 1.25 && r.axis.Min == 0 {
		r.min, r.max = lo, hi
	}
	return r
}

// floor125 is the largest of 1, 2, 5 times a power of ten not above v (v > 0).
func floor125(v float64) float64 {
	power := powerOfTen(v)
	for _, m := range []float64{5, 2} {
		if m*power <= v*(1+1e-9) {
			return m * power
		}
	}
	return power
}

// ceil is the smallest of some multiples of a power of ten, or ten of it, not below v (v > 0).
func ceil(v float64, multiples ...float64) float64 {
	power := powerOfTen(v)
	for _, m := range multiples {
		if m*power >= v*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

func powerOfTen(v float64) float64 { return math.Pow(10, math.Floor(math.Log10(v)+1e-12)) }

func niceStep(raw float64) float64 { return ceil(raw, 1, 2, 2.5, 5) }

func (r ruler) transform(v float64) float64 {
	switch r.axis.Scale {
	case Log10, Log2:
		return math.Log(max(v, math.SmallestNonzeroFloat64))
	case Nines:
		return -math.Log10(1 - min(v, 1-1e-12))
	case Linear:
	}
	return v
}

// place of a value, 0…1 along the axis; ok is false for values that a logarithm cannot show.
func (r ruler) place(v float64) (at float64, ok bool) {
	if math.IsNaN(v) || math.IsInf(v, 0) || (r.axis.Scale == Log10 || r.axis.Scale == Log2) && v <= 0 {
		return 0, false
	}
	lo, hi := r.transform(r.min), r.transform(r.max)
	return min(max((r.transform(v)-lo)/(hi-lo), 0), 1), true
}

// ticks of the axis, of which labels are at least gap (0…1) apart.
func (r ruler) ticks(gap float64) []tick {
	format := r.axis.Format
	if format == nil {
		format = number
	}
	var out []tick
	switch r.axis.Scale {
	case Linear:
		step := niceStep((r.max - r.min) / max(2, min(6, 1/gap)))
		for i := math.Ceil(r.min/step - 1e-9); i*step <= r.max+step*1e-6 && len(out) < mostTicks; i++ {
			out = append(out, tick{i * step, format(i * step)})
		}
	case Log10:
		decades := math.Log10(r.max / r.min)
		for e := math.Floor(math.Log10(r.min) + 1e-9); e <= math.Log10(r.max)+1e-9; e++ {
			for m := 1.0; m < 10; m++ {
				v := m * math.Pow(10, e)
				if v < r.min*(1-1e-9) || v > r.max*(1+1e-9) {
					continue
				}
				t := tick{value: v}
				if m == 1 || decades <= 2.5 && (m == 2 || m == 5) || decades <= 1.2 {
					t.label = format(v)
				}
				if t.label != "" || decades <= 4 {
					out = append(out, t)
				}
			}
		}
		if decades < 0.15 { // powers are too far apart: a linear choice within
			out = out[:0]
			step := niceStep((r.max - r.min) / 4)
			for i := math.Ceil(r.min / step); i*step <= r.max && len(out) < mostTicks; i++ {
				out = append(out, tick{i * step, format(i * step)})
			}
		}
	case Log2:
		for e := math.Ceil(math.Log2(r.min) - 1e-9); e <= math.Log2(r.max)+1e-9; e++ {
			out = append(out, tick{math.Exp2(e), format(math.Exp2(e))})
		}
	case Nines:
		out = append(out, tick{0, "0"}, tick{0.5, "50"})
		for n := 1; n <= 9; n++ {
			v := 1 - math.Pow(10, -float64(n))
			if v > r.max+1e-12 {
				break
			}
			out = append(out, tick{v, strconv.FormatFloat(100*v, 'f', max(0, n-2), 64)})
		}
		for i := range out {
			out[i].label += " %"
		}
	}
	if r.axis.Scale == Log10 {
		return r.thinDecades(out, gap)
	}
	return r.thin(out, gap)
}

// thinDecades keeps labels in the order 1, then 2 and 5, 3, and the rest, as long as each has room.
func (r ruler) thinDecades(ticks []tick, gap float64) []tick {
	kept := make([]float64, 0, len(ticks))
	labels := make([]string, len(ticks))
	for i := range ticks {
		labels[i], ticks[i].label = ticks[i].label, ""
	}
	for _, digits := range []string{"1", "2 5", "3", "7", "4 6 8 9"} {
		for i, t := range ticks {
			digit := strconv.FormatFloat(t.value, 'e', 0, 64)[:1]
			if labels[i] == "" || !strings.Contains(digits, digit) {
				continue
			}
			at, _ := r.place(t.value)
			if !slices.ContainsFunc(kept, func(k float64) bool { return math.Abs(k-at) < gap }) {
				ticks[i].label = labels[i]
				kept = append(kept, at)
			}
		}
	}
	return ticks
}

// thin drops labels that would touch, keeping every second, fourth and so on.
func (r ruler) thin(ticks []tick, gap float64) []tick {
	labelled := func(step int) (closest float64) {
		closest, last, n := 2, -1.0, 0
		for _, t := range ticks {
			if t.label == "" {
				continue
			}
			if n%step == 0 {
				at, _ := r.place(t.value)
				if last >= 0 {
					closest = min(closest, at-last)
				}
				last = at
			}
			n++
		}
		return closest
	}
	step := 1
	for step < 64 && labelled(step) < gap {
		step++
	}
	n := 0
	for i := range ticks {
		if ticks[i].label == "" {
			continue
		}
		if n%step != 0 {
			ticks[i].label = ""
		}
		n++
	}
	return ticks
}

// hint is a value for a tool tip.
func hint(v float64, a Axis) string {
	if a.Scale == Nines {
		return fmt.Sprintf("%.6g %%", 100*v)
	}
	if a.Format != nil {
		return a.Format(v)
	}
	return strconv.FormatFloat(v, 'g', 5, 64)
}
