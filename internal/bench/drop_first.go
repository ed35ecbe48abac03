package bench

import (
	"slices"
	"sort"

	"github.com/gobw/gobw/verbs/job"
)

// dropFirst takes the first sample out of a recorder that has more.
func dropFirst(rec *job.Recorder) {
	if rec.N < 2 || rec.RawLen == 0 {
		return
	}
	first := rec.Raw[0]
	place := min(max(first, 0), job.HistogramHighest)
	if first > job.HistogramHighest {
		rec.Clipped--
	}
	rec.Counts[job.HistogramIndex(uint64(place))]--
	copy(rec.Raw, rec.Raw[1:rec.RawLen])
	rec.RawLen--
	rec.N--
	if rec.RawLen == rec.N {
		rec.Min, rec.Max, rec.Shift, rec.Sum, rec.SumSq = rec.Raw[0], rec.Raw[0], rec.Raw[0], 0, 0
		for _, t := range rec.Raw[:rec.RawLen] {
			rec.Min, rec.Max = min(rec.Min, t), max(rec.Max, t)
			d := float64(t - rec.Shift)
			rec.Sum += float64(t)
			rec.SumSq += d * d
		}
		return
	}
	rec.Sum -= float64(first) // and nothing of SumSq: the first sample is the shift
	if first < rec.Max {
		return
	}
	for i, n := range slices.Backward(rec.Counts) {
		if n > 0 { // the largest value that is counted there
			beyond := sort.Search(job.HistogramHighest, func(v int) bool { return job.HistogramIndex(uint64(v)) > i })
			rec.Max = job.Ticks(beyond - 1)
			return
		}
	}
}
