package roce

import (
	"errors"
	"fmt"

	"github.com/gobw/gobw/verbs"
)

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
	patience                uint64 // messages in flight before one asks for an ACK
	posted, retired         uint64
	received, receivePosted uint64
	receiveAt, unpackAt     int
	owed                    int // receives that a ping-pong has put off posting
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
		if err := r.lanes[i].compile(e, i, j.Shape, &j.Lanes[i]); err != nil {
			return nil, e.fail(verb, j.Lanes[i].QP.QPN(), fmt.Errorf("lane %d: %w", i, err))
		}
		window += j.Lanes[i].Window
	}
	if r.record.Peak && j.Shape == verbs.Stream {
		r.peak = verbs.NewPeakSearch(r.record, window)
	}
	return r, nil
}

var errKernel = errors.New("the kernel is written in C: this runner runs Go")

func (l *lane) compile(e *engine, index int, shape verbs.Shape, from *verbs.Lane) error {
	q, ok := from.QP.(*queuePair)
	if !ok || q.e != e {
		return errForeign
	}
	*l = lane{Lane: from, q: q, index: index, untilSignal: uint64(from.Signal), receivePosted: from.InitialReceives()}
	if len(from.Receives) > 0 {
		l.receiveAt = int(l.receivePosted % uint64(len(from.Receives)))
	}
	if shape == verbs.PingPong && from.Await != verbs.AwaitCompletion {
		l.patience = uint64(from.Window) / 2
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
