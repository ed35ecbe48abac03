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
	Size         int // bytes
	SizeIndex    int
	Sizes        int
	Run, Runs    int
	Warmup       bool
	Share        float64       // of this round, 0…1; negative where unknown
	Of           float64       // of all rounds, 0…1
	Latency      time.Duration // of a latency test: the median so far
	BitsPerS     float64       // over the last tenth of a second, or up to the last completion where they come less often
	MessagesPerS float64
	Messages     uint64
}

// tell tells how far the round has come.
func (d *Driver) tell(now job.Ticks) {
	t := &d.told
	bytes, messages := float64(d.p.BytesOut-t.p.BytesOut), float64(d.p.Completed-t.p.Completed)
	if !d.Plan.Sends() {
		bytes, messages = float64(d.p.BytesIn-t.p.BytesIn), float64(d.p.Received-t.p.Received)
	}
	t.at = now
	if messages > 0 {
		seconds := float64(now-t.moved) / d.PerNs / 1e9
		t.bitsPerS, t.messagesPerS = bytes*8/seconds, messages/seconds
		t.moved, t.p = now, d.p
	}
	share := -1.0
	switch {
	case d.Limits.Count > 0:
		share = float64(max(d.p.Completed, d.p.Received)) / float64(d.Limits.Count)
	case d.Limits.Duration > 0:
		share = float64(now-d.begun) / float64(d.Limits.Duration)
	}
	all := float64(d.Records)
	if d.Round.Kind == plan.Measured {
		all += max(share, 0)
	}
	d.Progress(Progress{
		Size: d.Spec.Sizes[d.Round.Size], SizeIndex: d.Round.Size, Sizes: len(d.Spec.Sizes), Run: d.Round.Run, Runs: d.Spec.Runs,
		Warmup: d.Round.Kind != plan.Measured, Share: min(share, 1), Of: min(all/float64(len(d.Spec.Sizes)*d.Spec.Runs), 1), BitsPerS: t.bitsPerS, MessagesPerS: t.messagesPerS,
		Messages: max(d.p.Completed, d.p.Received), Latency: d.medianSoFar(),
	})
}

// medianSoFar is that of a latency test; 0 where there is no sample yet.
func (d *Driver) medianSoFar() time.Duration {
	rec := d.Job.Record
	if d.Spec.Kind != plan.Latency || rec.N == 0 {
		return 0
	}
	ns := float64(rec.Quantile(0.5)) / d.PerNs
	if d.Plan.Answers() {
		ns /= 2
	}
	return time.Duration(ns)
}

// telling is what the last progress said. Completions may come less often than it is told: the rates are those up to the
// last that came.
type telling struct {
	at, moved              job.Ticks
	p                      job.Progress // at moved
	bitsPerS, messagesPerS float64
}
