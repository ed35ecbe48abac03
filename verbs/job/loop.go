package job

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/gobw/gobw/verbs"
)

const (
	// pollBatch is how many completions the loop takes at a time, and pollRounds how often it does before it posts again.
	pollBatch  = 16
	pollRounds = 64
)

// IDs of send requests: the job's generation, and in the low bits the number of the message. A job that was abandoned
// leaves completions behind, and the next one on the same queues knows by the generation that they are not its own.
const (
	numberBits = 48
	numberMask = 1<<numberBits - 1
)

// generations counts the jobs of this process.
var generations atomic.Uint64 //nolint:gochecknoglobals // two jobs of one process must not have the same

// Generation is a number for a job to know its completions by: 1 to 65535, then anew.
func Generation() uint64 { return generations.Add(1)%(1<<(64-numberBits)-1) + 1 }

// loop runs a job over a driver. It is the meaning of a job: whoever runs jobs in another way is compared with it.
type loop struct {
	job    *Job
	driver Driver
	device string
	lanes  []lane
	index  map[uint32]*lane // by the queue pair's number
	last   *lane            // of the latest completion
	record *Recorder
	tag    uint64 // the generation, in its place in an ID

	progress    Progress
	over        bool // the job is done: what still comes is taken, and not measured
	cpu         bool // the recorder asks for CPU, and the job is not done
	times       bool // cpu, and this loop times posts and polls: the driver is no Meter
	meter       Meter
	postedBytes uint64
	peak        *PeakSearch // nil: not asked for
	found       [pollBatch]verbs.Completion
	owing       []*lane // those with receives to post

	// Ping-pong.
	steps     uint64
	stepStart Ticks // when the previous step ended
	lap       Ticks // the previous step's sample
	lapped    bool  // lap is not recorded yet
	sent      bool  // this step's message is out
	// By the device's clock: the latest completion of the kind that is awaited, and the one that ended the previous step.
	awaited, stepAwaited uint64
}

// NewRunner prepares a job to be run by the loop over a driver of its device. It
// closes the driver when it refuses the job.
func NewRunner(j *Job, d Driver) (Runner, error) {
	r, err := newLoop(j, d)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return r, nil
}

func newLoop(j *Job, d Driver) (*loop, error) {
	if err := j.Validate(); err != nil {
		return nil, err
	}
	r := &loop{job: j, driver: d, lanes: make([]lane, len(j.Lanes)), record: j.Record, tag: Generation() << numberBits}
	if r.record == nil {
		r.record = NewRecorder(0)
	}
	r.cpu = r.record.CPU
	r.meter, _ = d.(Meter)
	r.times = r.cpu && r.meter == nil
	window := 0
	for i := range j.Lanes {
		if err := d.Compile(i, &j.Lanes[i], r.lanes[i].compile(j, i)); err != nil {
			return nil, fmt.Errorf("lane %d: %w", i, err)
		}
		window += j.Lanes[i].Window
	}
	if len(j.Lanes) > 0 {
		r.device = j.Lanes[0].QP.Device().Info().Name
	}
	r.index = make(map[uint32]*lane, len(r.lanes))
	for i := range r.lanes {
		r.last = &r.lanes[i]
		r.index[r.last.qpn] = r.last
	}
	r.owing = make([]*lane, 0, len(r.lanes))
	if r.record.Peak && j.Shape == Stream {
		r.peak = NewPeakSearch(r.record, window)
	}
	return r, nil
}

// Close implements [Runner].
func (r *loop) Close() error { return r.driver.Close() }

// Received implements [Runner].
func (r *loop) Received(lane int) uint64 { return r.lanes[lane].received }

// Run implements [Runner].
func (r *loop) Run(until Ticks) (Progress, error) {
	if err := r.driver.Enter(); err != nil {
		return r.progress, err
	}
	over, last := r.over, r.progress.LastDone
	done, err := r.run(until)
	if over {
		r.progress.LastDone = last
	} else if done {
		r.finish()
	}
	r.readMeter(over)
	if late := r.catchUp(); err == nil {
		err = late
	}
	r.progress.Done = r.over && err == nil
	r.driver.Leave()
	return r.progress, err
}

// readMeter records what the driver has accounted for, unless the job was over before.
func (r *loop) readMeter(over bool) {
	if r.meter == nil || !r.record.CPU {
		return
	}
	if posting, polling := r.meter.Spent(); !over {
		r.record.PostTicks += posting
		r.record.PollTicks += polling
	}
}

// finish ends what is measured. Receives are posted again as they come from now on.
func (r *loop) finish() {
	r.over, r.cpu, r.times, r.peak = true, false, false, nil
	for i := range r.lanes {
		l := &r.lanes[i]
		l.list, l.postedAt = 0, nil
		if l.owed > 0 && !l.queued {
			l.queued = true
			r.owing = append(r.owing, l)
		}
	}
}

// run works until the job is done, and then takes what still comes.
func (r *loop) run(until Ticks) (done bool, err error) {
	j, began := r.job, Now()
	for {
		now := Now()
		if now >= until || now < began { // the counter went back: the slice would not end for long
			return false, nil
		}
		ended := j.Stop != nil && j.Stop.Load() != 0
		var moved bool
		switch {
		case r.over:
			moved, err = r.poll(now)
		case ended && j.Abandon:
			return true, nil
		case j.Shape == Stream:
			moved, done, err = r.stream(now, ended)
		case j.Shape == PingPong:
			moved, done, err = r.alternate(now, ended)
		default:
			moved, err = r.poll(now)
			done = ended
		}
		if done || err != nil {
			return done, err
		}
		if !moved {
			limit := until
			if j.Pace != 0 {
				limit = 0 // the next message may be due before any event
			}
			if err := r.driver.Idle(limit); err != nil {
				return false, err
			}
		}
	}
}

// stream posts on every lane what its window admits, then drives the device and takes what completed.
func (r *loop) stream(now Ticks, ended bool) (moved, done bool, err error) {
	for i := range r.lanes {
		l := &r.lanes[i]
		for {
			n := l.due(ended)
			if n == 0 || l.posted-l.retired+n > uint64(l.Window) || now < l.nextPost {
				break
			}
			if !ended && !l.packed && r.job.Pace == 0 && !r.driver.Lists() {
				n = l.joined(n)
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
	if found || ended || !moved {
		for i := range r.lanes {
			if !r.lanes[i].finished(ended) {
				return moved || found, false, nil
			}
		}
		return true, true, nil
	}
	return moved, false, nil
}

// post posts the lane's next n messages as one list; the steps of a message of several are lists of their own.
func (r *loop) post(l *lane, n uint64, now Ticks) error {
	start := now
	if r.times || r.progress.FirstPost == 0 || r.job.Pace != 0 {
		start = Now()
		if r.progress.FirstPost == 0 {
			r.progress.FirstPost = start
		}
		l.pace(start, n, r.job)
	}
	if r.peak != nil {
		r.peak.Post(r.postedBytes, start)
	}
	var packing Ticks
	for left := n; left > 0; {
		// Up to the next signaled message. One that must be packed goes alone.
		part := min(left, l.untilSignal)
		if l.packed {
			part = 1
		}
		b := Batch{
			Lane: l.index, First: l.groupAt, N: int(part), ID: r.tag | l.posted,
			Signaled: part == l.untilSignal || l.posted+part == l.Count,
			Lazy:     l.posted-l.retired+part < l.lazy && l.posted+part != l.Count,
		}
		var err error
		if l.packed {
			err = r.appendSteps(l, b, &packing)
		} else {
			l.groupAt = wrap(l.groupAt, b.N, len(l.packs))
			err = r.driver.Append(b)
		}
		if err != nil {
			return fmt.Errorf("lane %d, message %d: %w", l.index, l.posted, err)
		}
		if l.untilSignal -= part; l.untilSignal == 0 {
			l.untilSignal = uint64(l.Signal)
		}
		r.stamp(l, part, start)
		left -= part
	}
	if err := r.driver.Flush(l.index, r.job.Shape == PingPong); err != nil {
		return fmt.Errorf("lane %d, message %d: %w", l.index, l.posted-n, err)
	}
	r.progress.Posted += n
	if r.cpu {
		r.record.PackTicks += packing
	}
	if r.times {
		r.record.PostTicks += Now() - start - packing
	}
	return nil
}

// appendSteps packs and posts the steps of one message; the last is left on the list.
func (r *loop) appendSteps(l *lane, b Batch, packing *Ticks) error {
	last := l.ring[l.sendAt].groups - 1
	signaled := b.Signaled
	b.N = 1
	for s := range last + 1 {
		if w := l.packs[l.groupAt]; w.Go != nil {
			begin := Now()
			w.Go(w.Arg)
			*packing += Now() - begin
		}
		b.First, b.Signaled = l.groupAt, signaled && s == last
		if err := r.driver.Append(b); err != nil {
			return err
		}
		l.groupAt = wrap(l.groupAt, 1, len(l.packs))
		if s < last {
			if err := r.driver.Flush(l.index, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// stamp accounts for messages that were posted.
func (r *loop) stamp(l *lane, n uint64, at Ticks) {
	for range n {
		if l.postedAt != nil {
			l.postedAt[l.newestAt] = at
			l.newestAt = wrap(l.newestAt, 1, len(l.postedAt))
		}
		r.postedBytes += l.ring[l.sendAt].bytes
		l.sendAt = wrap(l.sendAt, 1, len(l.ring))
		r.note(TracePost, l, &l.posted, 1)
	}
}

// poll drives the device one round and takes the completions.
func (r *loop) poll(now Ticks) (found bool, err error) {
	var start Ticks
	if r.times {
		start = Now()
	}
	worked, err := r.driver.Progress(now)
	if err != nil {
		return false, err
	}
	for range pollRounds {
		n, err := r.driver.Poll(r.found[:])
		if n > 0 {
			found = true
			at := Now()
			for i := range r.found[:n] {
				if err := r.account(&r.found[i], at); err != nil {
					return found, err
				}
			}
			if r.job.Shape == Stream {
				if err := r.catchUp(); err != nil {
					return found, err
				}
			}
		}
		if err != nil {
			return found, err
		}
		if n < len(r.found) {
			break
		}
	}
	if r.times && (worked || found) {
		r.record.PollTicks += Now() - start
	}
	return found, nil
}

// account takes a completion into the job's books.
func (r *loop) account(c *verbs.Completion, now Ticks) error {
	l := r.last
	if l == nil || l.qpn != c.QPN {
		if l = r.index[c.QPN]; l != nil {
			r.last = l
		}
	}
	own := c.ID&^numberMask == r.tag
	if c.Status != verbs.Success {
		failed := *c
		if own {
			failed.ID &= numberMask
		}
		return &verbs.CompletionError{
			Device: r.device, Completion: failed, Sent: r.progress.Posted, Done: r.progress.Completed,
		}
	}
	receive := c.Opcode.IsReceive()
	switch {
	case !receive && !own && c.ID > numberMask:
		return nil // an abandoned job's
	case l == nil:
		return r.fail(c.QPN, errors.New("a completion of a queue pair that is on no lane"))
	case !receive && !own:
		return r.fail(c.QPN, fmt.Errorf("a completion of request %d, which no job posted", c.ID))
	case receive && l.SRQ == nil && len(l.Receives) > 0 && l.received >= l.receivesPosted:
		return r.fail(c.QPN, fmt.Errorf("more receives completed than were posted, %d", l.receivesPosted))
	case receive:
		r.progress.LastDone = now
		if l.Await == AwaitReceive {
			r.awaited = c.Timestamp
		}
		r.receive(l, c.Bytes)
		return nil
	}
	to, next := c.ID&numberMask+1, l.nextRetired()
	if l.ud {
		to = next // EFA's datagrams may overtake each other
	}
	if to != next || to > l.posted {
		return r.fail(c.QPN, fmt.Errorf("a completion of another message than the next: those before %d were posted, "+
			"those before %d had completed", l.posted, l.retired))
	}
	r.progress.LastDone = now
	if l.Await == AwaitCompletion {
		r.awaited = c.Timestamp
	}
	r.retire(l, to, now)
	return nil
}

func (r *loop) fail(qpn uint32, err error) error {
	return &verbs.Error{Verb: "measure", Device: r.device, QP: qpn, Err: err}
}

// retire accounts for a completion: all of the lane's messages before to are complete.
func (r *loop) retire(l *lane, to uint64, now Ticks) {
	n := to - l.retired
	for range n {
		m := &l.ring[l.retireAt]
		l.retireAt = wrap(l.retireAt, 1, len(l.ring))
		r.progress.BytesOut += m.bytes
		if m.done.Go != nil {
			r.unpack(m.done)
			now = Now() // the message is where it belongs only now
		}
	}
	l.retired = to
	r.progress.Completed += n
	if r.job.Trace != nil {
		r.trace(TraceComplete, l, to-1, 1)
	}
	if l.postedAt != nil {
		last := wrap(l.oldestAt, int(n)-1, len(l.postedAt))
		l.oldestAt = wrap(last, 1, len(l.postedAt))
		r.record.Add(now - l.postedAt[last])
	}
	if r.peak != nil {
		r.peak.Complete(r.progress.BytesOut, now)
	}
}

// unpack does work that a message's arrival or completion asks for.
func (r *loop) unpack(w Work) {
	if w.Go == nil {
		return
	}
	begin := Now()
	w.Go(w.Arg)
	if r.cpu {
		r.record.UnpackTicks += Now() - begin
	}
}

// receive accounts for one arrived message, and unpacks it. The receive that replaces it is posted by catchUp.
func (r *loop) receive(l *lane, bytes uint32) {
	if l.ud {
		bytes -= min(bytes, verbs.GRHBytes)
	}
	r.progress.Received++
	r.progress.BytesIn += uint64(bytes)
	r.note(TraceReceive, l, &l.received, 1)
	if len(l.Unpack) > 0 {
		r.unpack(l.Unpack[l.unpackAt])
		l.unpackAt = wrap(l.unpackAt, 1, len(l.Unpack))
	}
	if len(l.Receives) == 0 || l.Expect > 0 && l.receivesPosted+uint64(l.owed) >= l.Expect {
		return
	}
	if l.owed++; !l.queued && l.dueReceives() > 0 {
		l.queued = true
		r.owing = append(r.owing, l)
	}
}

// catchUp posts the receives that are due, and records a ping-pong's sample: both after the answer has gone out.
func (r *loop) catchUp() error {
	for _, l := range r.owing {
		l.queued = false
		for n := l.dueReceives(); n > 0; n = l.dueReceives() {
			l.owed -= n
			if err := r.driver.PostReceives(l.index, l.receiveAt, n); err != nil {
				return fmt.Errorf("lane %d, receive %d: %w", l.index, l.receivesPosted, err)
			}
			l.receiveAt = wrap(l.receiveAt, n, len(l.Receives))
			r.note(TraceRepost, l, &l.receivesPosted, uint64(n))
		}
	}
	r.owing = r.owing[:0]
	if r.lapped {
		r.record.Add(r.lap)
		r.lapped = false
	}
	return nil
}

// note counts n of what a lane has done or met, and traces each. It is inlined.
func (r *loop) note(k TraceKind, l *lane, count *uint64, n uint64) {
	if r.job.Trace != nil {
		r.trace(k, l, *count, n)
	}
	*count += n
}

//go:noinline
func (r *loop) trace(k TraceKind, l *lane, from, n uint64) {
	for i := range n {
		r.job.Trace(TraceEvent{Kind: k, Lane: l.index, N: from + i})
	}
}
