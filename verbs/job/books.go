package job

import "github.com/gobw/gobw/verbs"

// Books account for what a runner of another kind has logged, in its order, as the loop does for what it does itself:
// samples, the peak, the trace. The runner counts progress.
type Books struct {
	loop              *loop
	lanes             []laneBook
	posted, completed uint64 // payload of all lanes
	samples           bool   // of a stream; those of a ping-pong are its steps
}

// laneBook is the book of a lane. It has its messages in flight by the time at which they were posted.
type laneBook struct {
	before          []uint64 // payload of the ring before each message
	posted, retired uint64
	signal, count   uint64
	postings        []posting // a ring, the oldest at head
	head, flying    int
}

// posting is the messages that were posted at one time: those below end that no earlier posting has.
type posting struct {
	end uint64
	at  Ticks
}

// noDriver is that of a loop which only accounts.
type noDriver struct{ Driver }

func (noDriver) Compile(int, *Lane, [][]verbs.SendRequest) error { return nil }

// NewBooks opens the books of a job.
func NewBooks(j *Job) (*Books, error) {
	l, err := newLoop(j, noDriver{})
	if err != nil {
		return nil, err
	}
	b := &Books{loop: l, lanes: make([]laneBook, len(j.Lanes)), samples: j.Shape == Stream && l.record.Samples}
	for i := range j.Lanes {
		from := &j.Lanes[i]
		b.lanes[i] = laneBook{
			before: from.Payload(), signal: uint64(max(from.Signal, 1)), count: from.Count,
			postings: make([]posting, max(from.Window, 1)+1),
		}
	}
	return b, nil
}

// Payload is the bytes of a lane's ring before each of its messages, and of all.
func (l *Lane) Payload() []uint64 {
	before := make([]uint64, len(l.Ring)+1)
	for k := range l.Ring {
		before[k+1] = before[k] + l.Ring[k].Bytes
	}
	return before
}

// PayloadBefore is the bytes of the first n messages, from the [Lane.Payload] of their ring.
func PayloadBefore(before []uint64, n uint64) uint64 {
	ring := uint64(len(before) - 1)
	if ring == 0 {
		return 0
	}
	return n/ring*before[ring] + before[n%ring]
}

// Step accounts for a step of a ping-pong that ended at a time of the host's clock, and of the device's. It began with
// the end of the step before, or at begun.
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

// Take accounts for n messages of a lane that were posted at one time, found complete by one poll, or received, or
// for n receives that were posted again.
func (b *Books) Take(k TraceKind, lane int, n uint64, at Ticks) {
	r := b.loop
	switch l := &r.lanes[lane]; k {
	case TracePost:
		r.note(k, l, &l.posted, n)
		b.post(&b.lanes[lane], n, at)
	case TraceComplete:
		l.retired += n
		if r.job.Trace != nil {
			r.trace(k, l, l.retired-1, 1)
		}
		b.complete(&b.lanes[lane], n, at)
	case TraceReceive:
		r.note(k, l, &l.received, n)
	case TraceRepost:
		r.note(k, l, &l.receivesPosted, n)
	}
}

func (b *Books) post(l *laneBook, n uint64, at Ticks) {
	if peak := b.loop.peak; peak != nil {
		peak.Post(b.posted, at)
	}
	from := l.posted
	l.posted += n
	b.posted += PayloadBefore(l.before, l.posted) - PayloadBefore(l.before, from)
	l.postings[wrap(l.head, l.flying, len(l.postings))] = posting{l.posted, at}
	l.flying++
}

// complete takes a sample for each message that was signaled, of the time since it was posted.
func (b *Books) complete(l *laneBook, n uint64, at Ticks) {
	from, to := l.retired, l.retired+n
	for l.retired < to && l.flying > 0 {
		p := &l.postings[l.head]
		end := min(p.end, to)
		signaled := end/l.signal - l.retired/l.signal
		if end == l.count && end%l.signal != 0 {
			signaled++
		}
		if b.samples && signaled > 0 {
			b.loop.record.add(at-p.at, signaled)
		}
		if l.retired = end; end == p.end {
			l.head = wrap(l.head, 1, len(l.postings))
			l.flying--
		}
	}
	b.completed += PayloadBefore(l.before, to) - PayloadBefore(l.before, from)
	if peak := b.loop.peak; peak != nil {
		peak.Complete(b.completed, at)
	}
}
