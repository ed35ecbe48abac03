package bench

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
	Share        float64 // of this round, 0…1; negative where unknown
	BitsPerS     float64 // over the last tenth of a second, or up to the last completion where they come less often
	MessagesPerS float64
	Messages     uint64
}

// tell tells how far the round has come.
func (d *driver) tell(now job.Ticks) {
	t := &d.told
	bytes, messages := float64(d.p.BytesOut-t.p.BytesOut), float64(d.p.Completed-t.p.Completed)
	if !d.plan.Sends() {
		bytes, messages = float64(d.p.BytesIn-t.p.BytesIn), float64(d.p.Received-t.p.Received)
	}
	t.at = now
	if messages > 0 {
		seconds := float64(now-t.moved) / d.perNs / 1e9
		t.bitsPerS, t.messagesPerS = bytes*8/seconds, messages/seconds
		t.moved, t.p = now, d.p
	}
	share := -1.0
	switch {
	case d.limit.count > 0:
		share = float64(max(d.p.Completed, d.p.Received)) / float64(d.limit.count)
	case d.limit.duration > 0:
		share = float64(now-d.begun) / float64(d.limit.duration)
	}
	d.o.Progress(Progress{
		Size: d.spec.Sizes[d.rd.Size], SizeIndex: d.rd.Size, Sizes: len(d.spec.Sizes), Run: d.rd.Run, Runs: d.spec.Runs,
		Warmup: d.rd.Kind != plan.Measured, Share: min(share, 1), BitsPerS: t.bitsPerS, MessagesPerS: t.messagesPerS,
		Messages: max(d.p.Completed, d.p.Received),
	})
}

// telling is what the last progress said. Completions may come less often than it is told: the rates are those up to the
// last that came.
type telling struct {
	at, moved              job.Ticks
	p                      job.Progress // at moved
	bitsPerS, messagesPerS float64
}
