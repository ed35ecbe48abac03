package roce

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/gobw/gobw/verbs"
)

// runner is a prepared job: the reference of verbs.RunReference with the queues' rings in place of verbs.
type runner struct {
	e      *engine
	job    *verbs.Job
	lanes  []lane
	cqs    []*completionQueue
	record *verbs.Recorder

	progress    verbs.Progress
	postedBytes uint64
	peak        *verbs.PeakSearch // nil: not asked for
	stepStart   verbs.Ticks       // ping-pong: when the previous step ended
	lap         verbs.Ticks       // ping-pong: the previous step's sample, not yet recorded
	steps       uint64
	sent        bool // ping-pong: this step's message is out
	armed       bool
	quiet       uint // rounds of progress in which nothing happened
	counted     bool // in engine.running
	closed      bool
}

// Close frees the runner.
func (r *runner) Close() error {
	r.e.lock()
	defer r.e.unlock()
	r.leave()
	r.closed = true
	return nil
}

func (r *runner) enter() {
	if !r.counted {
		r.counted = true
		r.e.running.Add(1)
	}
}

func (r *runner) leave() {
	if r.counted {
		r.counted = false
		r.e.running.Add(-1)
	}
}

// After quietRounds rounds in which nothing happened (some 30 µs: no round trip of a ping-pong is as long) a runner offers
// its processor at every quietEvery-th: where others want it, the peer perhaps among them, spinning only delays the answer.
const (
	quietRounds = 128
	quietEvery  = 16
)

// Run holds the device's lock for a slice, and lets in whoever waits for it.
func (r *runner) Run(until verbs.Ticks) (verbs.Progress, error) {
	e, j := r.e, r.job
	e.lock()
	if r.closed || e.closed {
		e.unlock()
		return r.progress, e.fail("run job", 0, verbs.ErrClosed)
	}
	r.enter()
	var moved, done bool
	var err error
	for {
		now := verbs.Now()
		if now >= until {
			break
		}
		ended := j.Stop != nil && j.Stop.Load() != 0 || j.Deadline != 0 && now >= j.Deadline
		if ended && j.AbandonAtDeadline {
			done = true
			break
		}
		switch j.Shape {
		case verbs.Stream:
			moved, done, err = r.stream(now, ended)
		case verbs.PingPong:
			moved, done, err = r.alternate(now, ended)
		case verbs.Serve:
			moved, err = r.poll(now, receiveBudget)
			done = ended
		}
		if done || err != nil {
			break
		}
		if e.waiting.Load() != 0 {
			e.letIn()
			if e.closed {
				err = e.fail("run job", 0, verbs.ErrClosed)
				break
			}
		}
		if !moved && j.Channel != nil {
			r.idle(until)
		}
	}
	if late := r.catchUp(); err == nil {
		err = late
	}
	if done || err != nil {
		r.progress.Done = done && err == nil
		r.leave()
	}
	p := r.progress
	e.unlock()
	return p, err
}

// stream posts on every lane what its window admits, then drives the device and takes what completed.
func (r *runner) stream(now verbs.Ticks, ended bool) (moved, done bool, err error) {
	for i := range r.lanes {
		l := &r.lanes[i]
		for {
			n := l.due(ended)
			if n == 0 || l.posted-l.retired+n > uint64(l.Window) || now < l.nextPost {
				break
			}
			if err := r.post(l, n, now); err != nil {
				return false, false, err
			}
			moved = true
		}
	}
	found, err := r.poll(now, receiveBudget)
	if err != nil {
		return false, false, err
	}
	if found {
		return true, r.finished(ended), nil
	}
	return moved, r.finished(ended), nil
}

func (r *runner) finished(ended bool) bool {
	for i := range r.lanes {
		l := &r.lanes[i]
		if len(l.ring) > 0 && (l.retired != l.posted || l.due(ended) != 0) {
			return false
		}
		if len(l.Receives) > 0 && !ended && (l.Expect == 0 || l.received < l.Expect) {
			return false
		}
	}
	return true
}

// due is the length of the lane's next batch: 0 when it has sent everything.
func (l *lane) due(ended bool) uint64 {
	if len(l.ring) == 0 {
		return 0
	}
	n := uint64(l.Batch)
	if l.Count > 0 {
		n = min(n, l.Count-l.posted)
	}
	if ended { // as far as the next signaled message
		if l.untilSignal == uint64(l.Signal) {
			return 0
		}
		n = min(n, l.untilSignal)
	}
	return n
}

// post puts the lane's next n messages into the send queue. They leave when the device is driven, but for the steps of
// a message of several, which leave as they are packed.
func (r *runner) post(l *lane, n uint64, now verbs.Ticks) error {
	start := now
	if r.record.CPU || r.progress.FirstPost == 0 || r.job.Pace != 0 {
		start = verbs.Now()
		if r.progress.FirstPost == 0 {
			r.progress.FirstPost = start
		}
		l.nextPost = start + r.job.Pace*verbs.Ticks(n)
	}
	if r.peak != nil {
		r.peak.Post(r.postedBytes, start)
	}
	var packing verbs.Ticks
	q := l.q
	s := &q.send
	for range n {
		m := &l.ring[l.sendAt]
		for i := range m.requests {
			p := &m.requests[i]
			if p.pack.Go != nil {
				if i > 0 {
					q.start()
				}
				begin := verbs.Now()
				p.pack.Go(p.pack.Arg)
				packing += verbs.Now() - begin
			}
			if q.state != verbs.StateRTS || s.tail-s.released >= s.depth {
				if err := q.maySend(); err != nil {
					return r.e.fail("post send", q.qpn, fmt.Errorf("lane %d, message %d: %w", l.index, l.posted, err))
				}
			}
			w := s.at(s.tail)
			*w = p.work
			w.id = l.posted
			if p.last && (l.untilSignal == 1 || l.posted+1 == l.Count) {
				w.flags |= verbs.Signaled
			}
			w.patient = l.posted-l.retired+1 < l.patience && l.posted+1 != l.Count
			if p.inline == nil {
				copy(s.list(s.tail, w.sges), p.list)
			} else {
				q.copyInline(p.inline)
			}
			q.number(w)
		}
		if l.untilSignal--; l.untilSignal == 0 {
			l.untilSignal = uint64(l.Signal)
		}
		l.sampleAt[l.sample] = start
		if l.sample++; l.sample == len(l.sampleAt) {
			l.sample = 0
		}
		r.postedBytes += m.bytes
		if r.job.Trace != nil {
			r.trace(verbs.TracePost, l, l.posted)
		}
		l.posted++
		if l.sendAt++; l.sendAt == len(l.ring) {
			l.sendAt = 0
		}
	}
	r.progress.Posted += n
	q.kick()
	if q.state == verbs.StateError || q.state == verbs.StateSQE {
		q.flush()
	}
	if r.record.CPU {
		r.record.PackTicks += packing
		r.record.PostTicks += verbs.Now() - start - packing
	}
	return nil
}

// poll drives the device one round and takes all completions.
func (r *runner) poll(now verbs.Ticks, receives int) (found bool, err error) {
	e := r.e
	var start verbs.Ticks
	if r.record.CPU {
		start = verbs.Now()
	}
	worked := e.round(now, receives)
	r.record.Polls++
	for _, c := range r.cqs {
		if c.head == c.tail {
			if c.overrun {
				return false, e.fail("run job", 0, fmt.Errorf("completion queue overrun: more than %d completions", c.depth))
			}
			continue
		}
		found = true
		now := verbs.Now()
		for c.head != c.tail {
			if err := r.account(c.take(), now); err != nil {
				return found, err
			}
		}
		if len(c.flushing) > 0 {
			c.resumeFlush()
		}
	}
	if !found {
		r.record.EmptyPolls++
	}
	if worked || found {
		r.quiet = 0
	} else if r.quiet++; r.quiet >= quietRounds && r.quiet%quietEvery == 0 {
		yieldProcessor()
	}
	if r.record.CPU && (worked || found) {
		r.record.PollTicks += verbs.Now() - start
	}
	return found, nil
}

// alternate does what a ping-pong can do now: see verbs.RunReference.
func (r *runner) alternate(now verbs.Ticks, ended bool) (moved, done bool, err error) {
	l := &r.lanes[0]
	finished := l.Count > 0 && r.steps == l.Count
	if finished || ended {
		last := l.posted - l.posted%uint64(l.Signal)
		if finished {
			last = l.posted
		}
		if l.retired >= last {
			return true, true, nil
		}
		moved, err = r.listen(l, now)
		return moved, false, err
	}
	sendsFirst := r.job.First || l.Await == verbs.AwaitCompletion
	if !r.sent && sendsFirst {
		if now < l.nextPost || l.posted-l.retired >= uint64(l.Window) {
			moved, err = r.listen(l, now)
			return moved, false, err
		}
		if r.steps == 0 || r.job.Pace > 0 {
			r.stepStart = verbs.Now()
		}
		if err := r.move(l, now); err != nil {
			return false, false, err
		}
		r.sent = true
	}
	if moved, err = r.listen(l, now); err != nil || !l.arrived(r.steps) {
		return moved, false, err
	}
	if !r.sent || sendsFirst {
		r.endStep(sendsFirst)
		if l.Await == verbs.AwaitLastByte {
			r.progress.LastDone = r.stepStart
		}
	}
	if !sendsFirst {
		r.sent = true // do not stamp again while the window is full
		if now < l.nextPost || l.posted-l.retired >= uint64(l.Window) {
			return moved, false, nil
		}
		if err := r.move(l, now); err != nil {
			return false, false, err
		}
	}
	r.sent = false
	r.steps++
	return true, false, nil
}

// endStep stamps the end of an await.
func (r *runner) endStep(sendsFirst bool) {
	now := verbs.Now()
	if sendsFirst || r.steps > 0 {
		r.lap = now - r.stepStart
	}
	r.stepStart = now
}

// listen drives a ping-pong's device one round: whatever came, the answer goes out before anything more is looked at.
func (r *runner) listen(l *lane, now verbs.Ticks) (moved bool, err error) {
	if l.owed > 0 || r.lap > 0 {
		if err := r.catchUp(); err != nil {
			return false, err
		}
	}
	return r.poll(now, 1)
}

// catchUp does what a ping-pong puts off until its answer is out: it posts the receives that are due and keeps the sample.
func (r *runner) catchUp() error {
	for i := range r.lanes {
		for l := &r.lanes[i]; l.owed > 0; l.owed-- {
			if err := r.repost(l); err != nil {
				return err
			}
		}
	}
	if r.lap > 0 && r.record.Samples && r.job.Shape == verbs.PingPong {
		r.record.Add(r.lap)
	}
	r.lap = 0
	return nil
}

// move posts a ping-pong's next message and sends it at once.
func (r *runner) move(l *lane, now verbs.Ticks) error {
	if l.Await == verbs.AwaitLastByte {
		publish(l.FlagOut, byte(l.posted+1))
	}
	if err := r.post(l, 1, now); err != nil {
		return err
	}
	l.q.start()
	return nil
}

// arrived tells whether what ends step k has happened.
func (l *lane) arrived(k uint64) bool {
	switch l.Await {
	case verbs.AwaitCompletion:
		return l.retired > k
	case verbs.AwaitReceive:
		return l.received > k
	case verbs.AwaitLastByte:
		return loadByte(l.FlagIn) == byte(k+1)
	default:
		return false
	}
}

// loadByte reads a byte that a device may write, with acquire order, by the aligned word around it.
func loadByte(p *byte) byte {
	offset := uintptr(unsafe.Pointer(p)) & 3
	word := atomic.LoadUint32((*uint32)(unsafe.Add(unsafe.Pointer(p), -int(offset))))
	return (*[4]byte)(unsafe.Pointer(&word))[offset]
}

// idle waits for a completion event: armed first, and looked once more, before blocking in the kernel.
func (r *runner) idle(until verbs.Ticks) {
	ch, ok := r.job.Channel.(*completionChannel)
	if !ok {
		return
	}
	if !r.armed {
		for _, c := range r.cqs {
			c.armed, c.any = true, true
		}
		r.armed = true
		return
	}
	for {
		if c := ch.next(); c != nil {
			c.pending = max(c.pending-1, 0)
			r.armed = false
			return
		}
		if verbs.Now() >= until || r.e.closed || r.job.Stop != nil && r.job.Stop.Load() != 0 {
			return
		}
		if !r.e.progress(verbs.Now()) {
			r.e.await(until)
		}
	}
}

func (r *runner) trace(k verbs.TraceKind, l *lane, n uint64) {
	r.job.Trace(verbs.TraceEvent{Kind: k, Lane: l.index, N: n})
}
