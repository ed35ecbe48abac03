package job

import "github.com/gobw/gobw/verbs"

// Books account for what a runner of another kind has logged, in its order, as the loop does for what it does itself: samples,
// the peak, the trace. The runner counts progress.
type Books struct{ loop *loop }

// noDriver is that of a loop which only accounts.
type noDriver struct{ Driver }

func (noDriver) Compile(int, *Lane, [][]verbs.SendRequest) error { return nil }

// NewBooks opens the books of a job.
func NewBooks(j *Job) (*Books, error) {
	l, err := newLoop(j, noDriver{})
	return &Books{l}, err
}

// Step accounts for a step of a ping-pong that ended at a time of the host's clock, and of the device's. It began with the end of the
// step before, or at begun.
func (b *Books) Step(begun, at Ticks, device uint64) {
	r := b.loop
	sendsFirst := r.job.First || r.lanes[0].Await == AwaitCompletion
	if begun != 0 && sendsFirst {
		r.stepStart = begun
	}
	r.awaited = device
	if lap, is := r.endStep(at, sendsFirst); is {
		r.record.Add(lap)
	}
	r.steps++
}

// Take accounts for n messages of a lane that were posted as one list, retired by one completion or received, or for n receives that
// were posted again.
func (b *Books) Take(k TraceKind, lane int, n uint64, at Ticks) {
	r := b.loop
	l := &r.lanes[lane]
	switch k {
	case TracePost:
		if r.peak != nil {
			r.peak.Post(r.postedBytes, at)
		}
		r.stamp(l, n, at)
	case TraceComplete:
		r.retire(l, l.retired+n, at)
	case TraceReceive:
		r.note(k, l, &l.received, n)
	case TraceRepost:
		r.note(k, l, &l.receivesPosted, n)
	}
}
