//go:build linux && cgo

package ibv

// #include "loop.h"
import "C"

import (
	"cmp"
	"fmt"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/internal/handle"
	"github.com/gobw/gobw/verbs/job"
)

const (
	// maxPrepared is how many prepared requests a lane may take: beyond, they would only push each other out of the cache.
	maxPrepared = 8192
	// eachMessage is how many messages a job may have for each to be stamped: as many as perftest's with a peak.
	eachMessage = 20000
	// logEvents is how many events may be logged before some must be recorded; if need be all of a job: it is more than
	// twice what perftest can have with a peak (20000 messages).
	logEvents = 1 << 16
	// groupEvents is the same of groups, so few that the log stays in the cache.
	groupEvents = 1024
	// logBatch is how many events are recorded at once then at most: as many as messages fit the windows, so that
	// the device does not run empty meanwhile.
	logBatch = 512
	// stepBatch is the same for the steps of a ping-pong, which are recorded while a message is on its way.
	stepBatch = 16
)

// runner is a prepared job, which keeps its handles open: lists that were linked ahead of time, for the loops in C, or
// the loop of package job over this device's verbs.
type runner struct {
	object
	job  *job.Job
	slow job.Runner // where the job is none for the loops in C

	c      *C.struct_cl_job
	lanes  []C.struct_cl_lane
	before [][]uint64 // of each lane: the payload of its ring before each message
	log    []C.struct_cl_event
	logOut int
	window int // of all lanes
	books  *job.Books
}

// Prepare implements [job.Preparer].
func (d *device) Prepare(j *job.Job) (job.Runner, error) {
	const verb = "prepare job"
	if err := j.Validate(); err != nil {
		return nil, d.fail(verb, err)
	}
	r := &runner{object: object{d: d}, job: j}
	needs, err := r.needs()
	if err == nil {
		err = r.open(verb, "prepared job", r.compile, func() C.int { return 0 }, needs...)
	}
	if err != nil {
		r.memory.free()
		return nil, d.fail(verb, err)
	}
	return r, nil
}

// needs are the handles that the job keeps open.
func (r *runner) needs() (_ []*handle.Handle, err error) {
	j := r.job
	needs := handle.Needs[*device]{Of: r.d, List: []*handle.Handle{&r.d.Handle}}
	for i, q := range j.CQs {
		cq := handle.Need[*completionQueue](&needs, fmt.Sprintf("completion queue %d", i), q)
		switch {
		case needs.Err != nil:
			return nil, needs.Err
		case j.Channel != nil && cq.channel != j.Channel:
			return nil, fmt.Errorf("completion queue %d announces nothing on the job's channel: create it with that channel", i)
		case stamped(j) && !cq.stamps:
			return nil,
				fmt.Errorf("completion queue %d stamps nothing: create it with Timestamps, or take samples by the host's clock", i)
		}
	}
	if j.Channel != nil {
		handle.Need[*completionChannel](&needs, "completion channel", j.Channel)
	}
	for i := range j.Lanes {
		l := &j.Lanes[i]
		qp := handle.Need[*queuePair](&needs, "queue pair", l.QP)
		if needs.Err == nil && j.Shape != job.Serve {
			needs.List, err = qp.checkRing(l.Ring, needs.List)
		}
		if l.SRQ != nil && j.Shape != job.Serve {
			handle.Need[*sharedReceiveQueue](&needs, "shared receive queue", l.SRQ)
		}
		if err = cmp.Or(err, needs.Err); err != nil {
			return nil, fmt.Errorf("lane %d: %w", i, err)
		}
	}
	return needs.List, needs.Err
}

// checkRing checks a ring's requests, and adds the handles that they name.
func (q *queuePair) checkRing(ring []job.Message, to []*handle.Handle) (_ []*handle.Handle, err error) {
	for k := range ring {
		for s := range ring[k].Steps {
			for i := range ring[k].Steps[s].Requests {
				if to, err = q.check(&ring[k].Steps[s].Requests[i], to); err != nil {
					return nil, fmt.Errorf("message %d, request %d: %w", k, i, err)
				}
			}
		}
	}
	return to, nil
}

// Run implements [job.Runner]: one call into C, where the loops there run the job, for as long as Go
// need not record what they have stamped.
func (r *runner) Run(until job.Ticks) (job.Progress, error) {
	if err := r.Enter(); err != nil {
		return job.Progress{}, r.fail("measure", err)
	}
	defer r.Leave()
	defer C.vb_leave(C.vb_enter_run(r.d.context))
	if r.slow != nil {
		return r.slow.Run(until)
	}
	for {
		measured := r.c.over == 0
		end := C.cl_run(r.c, C.int64_t(until), (*C.uint32_t)(unsafe.Pointer(r.job.Stop)))
		if m := &r.c.meter; measured && accounts(r.job) {
			r.job.Record.PostTicks += job.Ticks(m.posting)
			r.job.Record.PollTicks += job.Ticks(m.polling)
			m.posting, m.polling = 0, 0
		}
		r.takeSteps()
		switch end {
		case C.CL_FULL:
			r.takeLog(min(logBatch, max(stepBatch, r.window)))
			if r.c.step_batch > C.CL_STEPS {
				r.c.begun = C.int64_t(job.Now())
			}
			continue
		case C.CL_RUNNING:
			return r.progress(false), nil
		}
		r.takeLog(len(r.log))
		p := r.progress(end == C.CL_DONE)
		if !p.Done {
			return p, r.whyEnded(end, p)
		}
		return p, nil
	}
}

// whyEnded says what ended a run early.
func (r *runner) whyEnded(end C.int, p job.Progress) error {
	e := r.failure("measure", errnoError(r.c.error), "")
	var l *C.struct_cl_lane
	index, bad := int(int32(r.c.bad_lane)), &r.c.bad
	if index >= 0 {
		l = &r.lanes[index]
		e.QP = uint32(l.qpn)
		if id := uint64(bad.wr_id); id>>63 != 0 {
			bad.wr_id = C.uint64_t(r.messageNumber(index, id&(1<<C.CL_TAG_SHIFT-1)>>C.CL_SLOT_SHIFT))
		}
	}
	switch end {
	case C.CL_BAD_COMPLETION:
		return &verbs.CompletionError{Device: r.d.info.Name, Completion: goCompletion(bad), Sent: p.Posted, Done: p.Completed}
	case C.CL_UNKNOWN_COMPLETION:
		e.Err = fmt.Errorf("a completion of qp %#x, which is on no lane", uint32(bad.qp_num))
		if l != nil {
			e.Err = fmt.Errorf("a completion of request %d, which no job posted", uint64(bad.wr_id))
		}
	case C.CL_UNASKED_COMPLETION:
		e.Err = fmt.Errorf("%w: a completion of another message than the next: those before %d were posted, "+
			"those before %d had completed",
			errLie, uint64(l.posted), uint64(l.retired))
		if goCompletion(bad).Opcode.IsReceive() {
			e.Err = fmt.Errorf("%w: more receives completed than were posted, %d", errLie, uint64(l.receives_posted))
		}
	case C.CL_BAD_POST:
		e.Err = fmt.Errorf("post message %d of lane %d: %w", uint64(l.posted), index, postErrno(r.c.error))
	case C.CL_BAD_RECEIVE:
		e.Err = fmt.Errorf("post receive %d of lane %d: %w", uint64(l.receives_posted), index, postErrno(r.c.error))
	case C.CL_BAD_POLL:
		e.Err = fmt.Errorf("poll completion queue: %w", pollError(-int(r.c.error)))
	}
	return explain(e, 0)
}

func (r *runner) progress(done bool) job.Progress {
	p := job.Progress{
		Done: done, BytesIn: uint64(r.c.bytes_in), FirstPost: job.Ticks(r.c.first_post), LastDone: job.Ticks(r.c.last_done),
	}
	for i := range r.lanes {
		l, before := &r.lanes[i], r.before[i]
		p.Posted += uint64(l.posted)
		p.Completed += uint64(l.retired)
		p.Received += uint64(l.received)
		p.BytesOut += job.PayloadBefore(before, uint64(l.retired))
	}
	return p
}

// messageNumber is the first message not yet known to be complete that has a place in the ring.
func (r *runner) messageNumber(lane int, place uint64) uint64 {
	ring, first := uint64(len(r.job.Lanes[lane].Ring)), uint64(r.lanes[lane].retired)
	if ring == 0 {
		return place
	}
	return first + (place%ring+ring-first%ring)%ring
}

// takeLog accounts for up to n events, the oldest first.
func (r *runner) takeLog(n int) {
	for n = min(n, int(r.c.logged)); n > 0; n-- {
		e := &r.log[r.logOut]
		if r.logOut++; r.logOut == len(r.log) {
			r.logOut = 0
		}
		r.c.logged--
		r.books.Take(job.TraceKind(e.what>>28), int(e.lane), uint64(e.what&(1<<28-1)), job.Ticks(e.at))
	}
}

// takeSteps accounts for the steps of a ping-pong.
func (r *runner) takeSteps() {
	if r.books != nil {
		for i := range r.c.steps {
			r.books.Step(job.Ticks(r.c.begun), job.Ticks(r.c.step_end[i]), uint64(r.c.step_stamp[i]))
			r.c.begun = 0
		}
	}
	r.c.steps = 0
}

// Received implements [job.Runner].
func (r *runner) Received(lane int) uint64 {
	if r.Enter() != nil {
		return 0
	}
	defer r.Leave()
	if r.slow != nil {
		return r.slow.Received(lane)
	}
	return uint64(r.lanes[lane].received)
}
