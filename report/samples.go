package report

import (
	"math"
	"slices"
)

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

// rank is the number of samples, counted from the smallest, that make up the share p of n: at least 1.
func rank(p float64, n uint64) uint64 {
	k := uint64(math.Ceil(p*float64(n) - 1e-9))
	return min(max(k, 1), n)
}

// NewLatency computes the figures of samples; no samples give the zero Latency. Percentiles are exact where Raw holds
// every sample, and otherwise the highest value of the sample's bucket, at most 1/1024 above it.
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
	at := s.QuantilesNs()
	for _, f := range LatencyFigures() {
		if p, is := f.Percentile(); is && f.Supported(s.N) {
			f.set(&l, at(p))
		}
	}
	return l
}

// QuantilesNs returns a function from a share to the value that so many samples reach at most. There must be a sample.
func (s Samples) QuantilesNs() func(p float64) float64 {
	if uint64(len(s.Raw)) >= s.N {
		sorted := slices.Sorted(slices.Values(s.Raw[:s.N]))
		return func(p float64) float64 { return float64(sorted[rank(p, s.N)-1]) * s.Scale }
	}
	return func(p float64) float64 {
		left := rank(p, s.N)
		for i, c := range s.Counts {
			if uint64(c) >= left {
				_, high := bucket(i)
				return float64(min(max(high, s.Min), s.Max)) * s.Scale
			}
			left -= uint64(c)
		}
		return float64(s.Max) * s.Scale
	}
}

// Layout of an HdrHistogram of 3 significant digits and unit magnitude 0.
const (
	subBuckets     = 2048
	halfSubBuckets = subBuckets / 2
)

// bucket is the lowest and the highest value counted at index i of a counts array.
func bucket(i int) (low, high int64) {
	if i < subBuckets {
		return int64(i), int64(i)
	}
	shift := i/halfSubBuckets - 1
	low = int64(i-shift*halfSubBuckets) << shift
	return low, low + 1<<shift - 1
}
