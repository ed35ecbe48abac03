package roce

import (
	"errors"
	"fmt"

	"github.com/gobw/gobw/verbs"
)

// account takes a completion into the job's books.
func (r *runner) account(x *entry, now verbs.Ticks) error {
	var l *lane
	q := r.e.qps[x.QPN&(maxQP-1)]
	if q != nil && q.qpn == x.QPN && q.lane < len(r.lanes) && r.lanes[q.lane].q == q {
		l = &r.lanes[q.lane]
	}
	if x.Status != verbs.Success {
		return &verbs.CompletionError{Device: DeviceName, Completion: x.Completion, Sent: r.progress.Posted, Done: r.progress.Completed}
	}
	if l == nil {
		return r.e.fail("run job", x.QPN, errors.New("a completion of a queue pair that is on no lane"))
	}
	r.progress.LastDone = now
	if x.Opcode.IsReceive() {
		return r.receive(l, x.Bytes)
	}
	r.retire(l, x.ID+1, now)
	return nil
}

// retire accounts for a completion: all of the lane's messages before to are complete.
func (r *runner) retire(l *lane, to uint64, now verbs.Ticks) {
	n := to - l.retired
	var posted verbs.Ticks
	for range n {
		m := &l.ring[l.retireAt]
		if l.retireAt++; l.retireAt == len(l.ring) {
			l.retireAt = 0
		}
		r.progress.BytesOut += m.bytes
		if m.done.Go != nil {
			begin := verbs.Now()
			m.done.Go(m.done.Arg)
			if r.record.CPU {
				r.record.UnpackTicks += verbs.Now() - begin
			}
		}
		posted = l.sampleAt[l.sampled]
		if l.sampled++; l.sampled == len(l.sampleAt) {
			l.sampled = 0
		}
	}
	l.retired = to
	r.progress.Completed += n
	if r.job.Trace != nil {
		r.trace(verbs.TraceComplete, l, to-1)
	}
	if r.record.Samples && r.job.Shape == verbs.Stream {
		r.record.Add(now - posted)
	}
	if r.peak != nil {
		r.peak.Complete(r.progress.BytesOut, now)
	}
}

// receive accounts for one arrived message, unpacks it and posts the next receive; a ping-pong puts that off: see catchUp.
func (r *runner) receive(l *lane, bytes uint32) error {
	k := l.received
	l.received++
	r.progress.Received++
	r.progress.BytesIn += uint64(bytes)
	if l.q.transport == verbs.UD {
		r.progress.BytesIn -= min(uint64(bytes), grhBytes)
	}
	if r.job.Trace != nil {
		r.trace(verbs.TraceReceive, l, k)
	}
	if len(l.Unpack) > 0 {
		w := l.Unpack[l.unpackAt]
		if l.unpackAt++; l.unpackAt == len(l.Unpack) {
			l.unpackAt = 0
		}
		if w.Go != nil {
			begin := verbs.Now()
			w.Go(w.Arg)
			if r.record.CPU {
				r.record.UnpackTicks += verbs.Now() - begin
			}
		}
	}
	switch {
	case len(l.Receives) == 0:
		return nil
	case r.job.Shape == verbs.PingPong:
		l.owed++
		return nil
	}
	return r.repost(l)
}

// repost posts a lane's next receive, if one is due.
func (r *runner) repost(l *lane) error {
	if l.Expect > 0 && l.receivePosted >= l.Expect {
		return nil
	}
	next := &l.Receives[l.receiveAt]
	if l.receiveAt++; l.receiveAt == len(l.Receives) {
		l.receiveAt = 0
	}
	var err error
	switch {
	case l.srq == nil:
		err = l.q.postReceive(next)
	case l.srq.closed:
		err = verbs.ErrClosed
	default:
		err = l.srq.queue.post(next)
	}
	if err != nil {
		return r.e.fail("post receive", l.q.qpn, fmt.Errorf("lane %d, receive %d: %w", l.index, l.receivePosted, err))
	}
	if r.job.Trace != nil {
		r.trace(verbs.TraceRepost, l, l.receivePosted)
	}
	l.receivePosted++
	return nil
}

// grhBytes is what a UD receive counts besides the payload.
const grhBytes = 40
