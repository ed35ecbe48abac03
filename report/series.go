package report

import (
	"math"
)

// stepsPerInterval is how many completions an interval must hold at least, on average: its edges cut one of them, so that
// intervals of a steady rate differ by a tenth.
const stepsPerInterval = 10

// Rates is the time series in intervals long enough to tell a rate: a completion tells of CQMod messages at once. Nil where
// there is no series, or the run was too short for two such intervals.
func (r *Record) Rates() *Series {
	s := r.Series
	if s == nil || s.IntervalS <= 0 || len(s.Messages) != len(s.Bytes) {
		return nil
	}
	total := 0.0
	for _, b := range s.Bytes {
		total += b
	}
	step := float64(max(r.CQMod, 1)) * float64(r.SizeBytes)
	mean := total / float64(len(s.Bytes))
	if !(mean > 0) {
		return nil
	}
	n := max(int(math.Ceil(stepsPerInterval*step/mean)), 1)
	if len(s.Bytes) < 2*n {
		return nil
	}
	return s.joined(n)
}

// joined makes one interval of every n; what is left at the end is none.
func (s *Series) joined(n int) *Series {
	if n == 1 {
		return s
	}
	out := &Series{IntervalS: s.IntervalS * float64(n)}
	for at := 0; at+n <= len(s.Bytes); at += n {
		bytes, messages := 0.0, 0.0
		for i := at; i < at+n; i++ {
			bytes, messages = bytes+s.Bytes[i], messages+s.Messages[i]
		}
		out.Bytes, out.Messages = append(out.Bytes, bytes), append(out.Messages, messages)
	}
	return out
}
