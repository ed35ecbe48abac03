package report

import (
	"math"
	"slices"
)

// stepsPerInterval is how many completions an interval must hold at least, on average: its edges cut one of them, so
// that intervals of a steady rate differ by a tenth.
const stepsPerInterval = 10

// Rates is the time series in intervals that are long enough for a rate, as a completion stands for CQMod messages. The
// rest at the end is dropped. Nil: there is no series, or the run was too short for two intervals.
func (r *Record) Rates() *Series {
	s := r.Series
	if s == nil || s.IntervalS <= 0 || len(s.Messages) != len(s.Bytes) {
		return nil
	}
	sum := func(values []float64) (total float64) {
		for _, v := range values {
			total += v
		}
		return total
	}
	mean := sum(s.Bytes) / float64(len(s.Bytes))
	if !(mean > 0) {
		return nil
	}
	step := float64(max(r.CQMod, 1)) * float64(r.SizeBytes)
	n := max(int(math.Ceil(stepsPerInterval*step/mean)), 1)
	if len(s.Bytes) < 2*n {
		return nil
	}
	out := &Series{IntervalS: s.IntervalS * float64(n)}
	for at := 0; at+n <= len(s.Bytes); at += n {
		out.Bytes, out.Messages = append(out.Bytes, sum(s.Bytes[at:at+n])), append(out.Messages, sum(s.Messages[at:at+n]))
	}
	return out
}

// Plus adds the series of two ends that ran at the same time; nil where one has none. They need not start together: an
// end that stops up to an interval after the other has that in the last interval of both.
func (s *Series) Plus(o *Series) *Series {
	if s == nil || o == nil {
		return nil
	}
	long, short := s.clone(), o.clone()
	for long.IntervalS < 0.75*short.IntervalS {
		long.fold()
	}
	for short.IntervalS < 0.75*long.IntervalS {
		short.fold()
	}
	if len(short.Bytes) > len(long.Bytes) {
		long, short = short, long
	}
	add := func(a, b []float64) []float64 {
		for i, v := range b {
			a[i] += v
		}
		if last := len(b); last > 0 && len(a) == last+1 {
			a[last-1] += a[last]
			a = a[:last]
		}
		return a
	}
	long.Bytes, long.Messages = add(long.Bytes, short.Bytes), add(long.Messages, short.Messages)
	return long
}

func (s *Series) clone() *Series {
	return &Series{s.IntervalS, slices.Clone(s.Bytes), slices.Clone(s.Messages)}
}

// fold joins neighbouring intervals; the last may have none.
func (s *Series) fold() {
	s.Bytes, s.Messages = Folded(s.Bytes), Folded(s.Messages)
	s.IntervalS *= 2
}

// Folded joins neighbours in place; the last may have none.
func Folded(v []float64) []float64 {
	for i, x := range v {
		if i%2 == 0 {
			v[i/2] = x
		} else {
			v[i/2] += x
		}
	}
	return v[:(len(v)+1)/2]
}
