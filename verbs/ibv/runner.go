//go:build linux && cgo

package ibv

// #include "post.h"
// #include "shim.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/ibv/cloop"
	"github.com/gobw/gobw/verbs/internal/handle"
	"github.com/gobw/gobw/verbs/job"
)

// maxPrepared is how many prepared requests a lane may take: beyond, they would only push each other out of the cache.
const maxPrepared = 8192

// runner is a prepared job, which keeps its handles open: lists that were linked ahead of time, for the loops in C, or the loop of
// package job over this device's verbs.
type runner struct {
	object
	job    *job.Job
	memory cloop.Memory
	tag    uint64
	quick  *cloop.Runner
	slow   job.Runner // where the job is none for the loops in C
}

// Prepare implements [job.Preparer].
func (d *device) Prepare(j *job.Job) (job.Runner, error) {
	const verb = "prepare job"
	if err := j.Validate(); err != nil {
		return nil, d.fail(verb, err)
	}
	r := &runner{object: object{d: d}, job: j, tag: cloop.NewTag()}
	used, err := r.used()
	if err == nil {
		err = r.Open("prepared job", r.compile, used...)
	}
	if err != nil {
		r.memory.Free()
		return nil, d.fail(verb, err)
	}
	return r, nil
}

// used are the handles that the job keeps open.
func (r *runner) used() (used []*handle.Handle, err error) {
	j := r.job
	used = append(used, &r.d.Handle)
	for i, q := range j.CQs {
		cq, err := handle.Own[*completionQueue](r.d, fmt.Sprintf("completion queue %d", i), q)
		switch {
		case err != nil:
			return nil, err
		case j.Channel != nil && cq.channel != j.Channel:
			return nil, fmt.Errorf("completion queue %d announces nothing on the job's channel: create it with that channel", i)
		case j.Record != nil && !j.Record.Clock.IsZero() && !cq.stamps:
			return nil, fmt.Errorf("completion queue %d stamps nothing: create it with Timestamps, or take samples by the host's clock", i)
		}
		used = append(used, &cq.Handle)
	}
	if j.Channel != nil {
		ch, err := handle.Own[*completionChannel](r.d, "completion channel", j.Channel)
		if err != nil {
			return nil, err
		}
		used = append(used, &ch.Handle)
	}
	for i := range j.Lanes {
		l := &j.Lanes[i]
		qp, err := handle.Own[*queuePair](r.d, "queue pair", l.QP)
		if err == nil && j.Shape != job.Serve {
			err = qp.checkRing(l.Ring, func(h *handle.Handle) { used = append(used, h) })
		}
		if err == nil && j.Shape != job.Serve && l.SRQ != nil {
			var srq *sharedReceiveQueue
			if srq, err = handle.Own[*sharedReceiveQueue](r.d, "shared receive queue", l.SRQ); err == nil {
				used = append(used, &srq.Handle)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("lane %d: %w", i, err)
		}
		used = append(used, &qp.Handle)
	}
	return used, nil
}

// checkRing checks a ring's requests, and tells the handles that they name.
func (q *queuePair) checkRing(ring []job.Message, tell func(*handle.Handle)) error {
	for k := range ring {
		for s := range ring[k].Steps {
			for i := range ring[k].Steps[s].Requests {
				r := &ring[k].Steps[s].Requests[i]
				if err := q.checkSend(r); err != nil {
					return fmt.Errorf("message %d, request %d: %w", k, i, err)
				}
				named, err := q.named(r)
				if err != nil {
					return fmt.Errorf("message %d, request %d: %w", k, i, err)
				}
				for _, h := range named {
					if h != nil {
						tell(h)
					}
				}
			}
		}
	}
	return nil
}

// compile decides here, before the clock starts, all that the loops need not ask again.
func (r *runner) compile() (err error) {
	if !r.isQuick() {
		r.slow, err = job.NewVerbsRunner(r.d, r.job)
		return err
	}
	j, ops := r.job, &r.d.context.ops
	if rec := j.Record; rec != nil && len(rec.Counts) != job.HistogramCounts {
		return fmt.Errorf("a recorder with %d counts, want %d: make it with NewRecorder", len(rec.Counts), job.HistogramCounts)
	}
	q := cloop.Queues{Poll: unsafe.Pointer(ops.poll_cq), ByDevice: j.Record != nil && !j.Record.Clock.IsZero()}
	if q.ByDevice {
		q.Poll = C.vb_poll_stamped
	}
	for _, cq := range j.CQs {
		if cq := cq.(*completionQueue); r.uses(cq) {
			q.CQs = append(q.CQs, unsafe.Pointer(cq.cq))
		}
	}
	lanes := make([]cloop.Lane, len(j.Lanes))
	for i := range j.Lanes {
		qp := j.Lanes[i].QP.(*queuePair)
		lanes[i].QP, lanes[i].QPN, lanes[i].UD = unsafe.Pointer(qp.qp), qp.qpn, qp.transport == verbs.UD
		if len(j.Lanes[i].Ring) > 0 {
			r.compileRing(i, qp, &lanes[i])
		}
		if err := r.compileReceives(i, qp, &lanes[i]); err != nil {
			return fmt.Errorf("lane %d: %w", i, err)
		}
	}
	r.quick, err = cloop.New(j, r.tag, q, lanes)
	return err
}

// isQuick tells whether the loops in C run the job. One that sleeps until events come waits longer than a call takes.
func (r *runner) isQuick() bool {
	j := r.job
	if j.Shape == job.Serve || j.NeedsGo() || j.Channel != nil || len(j.Lanes) > cloop.MaxLanes {
		return false
	}
	for i := range j.Lanes {
		l := &j.Lanes[i]
		if len(l.Ring) > 0 && (l.Signal%l.Batch != 0 && l.Batch%l.Signal != 0 || prepared(l) > maxPrepared) ||
			j.Shape == job.PingPong && l.Await == job.AwaitCompletion && len(l.Receives) > 0 {
			return false
		}
	}
	return true
}

// cycle is the number of a lane's messages until a batch starts with message 0 again.
func cycle(l *job.Lane) int {
	a, b := len(l.Ring), l.Batch
	for b != 0 {
		a, b = b, a%b
	}
	return len(l.Ring) / a * l.Batch
}

// prepared is how many requests its prepared batches hold.
func prepared(l *job.Lane) int {
	requests := 0
	for k := range l.Ring {
		requests += len(l.Ring[k].Steps[0].Requests)
	}
	return 2 * requests * cycle(l) / len(l.Ring)
}

// uses tells whether anything of the job completes into a queue: the others need no polling.
func (r *runner) uses(cq *completionQueue) bool {
	for i := range r.job.Lanes {
		l := &r.job.Lanes[i]
		if qp := l.QP.(*queuePair); len(l.Ring) > 0 && qp.sendCQ == cq || len(l.Receives) > 0 && qp.recvCQ == cq {
			return true
		}
	}
	return false
}

// compileRing links whole batches ahead of time, once without and once with a completion of the last message, so that posting one is a
// call and nothing else; and the messages that are left at the end.
func (r *runner) compileRing(i int, qp *queuePair, to *cloop.Lane) {
	l := &r.job.Lanes[i]
	ring := len(l.Ring)
	lists := make([][]C.struct_vb_sge, ring) // of each message: all batches share them
	longest := 0
	for k := range l.Ring {
		sges := 0
		for _, q := range l.Ring[k].Steps[0].Requests {
			sges += len(q.SGEs)
		}
		lists[k] = cloop.Allocate[C.struct_vb_sge](&r.memory, sges)
		longest = max(longest, len(l.Ring[k].Steps[0].Requests))
	}
	wrs := cloop.Allocate[C.struct_vb_send_wr](&r.memory, prepared(l)+longest*l.Batch)
	// link makes the list of n messages from a place on; those for which signaled says so are.
	link := func(place, n int, signaled func(message int) bool) unsafe.Pointer {
		head := &wrs[0]
		var tail *C.struct_vb_send_wr
		for m := range n {
			k := (place + m) % ring
			list := lists[k]
			for _, q := range l.Ring[k].Steps[0].Requests {
				q.Flags &^= verbs.Signaled
				q.ID = cloop.ID(r.tag, i, place+m)
				fillSend(&wrs[0], list[:len(q.SGEs)], &q, qp.transport)
				list = list[len(q.SGEs):]
				if tail != nil {
					tail.next = &wrs[0]
				}
				tail, wrs = &wrs[0], wrs[1:]
			}
			if signaled(m + 1) {
				tail.send_flags |= C.uint32_t(verbs.Signaled)
			}
		}
		return unsafe.Pointer(head)
	}
	inBatch := func(m int) bool { return m == l.Batch || m%l.Signal == 0 }
	for m := 0; m < cycle(l); m += l.Batch {
		signaled := link(m, l.Batch, inBatch)
		plain := signaled
		if l.Signal > l.Batch {
			plain = link(m, l.Batch, func(int) bool { return false })
		}
		to.Heads = append(to.Heads, plain, signaled)
	}
	if unit := uint64(max(l.Signal, l.Batch)); l.Count%unit != 0 {
		to.LastMessages = int(l.Count % uint64(l.Batch))
		if to.LastMessages == 0 {
			to.LastMessages = l.Batch
		}
		n := to.LastMessages
		place := int((l.Count - uint64(n)) % uint64(ring))
		to.Last = link(place, n, func(m int) bool { return m == n || m%l.Signal == 0 })
	}
	to.PostSend = unsafe.Pointer(qp.post)
	if qp.api == verbs.PostWR {
		to.PostSend = unsafe.Pointer(C.vb_poster(qp.qp, (*C.struct_vb_send_wr)(to.Heads[0]), flag(alike(l.Ring))))
	}
}

func flag(b bool) C.int { //nolint:revive // a C flag is made of it
	if b {
		return 1
	}
	return 0
}

// alike tells whether all of a ring's requests are of one opcode, with one entry each, all or none of them inline.
func alike(ring []job.Message) bool {
	var first *verbs.SendRequest
	for k := range ring {
		for s := range ring[k].Steps {
			for q := range ring[k].Steps[s].Requests {
				r := &ring[k].Steps[s].Requests[q]
				if first == nil {
					first = r
				}
				if r.Opcode != first.Opcode || len(r.SGEs) != 1 || (r.Flags^first.Flags)&verbs.Inline != 0 {
					return false
				}
			}
		}
	}
	return first != nil
}

// compileReceives links the receives in a circle that is longer than any list posted at once.
func (r *runner) compileReceives(i int, qp *queuePair, to *cloop.Lane) error {
	l := &r.job.Lanes[i]
	ring, limit := len(l.Receives), qp.caps.RecvSGEs
	if ring == 0 {
		return nil
	}
	if qp.srq != nil {
		limit = qp.srq.sges
	}
	longest := 2*pollBatch + l.ReceiveList
	slots := ring * ((longest + ring - 1) / ring)
	sges := 0
	for k := range l.Receives {
		if err := limitSGEs(len(l.Receives[k].SGEs), limit); err != nil {
			return fmt.Errorf("receive %d: %w", k, err)
		}
		sges += len(l.Receives[k].SGEs)
	}
	wrs, all := cloop.Allocate[C.struct_vb_recv_wr](&r.memory, slots), cloop.Allocate[C.struct_vb_sge](&r.memory, sges)
	list := all
	for s := range slots {
		if s%ring == 0 {
			list = all
		}
		q := &l.Receives[s%ring]
		fillReceive(&wrs[s], list[:len(q.SGEs)], q)
		list = list[len(q.SGEs):]
		wrs[s].next = &wrs[(s+1)%slots]
	}
	to.Receives, to.ReceiveSlots = unsafe.Pointer(&wrs[0]), slots
	to.ReceivesOn, to.PostReceive = unsafe.Pointer(qp.qp), unsafe.Pointer(r.d.context.ops.post_recv)
	if l.SRQ != nil {
		to.ReceivesOn, to.PostReceive = unsafe.Pointer(l.SRQ.(*sharedReceiveQueue).srq), unsafe.Pointer(r.d.context.ops.post_srq_recv)
	}
	return nil
}

// Run implements [job.Runner]: one call into C, where the loops there run the job.
func (r *runner) Run(until job.Ticks) (job.Progress, error) {
	if err := r.Enter(); err != nil {
		return job.Progress{}, r.fail("run job", err)
	}
	defer r.Leave()
	if r.slow != nil {
		return r.slow.Run(until)
	}
	p, failed := r.quick.Run(until)
	if failed != nil {
		return p, r.failure(failed, p)
	}
	return p, nil
}

// failure says what ended a run early.
func (r *runner) failure(f *cloop.Failure, p job.Progress) error {
	e := failure{device: r.d.info.Name, err: f.Errno}
	if f.Lane >= 0 {
		e.qp = r.job.Lanes[f.Lane].QP.QPN()
	}
	switch f.Kind {
	case cloop.BadCompletion:
		c := goCompletion((*C.struct_vb_wc)(f.Completion))
		c.ID = f.Message
		return &verbs.CompletionError{Device: r.d.info.Name, Completion: c, Sent: p.Posted, Done: p.Completed}
	case cloop.UnknownCompletion:
		e.verb, e.err = "run job", fmt.Errorf("a completion of qp %#x, which is on no lane", uint32((*C.struct_vb_wc)(f.Completion).qp_num))
		if f.Lane >= 0 {
			e.err = fmt.Errorf("a completion of request %d, which no job posted", f.Message)
		}
	case cloop.BadPost:
		e.verb, e.err = fmt.Sprintf("post message %d of lane %d", f.Message, f.Lane), postErrno(f.Errno)
	case cloop.BadReceive:
		e.verb, e.err = fmt.Sprintf("post receive %d of lane %d", f.Message, f.Lane), postErrno(f.Errno)
	case cloop.BadPoll:
		e.verb = "poll completion queue"
	}
	return explain(e)
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
	return r.quick.Received(lane)
}

// Close frees what Prepare made.
func (r *runner) Close() error {
	return r.fail("close job", r.Handle.Close(nil, func() error {
		r.memory.Free()
		if r.slow != nil {
			return r.slow.Close()
		}
		r.quick.Close()
		return nil
	}))
}
