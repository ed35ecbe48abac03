package job

import (
	"math"
	"math/bits"
	"slices"

	"github.com/gobw/gobw/verbs"
)

// Histogram layout: HdrHistogram with unit magnitude 0 and 2048 sub-buckets (3 significant digits): values below 2048
// are exact, above they share a bucket with neighbours within 1/1024.
const (
	histogramSubBits  = 11
	histogramHalfBits = histogramSubBits - 1
	histogramMaxBits  = 44 // 2^44 ticks: an hour and a half at 3 GHz
	// HistogramCounts is the length of [Recorder].Counts; it equals the counts array of
	// hdrhistogram.New(1, 1<<44-1, 3).
	HistogramCounts = (histogramMaxBits - histogramSubBits + 2) << histogramHalfBits
	// HistogramHighest is the highest value counted exactly in its bucket; higher ones are counted as this, and Clipped.
	HistogramHighest = 1<<histogramMaxBits - 1
	// RawSamples is how many samples a recorder keeps as they came.
	RawSamples = 1 << 20
)

// Recorder takes the samples of one run in constant memory: HdrHistogram-shaped counts, sums, and the first samples as
// they came. Runners fill it in the loop; its layout is read from C. It belongs to the runner while a job runs.
type Recorder struct {
	// What to record, set before the run.
	Samples bool // a sample per step (ping-pong) or per signaled completion (stream: post to completion, per batch)
	Peak    bool // of a stream: search for the best rate from a post to a completion
	CPU     bool // account ticks spent packing, unpacking, posting and in polls that found something
	// Clock, where set, is the device's, and the samples of a ping-pong are from the completion that ended one step to
	// that of the next, in its ticks. The first step has none. All queues of the job must stamp their completions.
	Clock verbs.CompletionClock
	// HoldFirst leaves out the first sample, unless none follows it before Release: in a ping-pong it contains the time
	// until the peer was ready. Reset clears HoldFirst.
	HoldFirst bool
	held      Ticks

	Counts  []int64 // HistogramCounts long, in ticks
	Raw     []Ticks // capacity for the first samples
	RawLen  uint64
	N       uint64
	Min     Ticks
	Max     Ticks
	Sum     float64
	SumSq   float64 // of (sample - Shift), so that the deviation keeps its digits
	Shift   Ticks   // the first sample
	Clipped uint64
	// Elapsed is the time of all samples by the host's clock, where Sum is by Clock: from when the first one's begin was
	// noticed to when the last one's end was.
	Elapsed Ticks

	PeakBytes uint64 // the best rate, as a fraction; see [PeakSearch]
	PeakTicks Ticks

	PackTicks, UnpackTicks, PostTicks, PollTicks Ticks
}

// NewRecorder makes a recorder; raw is the number of samples kept as they came (at most [RawSamples]).
func NewRecorder(raw int) *Recorder {
	return &Recorder{Counts: make([]int64, HistogramCounts), Raw: make([]Ticks, min(max(raw, 0), RawSamples))}
}

// Reset forgets all samples and keeps what to record, from the next sample on.
func (r *Recorder) Reset() {
	clear(r.Counts)
	*r = Recorder{Samples: r.Samples, Peak: r.Peak, CPU: r.CPU, Clock: r.Clock, Counts: r.Counts, Raw: r.Raw}
}

// Clone is what the recorder holds now; what it takes from then on leaves the copy alone.
// Both share the samples that they kept.
func (r *Recorder) Clone() *Recorder {
	c := *r
	c.Counts = slices.Clone(r.Counts)
	return &c
}

// Release records the sample that was held back where none came after it.
func (r *Recorder) Release() {
	if r.HoldFirst = false; r.N == 0 && r.held != 0 {
		r.Add(r.held)
	}
}

// Add records one sample.
func (r *Recorder) Add(t Ticks) { r.add(t, 1) }

// add records so many samples of the same value.
func (r *Recorder) add(t Ticks, times uint64) {
	if r.N == 0 {
		if r.HoldFirst && r.held == 0 {
			r.held = t
			return
		}
		r.Min, r.Max, r.Shift = t, t, t
	} else if t < r.Min {
		r.Min = t
	} else if t > r.Max {
		r.Max = t
	}
	for end := min(r.RawLen+times, uint64(len(r.Raw))); r.RawLen < end; r.RawLen++ {
		r.Raw[r.RawLen] = t
	}
	r.N += times
	d := float64(t - r.Shift)
	r.Sum += float64(t) * float64(times)
	r.SumSq += d * d * float64(times)
	if t < 0 {
		t = 0
	}
	if t > HistogramHighest {
		t = HistogramHighest
		r.Clipped += times
	}
	r.Counts[HistogramIndex(uint64(t))] += int64(times)
}

// Quantile is the value that so large a share of the samples so far does not exceed, within a thousandth; 0: no sample.
func (r *Recorder) Quantile(share float64) Ticks {
	left := int64(math.Ceil(share * float64(r.N)))
	for i, n := range r.Counts {
		if left -= n; left <= 0 && r.N > 0 {
			return histogramValue(i)
		}
	}
	return 0
}

// Merge adds what another recorder has taken, but for its peak: the best rate of both does not follow from the best
// rates of the two.
func (r *Recorder) Merge(o *Recorder) {
	r.PackTicks += o.PackTicks
	r.UnpackTicks += o.UnpackTicks
	r.PostTicks += o.PostTicks
	r.PollTicks += o.PollTicks
	if o.N == 0 {
		return
	}
	if r.N == 0 {
		r.Min, r.Max, r.Shift = o.Min, o.Max, o.Shift
	}
	r.Min, r.Max = min(r.Min, o.Min), max(r.Max, o.Max)
	n, d := float64(o.N), float64(o.Shift-r.Shift)
	r.SumSq += o.SumSq + 2*d*(o.Sum-n*float64(o.Shift)) + n*d*d // about this recorder's shift
	r.Sum += o.Sum
	r.N += o.N
	r.Elapsed += o.Elapsed
	r.Clipped += o.Clipped
	r.RawLen += uint64(copy(r.Raw[r.RawLen:], o.Raw[:o.RawLen]))
	for i, c := range o.Counts {
		r.Counts[i] += c
	}
}

// histogramValue is the least value that is counted at an index.
func histogramValue(i int) Ticks {
	if i < 1<<histogramSubBits {
		return Ticks(i)
	}
	half := 1 << histogramHalfBits
	return Ticks(i%half+half) << (i>>histogramHalfBits - 1)
}

// HistogramIndex is the place of a value in [Recorder].Counts.
func HistogramIndex(v uint64) int {
	bucket := bits.Len64(v|(1<<histogramSubBits-1)) - histogramSubBits
	sub := int(v >> bucket)
	return (bucket+1)<<histogramHalfBits + sub - 1<<histogramHalfBits
}
