//go:build linux && cgo

package cloop

// #include "cloop.h"
import "C"

import (
	"syscall"
	"unsafe"

	"github.com/gobw/gobw/verbs/job"
)

const (
	// logEvents is how many events may be logged before some must be recorded; if need be all of a job: it is more than twice what
	// perftest can have with a peak (20000 messages).
	logEvents = 1 << 16
	// logBatch is how many events are recorded at once then, so that the device does not run empty meanwhile.
	logBatch = 512
	// stepBatch is the same for the steps of a ping-pong, which are recorded while a message is on its way.
	stepBatch = 16
	// MaxLanes is how many lanes a job may have.
	MaxLanes = 1 << C.CL_SLOT_SHIFT
)

// Lane is what the loops need of a lane beside [job.Lane]: pointers are libibverbs'.
type Lane struct {
	QP, PostSend unsafe.Pointer
	QPN          uint32
	UD           bool
	// Heads are the prepared lists: of batch i the one without a completion, and the one with a completion of its last message.
	// Each is linked ahead of time, in C memory.
	Heads []unsafe.Pointer
	// Last is the list of the messages that are left when no whole batch is, or after whose batch none would be signaled. It ends
	// with a signaled one. nil: nothing is left.
	Last         unsafe.Pointer
	LastMessages int
	// Receives are linked in a circle that is longer than any list; PostReceive posts them on ReceivesOn.
	Receives                unsafe.Pointer
	ReceiveSlots            int
	ReceivesOn, PostReceive unsafe.Pointer
}

// Queues are the completion queues that lanes complete into.
type Queues struct {
	CQs  []unsafe.Pointer
	Poll unsafe.Pointer
	// ByDevice: Poll fills a struct vb_polled.
	ByDevice bool
}

// NewTag is the part of the IDs of sends that tells a job's from any other's.
func NewTag() uint64 { return 1<<63 | job.Generation()<<C.CL_TAG_SHIFT }

// ID names a lane, and a place among its messages.
func ID(tag uint64, lane, place int) uint64 {
	return tag | uint64(place)<<C.CL_SLOT_SHIFT | uint64(lane)
}

// place is what ID was made of; a receive's ID is its own.
func place(id uint64) (place uint64, send bool) {
	return id & (1<<C.CL_TAG_SHIFT - 1) >> C.CL_SLOT_SHIFT, id>>63 != 0
}

// Runner is a job in C memory. It belongs to one goroutine.
type Runner struct {
	job    *job.Job
	queues Queues
	memory Memory
	c      *C.struct_cl_job
	lanes  []C.struct_cl_lane
	before [][]uint64 // of each lane: the payload of its ring before each message
	log    []C.struct_cl_event
	logOut int
	books  *job.Books // of a job that is logged
	// Of a ping-pong: when the step before ended, and how many have.
	ended, ticked uint64
	steps         uint64
}

// New makes the runner of a job. Signal and batch of each of its lanes divide each other, and a step that awaits a completion
// receives nothing.
func New(j *job.Job, tag uint64, q Queues, lanes []Lane) (*Runner, error) {
	r := &Runner{job: j, queues: q}
	c := &Allocate[C.struct_cl_job](&r.memory, 1)[0]
	r.c, r.lanes = c, Allocate[C.struct_cl_lane](&r.memory, len(lanes))
	cqs := Allocate[unsafe.Pointer](&r.memory, len(q.CQs))
	copy(cqs, q.CQs)
	c.lanes, c.lane_count = unsafe.SliceData(r.lanes), C.uint32_t(len(lanes))
	c.cqs, c.cq_count, c.poll_cq = (**C.struct_cl_cq)(unsafe.Pointer(unsafe.SliceData(cqs))), C.uint32_t(len(cqs)), (*C.cl_poll_cq_fn)(q.Poll)
	c.ping_pong, c.first, c.abandon = flag(j.Shape == job.PingPong), flag(j.First), flag(j.AbandonAtDeadline)
	c.by_device = flag(q.ByDevice)
	c.deadline, c.tag, c.step_batch = C.int64_t(j.Deadline), C.uint64_t(tag), stepBatch
	if c.ping_pong != 0 && j.Lanes[0].Await == job.AwaitCompletion && !q.ByDevice {
		c.step_batch = C.CL_STEPS + 1 // between two steps, outside of both
	}
	room := 2 * C.CL_POLL_BATCH * (len(q.CQs) + 1)
	for i := range lanes {
		r.lane(i, &lanes[i])
		room += j.Lanes[i].Window + 1
	}
	r.indexQPNs(lanes)
	rec := j.Record
	if j.Trace != nil || rec != nil && (rec.Samples || rec.Peak) && j.Shape == job.Stream && c.sends != 0 {
		var err error
		if r.books, err = job.NewBooks(j); err != nil {
			return nil, err
		}
		r.log = Allocate[C.struct_cl_event](&r.memory, logEvents+room)
		clear(r.log) // the loop shall not be the first to touch it
		c.log, c.log_slots, c.log_full = &r.log[0], C.uint32_t(len(r.log)), logEvents
	}
	return r, nil
}

func (r *Runner) lane(i int, from *Lane) {
	l, c := &r.job.Lanes[i], &r.lanes[i]
	c.qp, c.qpn, c.ud, c.post_send = (*C.struct_cl_qp)(from.QP), C.uint32_t(from.QPN), flag(from.UD), (*C.cl_post_send_fn)(from.PostSend)
	c.window, c.signal, c.batch = C.uint32_t(max(l.Window, 1)), C.uint32_t(max(l.Signal, 1)), C.uint32_t(max(l.Batch, 1))
	before := make([]uint64, len(l.Ring)+1)
	for k := range l.Ring {
		before[k+1] = before[k] + l.Ring[k].Bytes
	}
	r.before = append(r.before, before)
	if len(l.Ring) > 0 {
		r.c.sends = 1
		c.count, c.last_messages, c.last = endless(l.Count), C.uint32_t(from.LastMessages), (*C.struct_cl_send_wr)(from.Last)
		c.limit = c.count - C.uint64_t(from.LastMessages)
		if l.Count == 0 {
			c.limit = c.count
		}
		heads := Allocate[unsafe.Pointer](&r.memory, len(from.Heads))
		copy(heads, from.Heads)
		c.heads = (**C.struct_cl_send_wr)(unsafe.Pointer(&heads[0]))
		c.end = (**C.struct_cl_send_wr)(unsafe.Add(unsafe.Pointer(&heads[0]), len(heads)*int(unsafe.Sizeof(heads[0]))))
		c.at, c.every = c.heads, max(c.signal/c.batch, 1)
		c.until_signal = c.every
	}
	if len(l.Receives) > 0 {
		c.expect, c.receive_list = endless(l.Expect), C.uint32_t(l.ReceiveList)
		c.receives_on, c.post_recv = from.ReceivesOn, (*C.cl_post_recv_fn)(from.PostReceive)
		c.receives, c.receive_slots = (*C.struct_cl_recv_wr)(from.Receives), C.uint32_t(from.ReceiveSlots)
		c.receives_posted = C.uint64_t(l.Posted)
		c.receive_at = C.uint32_t(uint64(c.receives_posted) % uint64(from.ReceiveSlots))
	}
	if r.c.ping_pong != 0 {
		r.c.await = C.uint32_t(l.Await)
		c.flag_in, c.flag_out = (*C.uint8_t)(unsafe.Pointer(l.FlagIn)), (*C.uint8_t)(unsafe.Pointer(l.FlagOut))
	}
	r.c.left += c.count + c.expect
}

func flag(b bool) C.uint32_t { //nolint:revive // a C flag is made of it
	if b {
		return 1
	}
	return 0
}

func endless(count uint64) C.uint64_t {
	if count == 0 {
		return C.CL_ENDLESS
	}
	return C.uint64_t(count)
}

// indexQPNs makes the table that finds a completion's lane.
func (r *Runner) indexQPNs(lanes []Lane) {
	size := 2
	for size < 2*len(lanes) {
		size *= 2
	}
	type entry struct{ qpn, lane uint32 }
	table := Allocate[entry](&r.memory, size)
	for i := range table {
		table[i].lane = ^uint32(0)
	}
	for i := range lanes {
		at := int(lanes[i].QPN) & (size - 1)
		for table[at].lane != ^uint32(0) {
			at = (at + 1) & (size - 1)
		}
		table[at] = entry{lanes[i].QPN, uint32(i)}
	}
	r.c.by_qpn_mask = C.uint32_t(size - 1)
	*(*unsafe.Pointer)(unsafe.Pointer(&r.c.by_qpn)) = unsafe.Pointer(&table[0])
}

// Failure is what ended a run early.
type Failure struct {
	Kind  Kind
	Lane  int // -1: none
	Errno syscall.Errno
	// Completion is the struct ibv_wc at fault, and Message what it completed: a message's number, or a receive's ID.
	Completion unsafe.Pointer
	Message    uint64
}

// Kind is what failed.
type Kind int

// Kinds.
const (
	BadCompletion     Kind = C.CL_BAD_COMPLETION
	UnknownCompletion Kind = C.CL_UNKNOWN_COMPLETION // of a queue pair on no lane, or of a request that no job posted
	BadPost           Kind = C.CL_BAD_POST
	BadReceive        Kind = C.CL_BAD_RECEIVE
	BadPoll           Kind = C.CL_BAD_POLL
)

// Run is that of [job.Runner].
func (r *Runner) Run(until job.Ticks) (job.Progress, *Failure) {
	for {
		end := C.cl_run(r.c, C.int64_t(until), (*C.uint32_t)(unsafe.Pointer(r.job.Stop)))
		r.takeSteps()
		switch end {
		case C.CL_FULL:
			r.takeLog(logBatch)
			if r.c.step_batch > C.CL_STEPS {
				r.ended = uint64(job.Now())
			}
			continue
		case C.CL_RUNNING:
			return r.progress(false), nil
		}
		r.takeLog(len(r.log))
		if end == C.CL_DONE {
			return r.progress(true), nil
		}
		f := &Failure{Kind: Kind(end), Lane: int(int32(r.c.bad_lane)), Errno: syscall.Errno(r.c.error), Completion: unsafe.Pointer(&r.c.bad)}
		f.Message = uint64(r.c.bad.wr_id)
		if place, send := place(f.Message); send && f.Lane >= 0 {
			f.Message = r.messageNumber(f.Lane, place)
		}
		switch f.Kind {
		case BadPost:
			f.Message = uint64(r.lanes[f.Lane].posted)
		case BadReceive:
			f.Message = uint64(r.lanes[f.Lane].receives_posted)
		default:
		}
		return r.progress(false), f
	}
}

func (r *Runner) progress(done bool) job.Progress {
	p := job.Progress{Done: done, BytesIn: uint64(r.c.bytes_in), FirstPost: job.Ticks(r.c.first_post), LastDone: job.Ticks(r.c.last_done)}
	for i := range r.lanes {
		l, before := &r.lanes[i], r.before[i]
		p.Posted += uint64(l.posted)
		p.Completed += uint64(l.retired)
		p.Received += uint64(l.received)
		if ring := uint64(len(before) - 1); ring > 0 {
			p.BytesOut += uint64(l.retired)/ring*before[ring] + before[uint64(l.retired)%ring]
		}
	}
	return p
}

// messageNumber is the first message not yet known to be complete that has a place in the ring.
func (r *Runner) messageNumber(lane int, place uint64) uint64 {
	ring, first := uint64(len(r.job.Lanes[lane].Ring)), uint64(r.lanes[lane].retired)
	if ring == 0 {
		return place
	}
	return first + (place%ring+ring-first%ring)%ring
}

// takeLog accounts for up to n events, the oldest first.
func (r *Runner) takeLog(n int) {
	for n = min(n, int(r.c.logged)); n > 0; n-- {
		e := &r.log[r.logOut]
		if r.logOut++; r.logOut == len(r.log) {
			r.logOut = 0
		}
		r.c.logged--
		r.books.Take(job.TraceKind(e.what>>28), int(e.lane), uint64(e.what&(1<<28-1)), job.Ticks(e.at))
	}
}

// takeSteps takes the samples of a ping-pong: from the end of one step to that of the next.
func (r *Runner) takeSteps() {
	rec, n := r.job.Record, int(r.c.steps)
	r.c.steps = 0
	if rec == nil || !rec.Samples {
		return
	}
	leads := r.job.First || r.c.await == C.CL_AWAIT_COMPLETION
	for i := range n {
		at, device := uint64(r.c.step_end[i]), uint64(r.c.step_stamp[i])
		if r.steps == 0 {
			r.ended = uint64(r.c.begun)
		}
		switch {
		case r.steps == 0 && (!leads || r.queues.ByDevice): // no end came before
		case r.queues.ByDevice:
			rec.Add(job.Ticks(rec.Clock.Between(r.ticked, device)))
			rec.Elapsed += job.Ticks(at - r.ended)
		default:
			rec.Add(job.Ticks(at - r.ended))
		}
		r.ended, r.ticked = at, device
		r.steps++
	}
}

// Received is that of [job.Runner].
func (r *Runner) Received(lane int) uint64 { return uint64(r.lanes[lane].received) }

// Close frees the job's memory.
func (r *Runner) Close() {
	r.c, r.lanes, r.log = nil, nil, nil
	r.memory.Free()
}
