package roce

import (
	"errors"
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
	stamps      []stamp // of message n over all lanes
	stampAt     int
	stepStart   verbs.Ticks // ping-pong: when the previous step ended
	steps       uint64
	sent        bool // ping-pong: this step's message is out
	armed       bool
	counted     bool // in engine.running
	closed      bool
}

// stamp is when a message was posted, and how many bytes had been posted before.
type stamp struct {
	at    verbs.Ticks
	bytes uint64
}

// lane is a verbs.Lane compiled.
type lane struct {
	*verbs.Lane
	q     *queuePair
	srq   *sharedReceiveQueue
	index int
	ring  []message

	sendAt, retireAt        int // places in the ring
	sample, sampled         int // places in sampleAt: next to be posted, next to be retired
	untilSignal             uint64
	posted, retired         uint64
	received, receivePosted uint64
	receiveAt, unpackAt     int
	nextPost                verbs.Ticks
	sampleAt                []verbs.Ticks
}

// message is a verbs.Message compiled.
type message struct {
	requests []prepared
	bytes    uint64
	done     verbs.Work
}

// prepared is a send request ready to be copied into the ring.
type prepared struct {
	work   sendWork
	list   []verbs.SGE
	inline []verbs.SGE
	pack   verbs.Work // before it
	last   bool       // of its message
}

// Prepare compiles a job.
func (d *device) Prepare(j *verbs.Job) (verbs.Runner, error) {
	const verb = "prepare job"
	e := d.e
	if err := j.Validate(); err != nil {
		return nil, e.fail(verb, 0, err)
	}
	e.lock()
	defer e.unlock()
	if e.closed {
		return nil, e.fail(verb, 0, verbs.ErrClosed)
	}
	r := &runner{e: e, job: j, record: j.Record, lanes: make([]lane, len(j.Lanes))}
	if r.record == nil {
		r.record = verbs.NewRecorder(0)
	}
	for _, c := range j.CQs {
		own, err := e.ownCQ(c)
		if err != nil {
			return nil, e.fail(verb, 0, fmt.Errorf("completion queue: %w", err))
		}
		r.cqs = append(r.cqs, own)
	}
	if ch, ok := j.Channel.(*completionChannel); j.Channel != nil && (!ok || ch.e != e) {
		return nil, e.fail(verb, 0, fmt.Errorf("completion channel: %w", errForeign))
	}
	window := 0
	for i := range j.Lanes {
		if err := r.lanes[i].compile(e, i, &j.Lanes[i]); err != nil {
			return nil, e.fail(verb, j.Lanes[i].QP.QPN(), fmt.Errorf("lane %d: %w", i, err))
		}
		window += j.Lanes[i].Window
	}
	r.stamps = make([]stamp, max(window, 1))
	return r, nil
}

var errKernel = errors.New("the kernel is written in C: this runner runs Go")

func (l *lane) compile(e *engine, index int, from *verbs.Lane) error {
	q, ok := from.QP.(*queuePair)
	if !ok || q.e != e {
		return errForeign
	}
	*l = lane{Lane: from, q: q, index: index, untilSignal: uint64(from.Signal), receivePosted: from.InitialReceives()}
	if len(from.Receives) > 0 {
		l.receiveAt = int(l.receivePosted % uint64(len(from.Receives)))
	}
	l.sampleAt = make([]verbs.Ticks, max(from.Window, 1))
	if from.SRQ != nil {
		if l.srq, ok = from.SRQ.(*sharedReceiveQueue); !ok || l.srq.e != e {
			return fmt.Errorf("shared receive queue: %w", errForeign)
		}
	}
	l.ring = make([]message, len(from.Ring))
	for k := range from.Ring {
		if err := l.ring[k].compile(q, &from.Ring[k]); err != nil {
			return fmt.Errorf("message %d: %w", k, err)
		}
	}
	for k, w := range from.Unpack {
		if w.Go == nil && w.C != 0 {
			return fmt.Errorf("unpack %d: %w", k, errKernel)
		}
	}
	q.lane = index
	return nil
}

func (m *message) compile(q *queuePair, from *verbs.Message) error {
	m.bytes, m.done = from.Bytes, from.Done
	if m.done.Go == nil && m.done.C != 0 {
		return errKernel
	}
	for s := range from.Steps {
		step := &from.Steps[s]
		if step.Pack.Go == nil && step.Pack.C != 0 {
			return errKernel
		}
		for i := range step.Requests {
			request := &step.Requests[i]
			var p prepared
			if err := q.compile(request, &p.work); err != nil {
				return err
			}
			p.work.flags &^= verbs.Signaled
			p.list = append(p.list, request.SGEs...)
			if request.Flags&verbs.Inline != 0 {
				p.inline, p.list = p.list, nil
			}
			if i == 0 {
				p.pack = step.Pack
			}
			m.requests = append(m.requests, p)
		}
	}
	if len(m.requests) > 0 {
		m.requests[len(m.requests)-1].last = true
	}
	return nil
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
			moved, err = r.poll(now)
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
	found, err := r.poll(now)
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
		r.stamps[r.stampAt] = stamp{start, r.postedBytes}
		if r.stampAt++; r.stampAt == len(r.stamps) {
			r.stampAt = 0
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
func (r *runner) poll(now verbs.Ticks) (found bool, err error) {
	e := r.e
	var start verbs.Ticks
	if r.record.CPU {
		start = verbs.Now()
	}
	worked := e.progress(now)
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
	if r.record.CPU && (worked || found) {
		r.record.PollTicks += verbs.Now() - start
	}
	return found, nil
}

func (r *runner) account(x *entry, now verbs.Ticks) error {
	var l *lane
	for i := x.QPN & (maxQP - 1); ; {
		q := r.e.qps[i]
		if q != nil && q.qpn == x.QPN && q.lane < len(r.lanes) && r.lanes[q.lane].q == q {
			l = &r.lanes[q.lane]
		}
		break
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
	if r.record.Peak {
		r.peak(now)
	}
}

// peak looks at the last window of messages, from the post of its first to the completion of its last.
func (r *runner) peak(now verbs.Ticks) {
	size := uint64(len(r.stamps))
	span := min(r.progress.Completed, size)
	first := r.progress.Completed - span
	if r.progress.Posted-first > size { // its stamp has been overwritten
		first = r.progress.Posted - size
		span = r.progress.Completed - first
	}
	s := r.stamps[first%size]
	bytes, ticks := r.progress.BytesOut-s.bytes, now-s.at
	if ticks <= 0 || span == 0 {
		return
	}
	b := r.record
	if b.PeakTicks == 0 || float64(bytes)*float64(b.PeakTicks) > float64(b.PeakBytes)*float64(ticks) {
		b.PeakBytes, b.PeakMsgs, b.PeakTicks = bytes, span, ticks
	}
}

// receive accounts for one arrived message, unpacks it and posts the next receive where one is due.
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
	if len(l.Receives) == 0 || l.Expect > 0 && l.receivePosted >= l.Expect {
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
		moved, err = r.poll(now)
		return moved, false, err
	}
	sendsFirst := r.job.First || l.Await == verbs.AwaitCompletion
	if !r.sent && sendsFirst {
		if now < l.nextPost || l.posted-l.retired >= uint64(l.Window) {
			moved, err = r.poll(now)
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
	moved, err = r.poll(now)
	if err != nil || !l.arrived(r.steps) {
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
	if r.record.Samples && (sendsFirst || r.steps > 0) {
		r.record.Add(now - r.stepStart)
	}
	r.stepStart = now
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
