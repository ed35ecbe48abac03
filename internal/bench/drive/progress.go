package drive

import (
	"time"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs/job"
)

// progressEvery is how often progress is told.
const progressEvery = 100 * time.Millisecond

// Progress is how far a test has come.
type Progress struct {
	Size      int // bytes
	SizeIndex int
	Sizes     int
	Run, Runs int
	Warmup    bool
	Of        float64 // the share of all rounds that is done, 0…1
	BitsPerS  float64 // of a bandwidth test: on average in this round so far
	MedianNs  float64 // of a latency test: of this round so far; 0: no sample yet
	Messages  uint64
}

// tell tells how far the round has come.
func (d *Driver) tell(now job.Ticks) {
	d.told = now
	p := Progress{
		Size: d.Spec.Sizes[d.Round.Size], SizeIndex: d.Round.Size, Sizes: len(d.Spec.Sizes), Run: d.Round.Run,
		Runs:   d.Spec.Runs,
		Warmup: d.Round.Kind != plan.Measured, Messages: max(d.p.Completed, d.p.Received),
	}
	done := float64(d.Round.Size*p.Runs + max(p.Run-1, 0))
	switch {
	case p.Warmup:
	case d.Limits.Count > 0:
		done += float64(p.Messages) / float64(d.Limits.Count)
	case d.Limits.Duration > 0:
		done += float64(now-d.begun) / float64(d.Limits.Duration)
	}
	p.Of = min(done/float64(p.Sizes*p.Runs), 1)
	if d.Spec.Kind == plan.Bandwidth {
		p.BitsPerS = 8 * float64(max(d.p.BytesOut, d.p.BytesIn)) / d.PerNs.Seconds(now-d.begun)
	} else {
		p.MedianNs = d.median()
	}
	d.Progress(p)
}

// median is the median of the samples so far in ns, by the clock that stamped them; 0: there is none.
func (d *Driver) median() float64 {
	rec, perNs := d.Trace.Recorder, float64(d.PerNs)
	if !rec.Clock.IsZero() {
		perNs = rec.Clock.Hz / 1e9
	}
	if d.Plan.Answers() { // a sample is a round trip: half of it is told
		perNs *= 2
	}
	return float64(rec.Quantile(0.5)) / perNs
}
