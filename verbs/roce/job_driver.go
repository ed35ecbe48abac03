package roce

import (
	"fmt"
	"slices"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/internal/handle"
	"github.com/gobw/gobw/verbs/job"
	"github.com/gobw/gobw/verbs/roce/rc"
	"github.com/gobw/gobw/verbs/tick"
)

// jobDriver is the device as a job's loop drives it: the queues' rings in place of verbs, under
// one hold of the lock for a whole slice.
type jobDriver struct {
	object
	lanes    []laneQueue
	cqs      []*completionQueue
	channel  *completionChannel // nil: spin
	stop     func() bool
	receives int // how often a round of progress takes from a socket

	armed bool
	spin  spin
}

// laneQueue is what a lane posts on.
type laneQueue struct {
	q        *queuePair
	groups   [][]prepared
	receives []verbs.ReceiveRequest
	receive  func(*verbs.ReceiveRequest) error // posts one
}

// prepared is a send request ready to be copied into the ring.
type prepared struct {
	work rc.Work
	slot sendSlot
	list []verbs.SGE
}

// Prepare implements [job.Preparer].
func (d *device) Prepare(j *job.Job) (job.Runner, error) {
	const verb = "prepare job"
	if err := j.Validate(); err != nil {
		return nil, d.fail(verb, err)
	}
	driver, err := newJobDriver(d.e, j)
	if err != nil {
		return nil, d.fail(verb, err)
	}
	r, err := job.NewRunner(j, driver)
	return made[job.Runner](d, r, verb, err)
}

func newJobDriver(e *engine, j *job.Job) (*jobDriver, error) {
	d := &jobDriver{object: object{e: e}, lanes: make([]laneQueue, len(j.Lanes)), receives: receiveBudget}
	needs := handle.Needs[*engine]{Of: e, List: []*handle.Handle{&e.device.Handle}}
	d.stop = func() bool { return j.Stop != nil && j.Stop.Load() != 0 }
	if j.Shape == job.PingPong {
		d.receives = 1 // whatever came, the answer goes out before anything more is looked at
	}
	if j.Channel != nil {
		if d.channel = handle.Need[*completionChannel](&needs, kindChannel, j.Channel); needs.Err != nil {
			return nil, needs.Err
		}
	}
	for i, c := range j.CQs {
		own := handle.Need[*completionQueue](&needs, fmt.Sprintf("completion queue %d", i), c)
		if needs.Err != nil {
			return nil, needs.Err
		}
		if d.channel != nil && own.channel != d.channel {
			return nil, fmt.Errorf("completion queue %d announces nothing on the job's channel: create it with that channel", i)
		}
		if j.Record != nil && !j.Record.Clock.IsZero() && !own.stamps {
			return nil,
				fmt.Errorf("completion queue %d stamps nothing: create it with Timestamps, or take samples by the host's clock", i)
		}
		d.cqs = append(d.cqs, own)
	}
	for i := range j.Lanes {
		if needLane(&needs, &j.Lanes[i]); needs.Err != nil {
			return nil, fmt.Errorf("lane %d: %w", i, needs.Err)
		}
	}
	return d, d.Open(kindJob, func() error { return nil }, needs.List...)
}

// needLane adds the handles that a job keeps open for a lane.
func needLane(needs *handle.Needs[*engine], l *job.Lane) {
	q := handle.Need[*queuePair](needs, kindQP, l.QP)
	if l.SRQ != nil {
		handle.Need[*sharedReceiveQueue](needs, kindSRQ, l.SRQ)
	}
	if needs.Err != nil {
		return
	}
	for k := range l.Ring {
		for s := range l.Ring[k].Steps {
			for i := range l.Ring[k].Steps[s].Requests {
				if ah, ok := l.Ring[k].Steps[s].Requests[i].AH.(*addressHandle); ok && q.transport == verbs.UD {
					needs.List = append(needs.List, &ah.Handle)
				}
			}
		}
	}
}

// Compile implements [job.Driver].
func (d *jobDriver) Compile(lane int, from *job.Lane, groups [][]verbs.SendRequest) error {
	e := d.e
	e.lock()
	defer e.unlock()
	q := from.QP.(*queuePair)
	l := laneQueue{q: q, groups: make([][]prepared, len(groups)), receives: from.Receives, receive: q.postReceive}
	if from.SRQ != nil {
		l.receive = from.SRQ.(*sharedReceiveQueue).queue.post
	}
	for g, requests := range groups {
		l.groups[g] = make([]prepared, len(requests))
		for i := range requests {
			p, from := &l.groups[g][i], &requests[i]
			if err := q.compile(from, &p.work, &p.slot); err != nil {
				return fmt.Errorf("list %d, request %d: %w", g, i, err)
			}
			p.work.Flags &^= verbs.Signaled
			p.list = slices.Clone(from.SGEs)
		}
	}
	d.lanes[lane] = l
	return nil
}

// Enter takes the device's lock for a slice.
func (d *jobDriver) Enter() error {
	e := d.e
	if err := d.Handle.Enter(); err != nil {
		return d.fail("measure", err)
	}
	e.lock()
	return nil
}

// Leave gives the lock back.
func (d *jobDriver) Leave() {
	d.e.unlock()
	d.Handle.Leave()
}

// Close implements [job.Driver].
func (d *jobDriver) Close() error {
	return d.close("close job", func() {})
}

// Append puts requests into the send queue.
func (d *jobDriver) Append(b job.Batch) error {
	l := &d.lanes[b.Lane]
	q := l.q
	r := &q.request
	id, at := b.ID, b.First
	for range b.N {
		g := l.groups[at]
		for i := range g {
			if q.state != verbs.StateRTS || r.Full() {
				if err := q.maySend(); err != nil {
					return q.fail("post send", err)
				}
			}
			p, w := &g[i], r.At(r.Tail)
			*w = p.work
			*q.sends.slot(r.Tail) = p.slot
			w.ID, w.Lazy = id, b.Lazy
			q.posted(p.list)
		}
		id++
		if at++; at == len(l.groups) {
			at = 0
		}
	}
	if b.Signaled {
		r.At(r.Tail - 1).Flags |= verbs.Signaled
	}
	return nil
}

// Flush sends what was appended, at once or when the device is driven.
func (d *jobDriver) Flush(lane int, atOnce bool) error {
	q := d.lanes[lane].q
	switch {
	case atOnce:
		q.sendPosted()
	case q.state == verbs.StateError || q.state == verbs.StateSQE:
		q.flush()
	default:
		q.kick()
	}
	return nil
}

// Lists implements [job.Driver]: what is appended lies in the send queue.
func (d *jobDriver) Lists() bool { return false }

// PostReceives implements [job.Driver].
func (d *jobDriver) PostReceives(lane, at, n int) error {
	l := &d.lanes[lane]
	for range n {
		if err := l.receive(&l.receives[at]); err != nil {
			return l.q.fail("post receive", err)
		}
		if at++; at == len(l.receives) {
			at = 0
		}
	}
	return nil
}

// Progress drives the device one round, and lets in whoever waits for its lock.
func (d *jobDriver) Progress(now tick.Time) (bool, error) {
	e := d.e
	if e.waiting.Load() != 0 {
		e.letIn()
	}
	if e.progress(now, d.receives) {
		d.spin.quiet = 0
		return true, nil
	}
	return false, nil
}

// Poll implements [job.Driver].
func (d *jobDriver) Poll(out []verbs.Completion) (n int, err error) {
	for _, c := range d.cqs {
		if c.head == c.tail && c.overrun {
			return n, d.fail("measure", c.overran())
		}
		n += c.drain(out[n:])
	}
	return n, nil
}

// Idle polls on or, with a channel, waits for a completion event: armed first, and looked
// once more, before blocking in the kernel.
func (d *jobDriver) Idle(limit tick.Time) error {
	if d.channel == nil || limit == 0 {
		d.spin.idle(d.e, limit)
		return nil
	}
	if !d.armed {
		for _, c := range d.cqs {
			c.armed, c.any = true, true
		}
		d.armed = true
		return nil
	}
	for {
		if d.channel.next() != nil {
			d.armed = false
			return nil
		}
		if tick.Now() >= limit || d.stop() {
			return nil
		}
		if !d.e.progress(tick.Now(), receiveBudget) {
			d.e.await(limit)
		}
	}
}
