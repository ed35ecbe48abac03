//go:build linux && cgo

package ibv

// #include "loop.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// compile decides here, before the clock starts, all that the loops need not ask again.
func (r *runner) compile() (err error) {
	j := r.job
	if !r.isQuick() {
		r.slow, err = job.NewRunner(j, newDriver(r))
		return err
	}
	if j.Record != nil || j.Trace != nil {
		if r.books, err = job.NewBooks(j); err != nil {
			return err
		}
	}
	c := &allocate[C.struct_cl_job](&r.memory, 1)[0]
	r.c, r.lanes = c, allocate[C.struct_cl_lane](&r.memory, len(j.Lanes))
	c.lanes, c.lane_count = &r.lanes[0], C.uint32_t(len(r.lanes))
	c.by_device, c.poll_cq = number(stamped(j)), r.poller(&c.meter)
	cqs := allocate[*C.struct_vb_cq](&r.memory, len(j.CQs))
	c.cqs = unsafe.SliceData(cqs)
	for _, cq := range j.CQs {
		if cq := cq.(*completionQueue); r.uses(cq) {
			cqs[c.cq_count] = cq.cq
			c.cq_count++
		}
	}
	c.ping_pong, c.first, c.abandon = number(j.Shape == job.PingPong), number(j.First), number(j.Abandon)
	c.await, c.tag, c.step_batch = C.uint32_t(j.Lanes[0].Await), C.uint64_t(newTag()), stepBatch
	if c.ping_pong != 0 && c.await == C.CL_AWAIT_COMPLETION && c.by_device == 0 {
		c.step_batch = C.CL_STEPS + 1 // between two steps, outside of both
	}
	room := 2 * pollBatch * (len(cqs) + 1)
	for i := range r.lanes {
		if err := r.compileLane(i); err != nil {
			return fmt.Errorf("lane %d: %w", i, err)
		}
		room += j.Lanes[i].Window + 1
		r.window += max(j.Lanes[i].Window, 1)
	}
	r.indexQPNs()
	if rec := j.Record; j.Trace != nil || rec != nil && (rec.Samples || rec.Peak) && j.Shape == job.Stream &&
		c.sends != 0 {
		events := logEvents
		if r.stampsGroups() {
			c.grouped, events = 1, groupEvents
		}
		r.log = allocate[C.struct_cl_event](&r.memory, events+room)
		clear(r.log) // the loop shall not be the first to touch it
		c.log, c.log_slots, c.log_full = &r.log[0], C.uint32_t(len(r.log)), C.uint32_t(events)
	}
	return nil
}

// stampsGroups tells whether a job is too long to stamp each of its messages.
func (r *runner) stampsGroups() bool {
	messages := uint64(0)
	for i := range r.job.Lanes {
		l := &r.job.Lanes[i]
		if len(l.Ring) > 0 && l.Count == 0 {
			messages += eachMessage + 1
		}
		messages += l.Count
	}
	return r.job.Trace == nil && messages > eachMessage
}

// isQuick tells whether the loops in C run the job. One that sleeps until events come waits longer than a call takes.
func (r *runner) isQuick() bool {
	j := r.job
	if j.Shape == job.Serve || j.NeedsGo() || j.Channel != nil || len(j.Lanes) > 1<<C.CL_SLOT_SHIFT {
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

// cycle is the number of a lane's messages until a batch starts with message 0 again; or several times that, so that
// two signaled messages that follow each other have different places in it.
func cycle(l *job.Lane) int {
	once := len(l.Ring) / job.GCD(len(l.Ring), l.Batch) * l.Batch
	for n := once; requests(l, n) <= maxPrepared; n += once {
		if l.Signal%n != 0 {
			return n
		}
	}
	return once
}

// requests is how many requests the prepared batches of so many messages hold.
func requests(l *job.Lane, messages int) int {
	n := 0
	for k := range l.Ring {
		n += len(l.Ring[k].Steps[0].Requests)
	}
	return 2 * n * messages / len(l.Ring)
}

// prepared is how many requests a lane's prepared batches hold.
func prepared(l *job.Lane) int { return requests(l, cycle(l)) }

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

// newTag is the part of the IDs of sends that tells a job's from any other's. A lane, and a
// place among its messages, are the rest.
func newTag() uint64 { return 1<<63 | job.Generation()<<C.CL_TAG_SHIFT }

func (r *runner) compileLane(i int) error {
	l, c, qp := &r.job.Lanes[i], &r.lanes[i], r.job.Lanes[i].QP.(*queuePair)
	c.qp, c.qpn, c.ud = qp.qp, C.uint32_t(qp.qpn), number(qp.transport == verbs.UD)
	c.window, c.signal, c.batch = C.uint32_t(max(l.Window, 1)), C.uint32_t(max(l.Signal, 1)), C.uint32_t(max(l.Batch, 1))
	c.flag_in, c.flag_out = (*C.uint8_t)(unsafe.Pointer(l.FlagIn)), (*C.uint8_t)(unsafe.Pointer(l.FlagOut))
	c.next_id = ^C.uint64_t(0) // no message's
	r.before = append(r.before, l.Payload())
	if len(l.Ring) > 0 {
		r.compileRing(i, qp)
	}
	if len(l.Receives) > 0 {
		if err := r.compileReceives(i, qp); err != nil {
			return err
		}
	}
	r.c.left += c.count + c.expect
	return nil
}

func endless(count uint64) C.uint64_t {
	if count == 0 {
		return C.CL_ENDLESS
	}
	return C.uint64_t(count)
}

// indexQPNs makes the table that finds a completion's lane.
func (r *runner) indexQPNs() {
	size := 2
	for size < 2*len(r.lanes) {
		size *= 2
	}
	table := allocate[C.struct_cl_qpn](&r.memory, size)
	for i := range table {
		table[i].lane = ^C.uint32_t(0)
	}
	for i := range r.lanes {
		at := int(r.lanes[i].qpn) & (size - 1)
		for table[at].lane != ^C.uint32_t(0) {
			at = (at + 1) & (size - 1)
		}
		table[at] = C.struct_cl_qpn{qpn: r.lanes[i].qpn, lane: C.uint32_t(i)}
	}
	r.c.by_qpn_mask, r.c.by_qpn = C.uint32_t(size-1), &table[0]
}

// compileRing links whole batches ahead of time, once without and once with a completion of the last message, so that
// posting one is a call and nothing else; and the messages that are left at the end.
func (r *runner) compileRing(i int, qp *queuePair) {
	l, to := &r.job.Lanes[i], &r.lanes[i]
	ring := len(l.Ring)
	lists := make([][]C.struct_vb_sge, ring) // of each message: all batches share them
	longest := 0
	for k := range l.Ring {
		sges := 0
		for _, q := range l.Ring[k].Steps[0].Requests {
			sges += len(q.SGEs)
		}
		lists[k] = allocate[C.struct_vb_sge](&r.memory, sges)
		longest = max(longest, len(l.Ring[k].Steps[0].Requests))
	}
	wrs := allocate[C.struct_vb_send_wr](&r.memory, prepared(l)+longest*l.Batch)
	// link makes the list of n messages from a place on; those for which signaled says so are.
	link := func(place, n int, signaled func(message int) bool) *C.struct_vb_send_wr {
		head := &wrs[0]
		var tail *C.struct_vb_send_wr
		for m := range n {
			k := (place + m) % ring
			list := lists[k]
			for _, q := range l.Ring[k].Steps[0].Requests {
				q.Flags &^= verbs.Signaled
				q.ID = r.idOf(i, place+m)
				fillSend(&wrs[0], &list, &q, qp.transport)
				if tail != nil {
					tail.next = &wrs[0]
				}
				tail, wrs = &wrs[0], wrs[1:]
			}
			if signaled(m + 1) {
				tail.send_flags |= C.uint32_t(verbs.Signaled)
			}
		}
		return head
	}
	inBatch := func(m int) bool { return m == l.Batch || m%l.Signal == 0 }
	heads := allocate[*C.struct_vb_send_wr](&r.memory, 2*cycle(l)/l.Batch)
	to.heads, to.at = &heads[0], &heads[0]
	to.end = (**C.struct_vb_send_wr)(unsafe.Add(unsafe.Pointer(&heads[0]), len(heads)*int(unsafe.Sizeof(heads[0]))))
	for m := 0; m < cycle(l); m += l.Batch {
		signaled := link(m, l.Batch, inBatch)
		plain := signaled
		if l.Signal > l.Batch {
			plain = link(m, l.Batch, func(int) bool { return false })
		}
		heads[0], heads[1] = plain, signaled
		heads = heads[2:]
	}
	to.every = max(to.signal/to.batch, 1)
	to.until_signal = to.every
	r.c.sends, to.count = 1, endless(l.Count)
	to.limit = to.count
	if unit := uint64(max(l.Signal, l.Batch)); l.Count%unit != 0 {
		n := int(l.Count % uint64(l.Batch))
		if n == 0 {
			n = l.Batch
		}
		place := int((l.Count - uint64(n)) % uint64(cycle(l)))
		to.last = link(place, n, func(m int) bool { return m == n || m%l.Signal == 0 })
		to.last_messages = C.uint32_t(n)
		to.limit -= C.uint64_t(n)
	}
	first := l.Signal
	if l.Count > 0 {
		first = int(min(uint64(first), l.Count))
	}
	to.next_id = C.uint64_t(r.idOf(i, (first-1)%cycle(l)))
	to.id_step, to.id_span = C.uint64_t(l.Signal%cycle(l)<<C.CL_SLOT_SHIFT), C.uint64_t(cycle(l)<<C.CL_SLOT_SHIFT)
	to.id_end = C.uint64_t(r.idOf(i, cycle(l)))
	to.post_send = qp.poster(*to.heads, l.Ring, r.job, &r.c.meter)
}

// idOf is the ID of the message at a place of a lane's prepared batches.
func (r *runner) idOf(lane, place int) uint64 {
	return uint64(r.c.tag) | uint64(place)<<C.CL_SLOT_SHIFT | uint64(lane)
}

func flag(b bool) C.int { //nolint:revive // a C flag is made of it
	if b {
		return 1
	}
	return 0
}

func number(b bool) C.uint32_t { return C.uint32_t(flag(b)) } //nolint:revive // a C flag is made of it

// accounts tells whether a job wants to know what posts and polls cost.
func accounts(j *job.Job) bool { return j.Record != nil && j.Record.CPU }

// stamped tells whether a job wants the device's time stamps.
func stamped(j *job.Job) bool { return j.Record != nil && !j.Record.Clock.IsZero() }

// poller is the function that polls the job's queues: the device's, or where time is
// accounted for the meter's, which calls it.
func (r *runner) poller(m *C.struct_mt_meter) *C.vb_poll_cq_fn {
	m.poll_cq = r.d.context.ops.poll_cq
	if stamped(r.job) {
		m.poll_cq = (*C.vb_poll_cq_fn)(C.vb_poll_stamped)
	}
	if !accounts(r.job) {
		return m.poll_cq
	}
	for _, cq := range r.job.CQs {
		cq.(*completionQueue).cq.cq_context = unsafe.Pointer(m)
	}
	return (*C.vb_poll_cq_fn)(C.mt_poll_cq)
}

// poster is the function that posts a ring's lists, of which one is given; where time is accounted for, it is the
// meter's, which calls the one for lists of any kind.
func (q *queuePair) poster(list *C.struct_vb_send_wr, ring []job.Message, j *job.Job,
	m *C.struct_mt_meter,
) *C.vb_post_send_fn {
	switch {
	case accounts(j):
		m.post_send, q.qp.qp_context = q.post, unsafe.Pointer(m)
		return (*C.vb_post_send_fn)(C.mt_post_send)
	case q.api == verbs.PostWR:
		return C.vb_poster(q.qp, list, flag(alike(ring)))
	}
	return q.post
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
func (r *runner) compileReceives(i int, qp *queuePair) error {
	l, to := &r.job.Lanes[i], &r.lanes[i]
	ring, queue := len(l.Receives), &qp.receives
	if l.SRQ != nil {
		queue = &l.SRQ.(*sharedReceiveQueue).receives
	}
	longest := 2*pollBatch + l.ReceiveList
	slots := ring * ((longest + ring - 1) / ring)
	sges := 0
	for k := range l.Receives {
		if err := limitSGEs(len(l.Receives[k].SGEs), queue.sges); err != nil {
			return fmt.Errorf("receive %d: %w", k, err)
		}
		sges += len(l.Receives[k].SGEs)
	}
	wrs, all := allocate[C.struct_vb_recv_wr](&r.memory, slots), allocate[C.struct_vb_sge](&r.memory, sges)
	list := all
	for s := range slots {
		if s%ring == 0 {
			list = all
		}
		q := &l.Receives[s%ring]
		fillReceive(&wrs[s], &list, q.ID, q.SGEs)
		wrs[s].next = &wrs[(s+1)%slots]
	}
	to.expect, to.receive_list, to.receives_posted = endless(l.Expect), C.uint32_t(l.ReceiveList), C.uint64_t(l.Posted)
	to.receives, to.receive_slots, to.receive_at = &wrs[0], C.uint32_t(slots), C.uint32_t(l.Posted%uint64(slots))
	to.owns_receives, to.receives_on, to.post_recv = number(l.SRQ == nil), queue.from, (*[0]byte)(queue.by)
	return nil
}
