package report

import "math"

// stepsPerInterval is how many completions an interval must hold at least, on average: its edges cut one of them, so that
// intervals of a steady rate differ by a tenth.
const stepsPerInterval = 10

// Rates is the time series in intervals long enough to tell a rate: a completion tells of CQMod messages at once. What is left at the
// end is none. Nil where there is no series, or the run was too short for two such intervals.
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
