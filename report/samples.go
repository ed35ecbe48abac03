package report

import "math"

// Samples are the time samples of one run as a recorder keeps them: HdrHistogram-shaped counts of any unit, exact sums,
// and as many samples as were kept as they came. Scale turns the unit into nanoseconds.
type Samples struct {
	// Counts is the counts array of hdrhistogram.New(1, highest, 3): unit magnitude 0, 2048 sub-buckets.
	Counts []int64
	// Raw are the first samples as they came; where all N are here, percentiles are exact.
	Raw []int64
	N   uint64
	Min int64
	Max int64
	Sum float64
	// SumSq is the sum of (sample - Shift)²; a Shift near the samples keeps the digits of the deviation.
	SumSq   float64
	Shift   int64
	Clipped uint64 // samples above the highest value; they are counted in the last bucket
	// Scale is nanoseconds per unit; half of it where the latency is half of what was stamped.
	Scale float64
}

// Supported tells whether n samples carry the percentile p (0 < p < 1): there must be at least 10/(1-p), so that ten
// samples or more lie above it.
func Supported(p float64, n uint64) bool {
	return float64(n)*(1-p) >= 10-1e-6
}

// NewLatency computes the figures of samples; no samples give the zero Latency. Percentiles are those of the
// [Distribution].
func NewLatency(s Samples) Latency {
	if s.N == 0 {
		return Latency{}
	}
	n := float64(s.N)
	mean := s.Sum / n
	shifted := mean - float64(s.Shift)
	l := Latency{
		Samples: s.N,
		MinNs:   float64(s.Min) * s.Scale,
		MaxNs:   float64(s.Max) * s.Scale,
		MeanNs:  mean * s.Scale,
		StdevNs: math.Sqrt(max(0, s.SumSq/n-shifted*shifted)) * s.Scale,
	}
	d := s.Distribution()
	for _, f := range LatencyFigures() {
		if p, is := f.Percentile(); is && f.Supported(s.N) {
			f.set(&l, d.QuantileNs(p))
		}
	}
	return l
}
