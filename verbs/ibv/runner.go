//go:build linux && cgo

package ibv

// #include "post.h"
// #include "runner.h"
import "C"

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/internal/handle"
	"github.com/gobw/gobw/verbs/job"
)

// maxPrepared is how many prepared requests a lane may take: beyond, they would only push each other out of the cache.
const maxPrepared = 8192

// stampRoom is how many messages of a quick loop wait to be counted, if need be after the job: more than perftest can
// have with a peak (20000).
const stampRoom = 1 << 15

// traceRoom is the least number of events between two visits to the trace function.
const traceRoom = 4096

// runner is a job in C memory. It belongs to one goroutine.
type runner struct {
	handle.Handle
	d      *device
	job    *job.Job
	c      *C.struct_vb_job
	lanes  []C.struct_vb_lane
	memory []unsafe.Pointer // all C memory, for Close
	trace  []C.struct_vb_trace
	stop   *atomic.Uint32
	counts []int64
	raw    []job.Ticks
}

// allocate makes n zeroed elements that live until the runner is closed.
func allocate[T any](r *runner, n int) []T {
	s := cSlice[T](n)
	if n > 0 {
		r.memory = append(r.memory, unsafe.Pointer(unsafe.SliceData(s)))
	}
	return s
}

// Prepare compiles a job into C memory.
func (d *device) Prepare(j *job.Job) (job.Runner, error) {
	const verb = "prepare job"
	if err := j.Validate(); err != nil {
		return nil, d.fail(verb, err)
	}
	r := &runner{d: d, job: j, stop: j.Stop}
	used, err := r.used()
	if err == nil && j.NeedsGo() {
		return newGoRunner(r, used)
	}
	if err == nil {
		err = r.Open("prepared job", r.compile, used...)
	}
	if err != nil {
		r.free()
		return nil, d.fail(verb, err)
	}
	return r, nil
}

// goRunner is a job that the loop of package job runs over this device's verbs: it keeps the same handles open.
type goRunner struct {
	handle.Handle
	job.Runner
	d *device
}

func newGoRunner(r *runner, used []*handle.Handle) (job.Runner, error) {
	g := &goRunner{d: r.d}
	err := g.Open("prepared job", func() (err error) {
		g.Runner, err = job.NewVerbsRunner(r.job)
		return err
	}, used...)
	if err != nil {
		return nil, r.d.fail("prepare job", err)
	}
	return g, nil
}

// Run implements [job.Runner].
func (g *goRunner) Run(until job.Ticks) (job.Progress, error) {
	if err := g.Enter(); err != nil {
		return job.Progress{}, g.d.fail("run job", err)
	}
	defer g.Leave()
	return g.Runner.Run(until)
}

// Close implements [job.Runner].
func (g *goRunner) Close() error { return g.d.close(&g.Handle, "close job", g.Runner.Close) }

// used are the handles that the job keeps open.
func (r *runner) used() ([]*handle.Handle, error) {
	used := []*handle.Handle{&r.d.Handle}
	for i, q := range r.job.CQs {
		cq, ok := q.(*completionQueue)
		if !ok || cq.d != r.d {
			return nil, fmt.Errorf("completion queue %d is another device's", i)
		}
		used = append(used, &cq.Handle)
	}
	if r.job.Channel != nil {
		ch, ok := r.job.Channel.(*completionChannel)
		if !ok || ch.d != r.d {
			return nil, errors.New("the completion channel is another device's")
		}
		used = append(used, &ch.Handle)
	}
	for i := range r.job.Lanes {
		l := &r.job.Lanes[i]
		qp, ok := l.QP.(*queuePair)
		if !ok || qp.p.d != r.d {
			return nil, fmt.Errorf("lane %d: the queue pair is another device's", i)
		}
		used = append(used, &qp.Handle)
		if r.job.Shape == job.Serve {
			continue
		}
		if err := qp.checkRing(l.Ring, func(h *handle.Handle) { used = append(used, h) }); err != nil {
			return nil, fmt.Errorf("lane %d: %w", i, err)
		}
		if l.SRQ != nil {
			srq, ok := l.SRQ.(*sharedReceiveQueue)
			if !ok || srq.p.d != r.d {
				return nil, fmt.Errorf("lane %d: the shared receive queue is another device's", i)
			}
			used = append(used, &srq.Handle)
		}
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
				for _, h := range q.handles(r) {
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
func (r *runner) compile() error {
	j, d := r.job, r.d
	c := &allocate[C.struct_vb_job](r, 1)[0]
	r.c = c
	c.verbs = d.v
	ops := &d.context.ops
	c.post_recv, c.post_srq_recv, c.poll_cq = ops.post_recv, ops.post_srq_recv, ops.poll_cq
	c.shape, c.deadline = C.uint32_t(j.Shape), C.int64_t(j.Deadline)
	c.tag = C.uint64_t(sendID | job.Generation()<<C.VB_TAG_SHIFT)
	c.first, c.abandon = flag(j.First), flag(j.AbandonAtDeadline)
	if rec := j.Record; rec != nil {
		c.record.samples, c.record.peak = flag(rec.Samples), flag(rec.Peak)
		if !rec.Clock.IsZero() {
			c.record.samples, c.record.clock_mask = flag(rec.Samples)*C.VB_SAMPLES_DEVICE, C.uint64_t(rec.Clock.Mask)
			c.poll_cq = (*C.vb_poll_cq_fn)(C.vb_poll_stamped)
		}
		r.counts, r.raw = rec.Counts, rec.Raw
		if len(r.counts) != job.HistogramCounts {
			return fmt.Errorf("a recorder with %d counts, want %d: make it with NewRecorder", len(r.counts), job.HistogramCounts)
		}
	}
	if err := r.compileQueues(); err != nil {
		return err
	}
	if len(j.Lanes) > 1<<C.VB_SLOT_SHIFT {
		return fmt.Errorf("%d lanes: at most %d", len(j.Lanes), 1<<C.VB_SLOT_SHIFT)
	}
	r.lanes = allocate[C.struct_vb_lane](r, len(j.Lanes))
	c.lanes, c.lane_count = unsafe.SliceData(r.lanes), C.uint32_t(len(j.Lanes))
	c.stamped = flag(j.Shape == job.Stream && c.record.samples|c.record.peak != 0)
	c.fast = flag(c.record.clock_mask == 0 && j.Trace == nil && j.Channel == nil && j.Shape != job.Serve)
	window, batches := 0, 0
	for i := range j.Lanes {
		if err := r.compileLane(i); err != nil {
			return fmt.Errorf("lane %d: %w", i, err)
		}
		window += j.Lanes[i].Window
		batches += j.Lanes[i].Batch
	}
	r.indexQPNs()
	if c.sends == 0 {
		c.stamped = 0
	}
	if c.stamped != 0 {
		waiting := stampsWaiting(int(r.lanes[0].signal))
		flying := allocate[C.struct_vb_start](r, max(window, 1)+waiting)
		c.peak.flying, c.peak.slots, c.peak.slope = &flying[0], C.uint32_t(len(flying)), C.double(math.Inf(1))
		if rec := j.Record; rec.PeakBytes > 0 {
			c.peak.slope = C.double(float64(rec.PeakTicks) / float64(rec.PeakBytes))
		}
		found := allocate[C.int64_t](r, waiting/int(r.lanes[0].signal))
		c.found_at, c.found_slots = &found[0], C.uint32_t(len(found))
		// The loop shall not be the first to touch this memory.
		clear(flying)
		clear(found)
		if len(r.lanes) > 1 || c.cq_count > 1 || c.receives != 0 || r.lanes[0].bytes_each == C.VB_ENDLESS {
			c.fast = 0
		}
	}
	if j.Trace != nil {
		r.trace = allocate[C.struct_vb_trace](r, traceRoom+batches+2*pollBatch*len(j.CQs))
		c.trace, c.trace_cap = &r.trace[0], C.uint32_t(len(r.trace))
	}
	return nil
}

func flag(b bool) C.uint32_t { //nolint:revive // a C flag is made of it
	if b {
		return 1
	}
	return 0
}

func (r *runner) compileQueues() error {
	cqs := allocate[*C.struct_vb_cq](r, len(r.job.CQs))[:0]
	for i, q := range r.job.CQs {
		cq := q.(*completionQueue)
		if r.job.Channel != nil && cq.channel != r.job.Channel {
			return fmt.Errorf("completion queue %d announces nothing on the job's channel: create it with that channel", i)
		}
		if r.c.record.clock_mask != 0 && !cq.stamps {
			return fmt.Errorf("completion queue %d stamps nothing: create it with Timestamps, or take samples by the host's clock", i)
		}
		if r.uses(cq) {
			cqs = append(cqs, cq.cq)
		}
	}
	r.c.cqs, r.c.cq_count = unsafe.SliceData(cqs), C.uint32_t(len(cqs))
	if r.job.Channel != nil {
		r.c.channel = r.job.Channel.(*completionChannel).ch
		r.c.unacknowledged = unsafe.SliceData(allocate[C.uint32_t](r, len(cqs)))
	}
	return nil
}

// uses tells whether anything of the job completes into a queue: the others need no polling. A job that only serves
// polls them all.
func (r *runner) uses(cq *completionQueue) bool {
	if r.job.Shape == job.Serve {
		return true
	}
	for i := range r.job.Lanes {
		l := &r.job.Lanes[i]
		if qp, ok := l.QP.(*queuePair); ok && (len(l.Ring) > 0 && qp.sendCQ == cq || len(l.Receives) > 0 && qp.recvCQ == cq) {
			return true
		}
	}
	return false
}

func (r *runner) compileLane(i int) error {
	l, c := &r.job.Lanes[i], &r.lanes[i]
	qp := l.QP.(*queuePair)
	c.qp = qp.qp
	c.window, c.signal, c.batch = C.uint32_t(max(l.Window, 1)), C.uint32_t(max(l.Signal, 1)), C.uint32_t(max(l.Batch, 1))
	c.ud = flag(qp.transport == verbs.UD)
	if l.SRQ != nil {
		c.srq = l.SRQ.(*sharedReceiveQueue).srq
	}
	if r.job.Shape == job.Serve {
		return nil
	}
	if i == 0 {
		r.c.await = C.uint32_t(l.Await)
		c.flag_in, c.flag_out = (*C.uint8_t)(unsafe.Pointer(l.FlagIn)), (*C.uint8_t)(unsafe.Pointer(l.FlagOut))
	}
	if len(l.Ring) > 0 {
		r.c.sends = 1
		if err := r.compileRing(i, qp); err != nil {
			return err
		}
	}
	if len(l.Receives) > 0 {
		r.c.receives = 1
		return r.compileReceives(i, qp)
	}
	return nil
}

// compileRing prepares what the lane sends: every message for itself, for the general loop, and where the job allows it whole
// batches, for the quick ones.
func (r *runner) compileRing(i int, qp *queuePair) error {
	l, c := &r.job.Lanes[i], &r.lanes[i]
	c.count = C.uint64_t(l.Count)
	if l.Count == 0 {
		c.count = C.VB_ENDLESS
	}
	// The same message may stand twice in one list, so the ring is repeated until a batch fits.
	ring, rounds := len(l.Ring), (l.Batch+len(l.Ring)-1)/len(l.Ring)
	if ring*rounds > 1<<30 {
		return fmt.Errorf("a ring of %d messages is too long", ring)
	}
	c.ring, c.slots = C.uint32_t(ring), C.uint32_t(ring*rounds)
	c.sample_slots = c.window
	if len(r.lanes) == 1 && r.c.stamped != 0 {
		c.sample_slots += C.uint32_t(stampsWaiting(int(c.signal)))
	}
	samples := allocate[C.int64_t](r, int(c.sample_slots))
	c.sample_at = unsafe.SliceData(samples)
	clear(samples)
	first := r.compileMessages(i, qp)
	c.post_send = qp.post
	if qp.caps.PostAPI == verbs.PostWR {
		c.post_send = C.vb_poster(qp.qp, first, C.int(flag(alike(l.Ring))))
	}
	if !r.compileBatches(i) {
		r.c.fast = 0
	}
	return nil
}

// compileMessages links the requests of every message, for as many rounds of the ring as it has slots, and returns the first.
func (r *runner) compileMessages(i int, qp *queuePair) *C.struct_vb_send_wr {
	l, c := &r.job.Lanes[i], &r.lanes[i]
	before := allocate[C.uint64_t](r, len(l.Ring)+1)
	c.bytes_before, c.bytes_each = &before[0], C.uint64_t(l.Ring[0].Bytes)
	requests, sges := 0, 0
	for k := range l.Ring {
		m := &l.Ring[k]
		before[k+1] = before[k] + C.uint64_t(m.Bytes)
		if m.Bytes != l.Ring[0].Bytes {
			c.bytes_each = C.VB_ENDLESS
		}
		requests += len(m.Steps[0].Requests)
		for q := range m.Steps[0].Requests {
			sges += len(m.Steps[0].Requests[q].SGEs)
		}
	}
	messages := allocate[C.struct_vb_message](r, int(c.slots))
	wrs := allocate[C.struct_vb_send_wr](r, requests*int(c.slots)/len(l.Ring))
	lists := allocate[C.struct_vb_sge](r, sges)
	c.messages = &messages[0]
	wr, list := 0, 0
	for slot := range messages {
		k := slot % len(l.Ring)
		if k == 0 {
			list = 0 // the rounds share their lists
		}
		to := &messages[slot]
		for _, req := range l.Ring[k].Steps[0].Requests {
			req.Flags &^= verbs.Signaled
			w := &wrs[wr]
			wr++
			fillSend(w, lists[list:list+len(req.SGEs)], &req, qp.transport)
			list += len(req.SGEs)
			w.wr_id = r.wrID(i, slot)
			if to.head == nil {
				to.head = w
			} else {
				to.tail.next = w
			}
			to.tail, to.flags = w, w.send_flags
		}
	}
	return &wrs[0]
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

// stampsWaiting is how many messages may be complete and not yet counted: so many that two polls always fit.
func stampsWaiting(signal int) int { return max(stampRoom, 2*pollBatch*signal) }

// wrID names a lane and a message of its ring, in a job of this generation.
func (r *runner) wrID(lane, slot int) C.uint64_t {
	return r.c.tag | C.uint64_t(uint64(slot)<<C.VB_SLOT_SHIFT|uint64(lane))
}

// sendID marks the IDs of jobs' sends; those of receives are the caller's.
const sendID = 1 << 63

// compileBatches links whole batches ahead of time, once without and once with a completion of the last message, so that
// posting one is a call and nothing else. It tells whether the lane's shape allows that.
func (r *runner) compileBatches(i int) bool {
	l, c := &r.job.Lanes[i], &r.lanes[i]
	batch, signal, ring := l.Batch, l.Signal, len(l.Ring)
	if r.c.fast == 0 || (signal%batch != 0 && batch%signal != 0) {
		return false
	}
	messages := unsafe.Slice(c.messages, int(c.slots))
	requests := 0
	for k := range l.Ring {
		requests += len(l.Ring[k].Steps[0].Requests)
	}
	cycle := ring / gcd(ring, batch) * batch // messages until a batch starts with message 0 again
	requests = requests * cycle / ring
	every := max(signal/batch, 1)
	variants := 2
	if every == 1 {
		variants = 1
	}
	if requests*variants > maxPrepared {
		return false
	}
	unit := max(signal, batch) // one divides the other: after so many messages batches and completions start anew
	c.fast_limit = c.count - c.count%C.uint64_t(unit)
	c.every, c.until_signal = C.uint32_t(every), C.uint32_t(every)
	heads := allocate[*C.struct_vb_send_wr](r, 2*cycle/batch)
	wrs := allocate[C.struct_vb_send_wr](r, requests*variants)
	at := 0
	for v := range variants {
		signaled := v == 1 || variants == 1
		var tail *C.struct_vb_send_wr
		for m := range cycle {
			start := &messages[m%ring]
			for w := start.head; ; w = w.next {
				to := &wrs[at]
				at++
				*to = *w
				to.next, to.wr_id = nil, r.wrID(i, m)
				switch {
				case w == start.head && m%batch == 0:
					heads[2*(m/batch)+v] = to
					if variants == 1 {
						heads[2*(m/batch)+1] = to
					}
				default:
					tail.next = to
				}
				tail = to
				if w == start.tail {
					break
				}
			}
			if signaled && ((batch > signal && (m+1)%signal == 0) || (batch <= signal && (m+1)%batch == 0)) {
				tail.send_flags |= C.uint32_t(verbs.Signaled)
			}
		}
	}
	c.fast, c.fast_at = &heads[0], &heads[0]
	c.fast_end = (**C.struct_vb_send_wr)(unsafe.Add(unsafe.Pointer(&heads[0]), len(heads)*int(unsafe.Sizeof(heads[0]))))
	return true
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// compileReceives links the receives in a circle that is longer than any list posted at once.
func (r *runner) compileReceives(i int, qp *queuePair) error {
	l, c := &r.job.Lanes[i], &r.lanes[i]
	c.expect = C.uint64_t(l.Expect)
	if l.Expect == 0 {
		c.expect = C.VB_ENDLESS
	}
	ring, sges, limit := len(l.Receives), 0, qp.caps.RecvSGEs
	if qp.srq != nil {
		limit = qp.srq.sges
	}
	for k := range l.Receives {
		sges += len(l.Receives[k].SGEs)
		if err := limitSGEs(len(l.Receives[k].SGEs), limit); err != nil {
			return fmt.Errorf("receive %d: %w", k, err)
		}
	}
	longest := 2*pollBatch + l.ReceiveList
	slots := ring * ((longest + ring - 1) / ring)
	wrs, lists := allocate[C.struct_vb_recv_wr](r, slots), allocate[C.struct_vb_sge](r, sges)
	list := 0
	for s := range slots {
		k := s % ring
		if k == 0 {
			list = 0
		}
		n := len(l.Receives[k].SGEs)
		fillReceive(&wrs[s], lists[list:list+n], &l.Receives[k])
		wrs[s].next = &wrs[(s+1)%slots]
		list += n
	}
	c.receives, c.receive_slots, c.receive_list = &wrs[0], C.uint32_t(slots), C.uint32_t(l.ReceiveList)
	c.receives_posted = C.uint64_t(l.InitialReceives())
	c.receive_at = C.uint32_t(uint64(c.receives_posted) % uint64(slots))
	return nil
}

// indexQPNs makes the table that finds a completion's lane.
func (r *runner) indexQPNs() {
	size := 2
	for size < 2*len(r.lanes) {
		size *= 2
	}
	type entry struct{ qpn, lane uint32 }
	table := allocate[entry](r, size)
	for i := range table {
		table[i].lane = ^uint32(0)
	}
	for i := range r.lanes {
		qpn := uint32(r.lanes[i].qp.qp_num)
		at := int(qpn) & (size - 1)
		for table[at].lane != ^uint32(0) {
			at = (at + 1) & (size - 1)
		}
		table[at] = entry{qpn, uint32(i)}
	}
	r.c.by_qpn_mask = C.uint32_t(size - 1)
	*(*unsafe.Pointer)(unsafe.Pointer(&r.c.by_qpn)) = unsafe.Pointer(&table[0])
}

// Run works until the job is done, has failed, or the clock passes until. It is one call into C.
func (r *runner) Run(until job.Ticks) (job.Progress, error) {
	if err := r.Enter(); err != nil {
		return job.Progress{}, r.d.fail("run job", err)
	}
	defer r.Leave()
	r.importRecord()
	end := C.int(C.VB_TRACE_FULL)
	for end == C.VB_TRACE_FULL {
		end = C.vb_run(r.c, C.int64_t(until), (*C.int64_t)(unsafe.Pointer(unsafe.SliceData(r.counts))),
			(*C.int64_t)(unsafe.Pointer(unsafe.SliceData(r.raw))), (*C.uint32_t)(unsafe.Pointer(r.stop)))
		for _, e := range r.trace[:r.c.trace_len] {
			r.job.Trace(job.TraceEvent{Kind: job.TraceKind(e.kind), Lane: int(e.lane), N: uint64(e.n)})
		}
		r.c.trace_len = 0
	}
	r.exportRecord()
	p := job.Progress{
		Done: end == C.VB_DONE, Posted: uint64(r.c.posted), Completed: uint64(r.c.completed), Received: uint64(r.c.received),
		BytesOut: uint64(C.vb_bytes_out(r.c)), BytesIn: uint64(r.c.bytes_in),
		FirstPost: job.Ticks(r.c.first_post), LastDone: job.Ticks(r.c.last_done),
	}
	if end <= C.VB_DONE {
		return p, nil
	}
	return p, r.failure(end, p)
}

// failure says what ended a run early.
func (r *runner) failure(end C.int, p job.Progress) error {
	lane := int(r.c.bad_lane)
	var qpn uint32
	if lane < len(r.lanes) {
		qpn = uint32(r.lanes[lane].qp.qp_num)
	}
	errno := syscall.Errno(r.c.error)
	f := failure{device: r.d.info.Name, qp: qpn, err: errno}
	switch end {
	case C.VB_BAD_COMPLETION:
		c := goCompletion(&r.c.bad)
		if lane < len(r.lanes) {
			c.ID = r.messageNumber(lane, c.ID)
		}
		return &verbs.CompletionError{Device: r.d.info.Name, Completion: c, Sent: p.Posted, Done: p.Completed}
	case C.VB_STRANGE_COMPLETION:
		f.verb, f.err = "run job", fmt.Errorf("a completion of qp %#x, which is on no lane", uint32(r.c.bad.qp_num))
		if qpn != 0 {
			f.err = fmt.Errorf("a completion of request %d, which no job posted", uint64(r.c.bad.wr_id))
		}
	case C.VB_BAD_POST:
		f.verb, f.err = fmt.Sprintf("post message %d of lane %d", uint64(r.lanes[lane].posted), lane), postErrno(int(errno))
	case C.VB_BAD_RECEIVE:
		f.verb, f.err = fmt.Sprintf("post receive %d of lane %d", uint64(r.lanes[lane].receives_posted), lane), postErrno(int(errno))
	case C.VB_BAD_POLL:
		f.verb = "poll completion queue"
	case C.VB_BAD_EVENT:
		f.verb = "arm completion queue"
	}
	return explain(f)
}

// messageNumber turns the ID of a send that failed into the number of its message: the first one not yet known to be
// complete that has its place in the ring. A receive's ID is its own.
func (r *runner) messageNumber(lane int, id uint64) uint64 {
	l := &r.lanes[lane]
	if l.ring == 0 || id&sendID == 0 {
		return id
	}
	place, ring := id&(1<<C.VB_TAG_SHIFT-1)>>C.VB_SLOT_SHIFT%uint64(l.ring), uint64(l.ring)
	first := uint64(l.retired)
	return first + (place+ring-first%ring)%ring
}

// importRecord starts from what the recorder holds.
func (r *runner) importRecord() {
	c, rec := &r.c.record, r.job.Record
	if rec == nil {
		return
	}
	c.raw_cap, c.raw_len, c.n, c.clipped = C.uint64_t(len(rec.Raw)), C.uint64_t(rec.RawLen), C.uint64_t(rec.N), C.uint64_t(rec.Clipped)
	c.min, c.max, c.shift = C.int64_t(rec.Min), C.int64_t(rec.Max), C.int64_t(rec.Shift)
	c.sum, c.sum_sq, c.elapsed = C.double(rec.Sum), C.double(rec.SumSq), C.int64_t(rec.Elapsed)
	c.peak_bytes, c.peak_ticks = C.uint64_t(rec.PeakBytes), C.int64_t(rec.PeakTicks)
}

// exportRecord brings the sums over; counts and samples were written where they belong.
func (r *runner) exportRecord() {
	c, rec := &r.c.record, r.job.Record
	if rec == nil {
		return
	}
	rec.RawLen, rec.N, rec.Clipped = uint64(c.raw_len), uint64(c.n), uint64(c.clipped)
	rec.Min, rec.Max, rec.Shift = job.Ticks(c.min), job.Ticks(c.max), job.Ticks(c.shift)
	rec.Sum, rec.SumSq, rec.Elapsed = float64(c.sum), float64(c.sum_sq), job.Ticks(c.elapsed)
	rec.PeakBytes, rec.PeakTicks = uint64(c.peak_bytes), job.Ticks(c.peak_ticks)
}

// Received implements [job.Runner].
func (r *runner) Received(lane int) uint64 {
	if r.Enter() != nil {
		return 0
	}
	defer r.Leave()
	return uint64(r.lanes[lane].received)
}

// Close frees the job's C memory.
func (r *runner) Close() error {
	return r.d.close(&r.Handle, "close job", func() error {
		r.free()
		return nil
	})
}

func (r *runner) free() {
	r.c, r.lanes, r.trace = nil, nil, nil
	for _, p := range r.memory {
		free(p)
	}
	r.memory = nil
}

// histogramIndex is what the test compares with [job.HistogramIndex].
func histogramIndex(v uint64) int { return int(C.vb_histogram_index(C.uint64_t(v))) }
