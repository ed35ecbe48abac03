package verbs

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"
)

// pollBatch is how many completions a runner takes from one queue at a time.
const pollBatch = 16

// RunReference runs a whole job over PostSend, PostReceive and Poll, until it is done or the clock passes until (0: to
// the end). It is the meaning of a job: the devices' own runners are compared with it, and it is what they may use until
// they have one.
func RunReference(j *Job, until Ticks) (Progress, error) {
	r, err := NewReferenceRunner(j)
	if err != nil {
		return Progress{}, err
	}
	if until == 0 {
		until = 1<<63 - 1
	}
	p, err := r.Run(until)
	return p, errors.Join(err, r.Close())
}

// NewReferenceRunner prepares a job for [RunReference] step by step.
func NewReferenceRunner(j *Job) (Runner, error) {
	if err := j.Validate(); err != nil {
		return nil, err
	}
	r := &referenceRunner{job: j, lanes: make([]referenceLane, len(j.Lanes)), byQPN: make(map[uint32]int)}
	requests, window := 0, 0
	for i := range j.Lanes {
		l := &j.Lanes[i]
		r.lanes[i] = referenceLane{Lane: l, index: i, receivesPosted: l.InitialReceives()}
		r.byQPN[l.QP.QPN()] = i
		window += l.Window
		for k := range l.Ring {
			n := 0
			for s := range l.Ring[k].Steps {
				if w := l.Ring[k].Steps[s].Pack; w.Go == nil && w.C != 0 {
					return nil, fmt.Errorf("lane %d, message %d: the pack kernel is written in C: this runner runs Go", i, k)
				}
				n += len(l.Ring[k].Steps[s].Requests)
			}
			if w := l.Ring[k].Done; w.Go == nil && w.C != 0 {
				return nil, fmt.Errorf("lane %d, message %d: the kernel is written in C: this runner runs Go", i, k)
			}
			requests = max(requests, n*max(l.Batch, 1))
		}
		for k := range l.Unpack {
			if w := l.Unpack[k]; w.Go == nil && w.C != 0 {
				return nil, fmt.Errorf("lane %d, unpack %d: the kernel is written in C: this runner runs Go", i, k)
			}
		}
	}
	r.list = make([]SendRequest, 0, requests)
	r.record = j.Record
	if r.record == nil {
		r.record = NewRecorder(0)
	}
	if r.record.Peak && j.Shape == Stream {
		r.peak = NewPeakSearch(r.record, window)
	}
	return r, nil
}

// referenceRunner is a job in progress.
type referenceRunner struct {
	job    *Job
	lanes  []referenceLane
	byQPN  map[uint32]int
	record *Recorder

	list  []SendRequest
	found [pollBatch]Completion
	armed bool

	progress    Progress
	postedBytes uint64
	peak        *PeakSearch // nil: not asked for
	stepStart   Ticks       // ping-pong: when the previous step ended
	steps       uint64      // ping-pong: steps done
	sent        bool        // ping-pong: this step's message is out
}

// referenceLane is a lane in progress.
type referenceLane struct {
	*Lane
	index          int
	posted         uint64
	retired        uint64
	received       uint64
	receivesPosted uint64
	nextPost       Ticks // pacing
	sampleAt       []Ticks
}

func (r *referenceRunner) Close() error { return nil }

// Run implements [Runner].
func (r *referenceRunner) Run(until Ticks) (Progress, error) {
	for {
		now := Now()
		if now >= until {
			return r.progress, nil
		}
		ended := (r.job.Stop != nil && r.job.Stop.Load() != 0) || (r.job.Deadline != 0 && now >= r.job.Deadline)
		if ended && r.job.AbandonAtDeadline {
			r.progress.Done = true
			return r.progress, nil
		}
		var moved, done bool
		var err error
		switch r.job.Shape {
		case PingPong:
			moved, done, err = r.alternate(now, ended)
		case Stream:
			moved, done, err = r.stream(now, ended)
		case Serve:
			moved, err = r.poll()
			done = ended
		}
		if err != nil {
			return r.progress, err
		}
		if done {
			r.progress.Done = true
			return r.progress, nil
		}
		if !moved {
			if err := r.idle(); err != nil {
				return r.progress, err
			}
		}
	}
}

// stream posts one batch on every lane that has room, then polls every queue once.
func (r *referenceRunner) stream(now Ticks, ended bool) (moved, done bool, err error) {
	for i := range r.lanes {
		l := &r.lanes[i]
		n := l.due(ended)
		if n == 0 || l.posted-l.retired+n > uint64(l.Window) || now < l.nextPost {
			continue
		}
		if err := r.post(l, n); err != nil {
			return false, false, err
		}
		moved = true
	}
	found, err := r.poll()
	if err != nil {
		return false, false, err
	}
	done = true
	for i := range r.lanes {
		done = done && r.lanes[i].finished(ended)
	}
	return moved || found, done, nil
}

// due is the length of the lane's next batch: 0 when it has sent everything.
func (l *referenceLane) due(ended bool) uint64 {
	if len(l.Ring) == 0 {
		return 0
	}
	n := uint64(l.Batch)
	if l.Count > 0 {
		n = min(n, l.Count-l.posted)
	}
	if ended { // as far as the next signaled message
		if l.posted%uint64(l.Signal) == 0 {
			return 0
		}
		n = min(n, uint64(l.Signal)-l.posted%uint64(l.Signal))
	}
	return n
}

func (l *referenceLane) finished(ended bool) bool {
	sent := len(l.Ring) == 0 || (l.due(ended) == 0 && l.retired == l.posted)
	arrived := len(l.Receives) == 0 || ended || (l.Expect > 0 && l.received >= l.Expect)
	return sent && arrived
}

// post sends the lane's next n messages as one list; the steps of a message of several are lists of their own.
func (r *referenceRunner) post(l *referenceLane, n uint64) error {
	start := Now()
	if r.progress.FirstPost == 0 {
		r.progress.FirstPost = start
	}
	l.nextPost = start + r.job.Pace*Ticks(n)
	if r.peak != nil {
		r.peak.Post(r.postedBytes, start)
	}
	var packing Ticks
	r.list = r.list[:0]
	for range n {
		m := &l.Ring[l.posted%uint64(len(l.Ring))]
		for s := range m.Steps {
			if w := m.Steps[s].Pack; w.Go != nil {
				begin := Now()
				w.Go(w.Arg)
				packing += Now() - begin
			}
			for _, q := range m.Steps[s].Requests {
				q.ID = l.posted
				q.Flags &^= Signaled
				r.list = append(r.list, q)
			}
			if s < len(m.Steps)-1 {
				if err := r.flush(l); err != nil {
					return err
				}
			}
		}
		if l.signals(l.posted) {
			r.list[len(r.list)-1].Flags |= Signaled
		}
		l.stampSample(start)
		r.postedBytes += m.Bytes
		r.trace(TracePost, l, l.posted)
		l.posted++
		r.progress.Posted++
	}
	if err := r.flush(l); err != nil {
		return err
	}
	if r.record.CPU {
		r.record.PackTicks += packing
		r.record.PostTicks += Now() - start - packing
	}
	return nil
}

// stampSample keeps when the message about to be posted was, for the time from post to completion.
func (l *referenceLane) stampSample(at Ticks) {
	if l.sampleAt == nil {
		l.sampleAt = make([]Ticks, l.Window)
	}
	l.sampleAt[l.posted%uint64(l.Window)] = at
}

// signals tells whether message k asks for a completion.
func (l *referenceLane) signals(k uint64) bool {
	return (k+1)%uint64(l.Signal) == 0 || (l.Count > 0 && k+1 == l.Count)
}

func (r *referenceRunner) flush(l *referenceLane) error {
	if len(r.list) == 0 {
		return nil
	}
	if err := l.QP.PostSend(r.list); err != nil {
		return fmt.Errorf("lane %d, message %d: %w", l.index, l.posted, err)
	}
	r.list = r.list[:0]
	return nil
}

// poll takes up to 16 completions from each queue and accounts for them.
func (r *referenceRunner) poll() (found bool, err error) {
	for _, cq := range r.job.CQs {
		start := Now()
		n, err := cq.Poll(r.found[:])
		if err != nil {
			return found, err
		}
		r.record.Polls++
		if n == 0 {
			r.record.EmptyPolls++
			continue
		}
		found = true
		now := Now()
		if r.record.CPU {
			r.record.PollTicks += now - start
		}
		for i := range r.found[:n] {
			if err := r.account(&r.found[i], now); err != nil {
				return found, err
			}
		}
	}
	return found, nil
}

func (r *referenceRunner) account(c *Completion, now Ticks) error {
	i, known := r.byQPN[c.QPN]
	if c.Status != Success {
		device := ""
		if known {
			device = r.lanes[i].QP.Device().Info().Name
		}
		return &CompletionError{Device: device, Completion: *c, Sent: r.progress.Posted, Done: r.progress.Completed}
	}
	if !known {
		return fmt.Errorf("a completion of qp %#x, which is on no lane", c.QPN)
	}
	r.progress.LastDone = now
	if c.Opcode.IsReceive() {
		return r.receive(&r.lanes[i], c)
	}
	r.retire(&r.lanes[i], now)
	return nil
}

// retire accounts for the completion of the lane's next signaled message and all before it.
func (r *referenceRunner) retire(l *referenceLane, now Ticks) {
	to := (l.retired/uint64(l.Signal) + 1) * uint64(l.Signal)
	if l.Count > 0 {
		to = min(to, l.Count)
	}
	n := to - l.retired
	for k := l.retired; k < to; k++ {
		m := &l.Ring[k%uint64(len(l.Ring))]
		r.progress.BytesOut += m.Bytes
		if w := m.Done; w.Go != nil {
			begin := Now()
			w.Go(w.Arg)
			if r.record.CPU {
				r.record.UnpackTicks += Now() - begin
			}
		}
	}
	l.retired = to
	r.progress.Completed += n
	r.trace(TraceComplete, l, to-1)
	if r.record.Samples && r.job.Shape == Stream {
		r.record.Add(now - l.sampleAt[(to-1)%uint64(l.Window)])
	}
	if r.peak != nil {
		r.peak.Complete(r.progress.BytesOut, now)
	}
}

// receive accounts for one arrived message, unpacks it and posts the next receive where one is due.
func (r *referenceRunner) receive(l *referenceLane, c *Completion) error {
	k := l.received
	l.received++
	r.progress.Received++
	r.progress.BytesIn += uint64(c.Bytes)
	if l.QP.Transport() == UD {
		r.progress.BytesIn -= min(uint64(c.Bytes), grhBytes)
	}
	r.trace(TraceReceive, l, k)
	if len(l.Unpack) > 0 {
		if w := l.Unpack[k%uint64(len(l.Unpack))]; w.Go != nil {
			begin := Now()
			w.Go(w.Arg)
			if r.record.CPU {
				r.record.UnpackTicks += Now() - begin
			}
		}
	}
	if len(l.Receives) == 0 || (l.Expect > 0 && l.receivesPosted >= l.Expect) {
		return nil
	}
	if err := l.PostReceive(l.receivesPosted); err != nil {
		return fmt.Errorf("lane %d, receive %d: %w", l.index, l.receivesPosted, err)
	}
	r.trace(TraceRepost, l, l.receivesPosted)
	l.receivesPosted++
	return nil
}

// grhBytes is what a UD receive counts besides the payload.
const grhBytes = 40

// alternate does what a ping-pong can do now. The end that moves first posts and awaits in each step, the other awaits
// and posts. A sample is the time from the end of one step's await to the next one's, so that nothing falls between two
// samples; the end that does not move first has none for its first step.
func (r *referenceRunner) alternate(now Ticks, ended bool) (moved, done bool, err error) {
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
		moved, err = r.poll()
		return moved, false, err
	}
	sendsFirst := r.job.First || l.Await == AwaitCompletion
	if !r.sent && sendsFirst {
		if now < l.nextPost || l.posted-l.retired >= uint64(l.Window) {
			moved, err = r.poll()
			return moved, false, err
		}
		if r.steps == 0 || r.job.Pace > 0 {
			r.stepStart = Now()
		}
		if err := r.move(l); err != nil {
			return false, false, err
		}
		r.sent = true
	}
	moved, err = r.poll()
	if err != nil || !l.arrived(r.steps) {
		return moved, false, err
	}
	// The step's message is here.
	if !r.sent || sendsFirst {
		r.endStep(sendsFirst)
		if l.Await == AwaitLastByte {
			r.progress.LastDone = r.stepStart
		}
	}
	if !sendsFirst {
		r.sent = true // do not stamp again while the window is full
		if now < l.nextPost || l.posted-l.retired >= uint64(l.Window) {
			return moved, false, nil
		}
		if err := r.move(l); err != nil {
			return false, false, err
		}
	}
	r.sent = false
	r.steps++
	return true, false, nil
}

// endStep stamps the end of an await.
func (r *referenceRunner) endStep(sendsFirst bool) {
	now := Now()
	if r.record.Samples && (sendsFirst || r.steps > 0) {
		r.record.Add(now - r.stepStart)
	}
	r.stepStart = now
}

// move posts a ping-pong's next message.
func (r *referenceRunner) move(l *referenceLane) error {
	if l.Await == AwaitLastByte {
		storeByte(l.FlagOut, byte(l.posted+1))
	}
	return r.post(l, 1)
}

// arrived tells whether what ends step k has happened.
func (l *referenceLane) arrived(k uint64) bool {
	switch l.Await {
	case AwaitCompletion:
		return l.retired > k
	case AwaitReceive:
		return l.received > k
	case AwaitLastByte:
		return loadByte(l.FlagIn) == byte(k+1)
	default:
		return false
	}
}

// idle is called when nothing could be posted and nothing had completed.
func (r *referenceRunner) idle() error {
	if r.job.Channel == nil {
		runtime.Gosched()
		return nil
	}
	if !r.armed { // arm, and poll once more before waiting
		for _, cq := range r.job.CQs {
			if err := cq.Arm(NotifyAny); err != nil {
				return err
			}
		}
		r.armed = true
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	cq, err := r.job.Channel.Wait(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil // nothing yet: look at the clock and the stop word
		}
		return err
	}
	cq.Acknowledge(1)
	r.armed = false
	return nil
}

func (r *referenceRunner) trace(k TraceKind, l *referenceLane, n uint64) {
	if r.job.Trace != nil {
		r.job.Trace(TraceEvent{Kind: k, Lane: l.index, N: n})
	}
}

// loadByte reads a byte that a device may write, with acquire order.
func loadByte(p *byte) byte {
	word, shift := byteWord(p)
	return byte(atomic.LoadUint32(word) >> shift)
}

// storeByte writes a byte with release order; its neighbours belong to the same message and to nobody else meanwhile.
func storeByte(p *byte, b byte) {
	*p = b
	word, _ := byteWord(p)
	atomic.AddUint32(word, 0)
}

// byteWord is the aligned word around a byte (Go has no atomic bytes) and the byte's place in it.
func byteWord(p *byte) (word *uint32, shift uint) {
	offset := uintptr(unsafe.Pointer(p)) & 3
	word = (*uint32)(unsafe.Add(unsafe.Pointer(p), -int(offset)))
	if littleEndian() {
		return word, uint(offset) * 8
	}
	return word, 24 - uint(offset)*8
}

func littleEndian() bool {
	one := uint16(1)
	return *(*byte)(unsafe.Pointer(&one)) == 1
}
