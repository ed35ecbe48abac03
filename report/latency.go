package report

import (
	"reflect"
	"strconv"
	"strings"
)

// LatencyFigure is one figure of a [Latency].
type LatencyFigure struct {
	Name    string
	Aliases []string
	field   int
}

// LatencyFigures are the figures of a latency in the order of its fields: those with a tag "figure", which has their
// names. All code that computes, shows or judges a latency uses this list.
func LatencyFigures() []LatencyFigure {
	var out []LatencyFigure
	for i, f := range fieldsOf(&Latency{}) {
		if all := strings.Split(f.Tag.Get("figure"), ","); all[0] != "" {
			out = append(out, LatencyFigure{all[0], all[1:], i})
		}
	}
	return out
}

// Percentile is the share of the samples that are not above the figure: 0.999 of "p99.9"; false: it is no percentile.
func (f LatencyFigure) Percentile() (share float64, is bool) {
	digits, is := strings.CutPrefix(f.Name, "p")
	if !is {
		return 0, false
	}
	share, err := strconv.ParseFloat("0."+strings.ReplaceAll(digits, ".", ""), 64)
	return share, err == nil
}

// Supported tells whether so many samples carry the figure. The median is given always.
func (f LatencyFigure) Supported(samples uint64) bool {
	p, is := f.Percentile()
	return !is || p <= 0.5 || Supported(p, samples)
}

// Ns is the figure in nanoseconds, false where the latency does not have it: a point of a grid has percentiles alone.
func (f LatencyFigure) Ns(l *Latency) (float64, bool) {
	if _, share := f.Percentile(); !share && l.MaxNs == 0 {
		return 0, false
	}
	v := reflect.Indirect(reflect.ValueOf(l).Elem().Field(f.field))
	if !v.IsValid() {
		return 0, false
	}
	return v.Float(), true
}

func (f LatencyFigure) set(l *Latency, ns float64) {
	v := reflect.ValueOf(l).Elem().Field(f.field)
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	v.SetFloat(ns)
}
