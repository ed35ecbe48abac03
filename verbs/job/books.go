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

// Posted accounts for a lane's next n messages, posted as one list.
func (b *Books) Posted(lane int, n uint64, at Ticks) {
	r := b.loop
	if r.peak != nil {
		r.peak.Post(r.postedBytes, at)
	}
	r.stamp(&r.lanes[lane], n, at)
}

// Completed accounts for a completion that retires n messages.
func (b *Books) Completed(lane int, n uint64, at Ticks) {
	l := &b.loop.lanes[lane]
	b.loop.retire(l, l.retired+n, at)
}

// Received accounts for n messages that arrived.
func (b *Books) Received(lane int, n uint64) {
	l := &b.loop.lanes[lane]
	b.loop.note(TraceReceive, l, &l.received, n)
}

// Reposted accounts for n receives that were posted again.
func (b *Books) Reposted(lane int, n uint64) {
	l := &b.loop.lanes[lane]
	b.loop.note(TraceRepost, l, &l.receivesPosted, n)
}
