//go:build linux && cgo

package ibv

// #include "turn.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

const (
	// preparedLists is how many requests a lane's groups are copied to at most, so that lists can wait for the next poll.
	preparedLists = 256
	// turnPolls is how often a turn polls where nothing has completed: a call from Go costs as much as some polls.
	turnPolls = 16
	// pacedPolls is the same where the next message may be due.
	pacedPolls = 4
)

// driver is the device as the loop of package job drives it: requests were linked ahead of time, and posting waits for
// the next poll, so that both are one call into C. Events and receives go by the device's verbs.
type driver struct {
	job.Driver
	memory *memory
	lanes  []driverLane
	turn   *C.struct_tn_turn
	lists  []C.struct_tn_list
	lane   []int // of each list that waits
	polls  C.uint32_t
	d      *device
	job    *job.Job
}

// driverLane is a lane's requests: groups that are posted together, one after the other and then anew. Some copies of
// the ring follow each other, so that a list can wait while the next is made.
type driverLane struct {
	qp         *queuePair
	post       *C.vb_post_send_fn
	groups     [][]C.struct_vb_send_wr
	at         int // the next group
	waiting    int // groups before it on lists that wait
	made       int // and on the one that is being made
	head, tail *C.struct_vb_send_wr
}

// newDriver makes the driver of a job, in the memory of its runner.
func newDriver(r *runner) *driver {
	d, j := r.d, r.job
	t := &driver{
		Driver: job.NewVerbsDriver(d, j), memory: &r.memory, lanes: make([]driverLane, len(j.Lanes)), polls: turnPolls,
		d: d, job: j,
	}
	switch {
	case j.Channel != nil || awaitsByte(j): // there is something else to look at
		t.polls = 1
	case j.Pace > 0: // and a time to keep
		t.polls = pacedPolls
	}
	t.turn = &allocate[C.struct_tn_turn](t.memory, 1)[0]
	cqs := allocate[*C.struct_vb_cq](t.memory, len(j.CQs))
	t.turn.cqs, t.turn.cq_count, t.turn.poll_cq = unsafe.SliceData(cqs), C.uint32_t(len(cqs)), r.poller(&t.turn.meter)
	for i, cq := range j.CQs {
		cqs[i] = cq.(*completionQueue).cq
	}
	waiting := 0
	for i := range j.Lanes {
		waiting += max(j.Lanes[i].Window, 1)
	}
	t.lists = allocate[C.struct_tn_list](t.memory, waiting)
	t.turn.lists, t.lane = unsafe.SliceData(t.lists), make([]int, waiting)
	return t
}

func awaitsByte(j *job.Job) bool {
	return j.Shape == job.PingPong && j.Lanes[0].Await == job.AwaitLastByte
}

// Compile implements [job.Driver].
func (t *driver) Compile(lane int, l *job.Lane, groups [][]verbs.SendRequest) error {
	if err := t.Driver.Compile(lane, l, groups); err != nil || len(groups) == 0 {
		return err
	}
	qp := l.QP.(*queuePair)
	to := &t.lanes[lane]
	requests, entries := 0, 0
	for _, g := range groups {
		requests += len(g)
		for i := range g {
			entries += len(g[i].SGEs)
		}
	}
	messages := len(l.Ring)
	copies := max((l.Batch+messages-1)/messages, min((l.Window+messages-1)/messages, preparedLists/requests), 1)
	wrs, sges := allocate[C.struct_vb_send_wr](t.memory, copies*requests), allocate[C.struct_vb_sge](t.memory, entries)
	to.qp = qp
	for range copies {
		list := sges // all copies share the entries
		for _, g := range groups {
			group := wrs[:len(g)]
			for i := range g {
				q := g[i]
				q.Flags &^= verbs.Signaled
				fillSend(&group[i], &list, &q, qp.transport)
				if i > 0 {
					group[i-1].next = &group[i]
				}
			}
			to.groups, wrs = append(to.groups, group), wrs[len(g):]
		}
	}
	to.post = qp.poster(&to.groups[0][0], l.Ring, t.job, &t.turn.meter)
	return nil
}

// Append implements [job.Driver]. The loop goes through a lane's groups in order.
func (t *driver) Append(b job.Batch) error {
	l := &t.lanes[b.Lane]
	if l.waiting+l.made+b.N > len(l.groups) {
		if err := t.postAll(); err != nil {
			return err
		}
	}
	for k := range b.N {
		g := l.groups[l.at]
		for i := range g {
			g[i].wr_id = C.uint64_t(b.ID + uint64(k))
		}
		last := &g[len(g)-1]
		last.next, last.send_flags = nil, last.send_flags&^C.uint32_t(verbs.Signaled)
		if l.head == nil {
			l.head = &g[0]
		} else {
			l.tail.next = &g[0]
		}
		l.tail = last
		if l.at++; l.at == len(l.groups) {
			l.at = 0
		}
	}
	l.made += b.N
	if b.Signaled {
		l.tail.send_flags |= C.uint32_t(verbs.Signaled)
	}
	return nil
}

// Flush implements [job.Driver].
func (t *driver) Flush(lane int, atOnce bool) error {
	l := &t.lanes[lane]
	if l.head != nil {
		at := int(t.turn.waiting)
		t.lists[at] = C.struct_tn_list{qp: l.qp.qp, post: l.post, head: l.head}
		t.lane[at] = lane
		l.waiting, l.made, l.head = l.waiting+l.made, 0, nil
		t.turn.waiting++
	}
	if atOnce || int(t.turn.waiting) == len(t.lists) {
		return t.postAll()
	}
	return nil
}

// postAll posts the lists that wait.
func (t *driver) postAll() error {
	if t.turn.waiting == 0 {
		return nil
	}
	return t.took(C.tn_post(t.turn))
}

// took releases the groups of the lists that were posted, and says what failed.
func (t *driver) took(got C.int) error {
	for i := range int(t.turn.done) {
		t.lanes[t.lane[i]].waiting = 0
	}
	switch got {
	case C.TN_BAD_POST:
		l := &t.lanes[t.lane[t.turn.done]]
		return l.qp.fail("measure", fmt.Errorf("post send: %w", postErrno(t.turn.error)))
	case C.TN_BAD_POLL:
		return t.d.fail("measure", fmt.Errorf("poll completion queue: %w", pollError(-int(t.turn.error))))
	}
	return nil
}

// Poll implements [job.Driver].
func (t *driver) Poll(out []verbs.Completion) (int, error) {
	got := C.tn_take(t.turn, t.polls)
	if got < 0 || t.turn.done != 0 {
		err := t.took(got)
		t.turn.done = 0
		if err != nil {
			return 0, err
		}
	}
	completions(out, &t.turn.polled, int(got))
	return int(got), nil
}

// Spent implements [job.Meter].
func (t *driver) Spent() (posting, polling job.Ticks) {
	m := &t.turn.meter
	posting, polling = job.Ticks(m.posting), job.Ticks(m.polling)
	m.posting, m.polling = 0, 0
	return posting, polling
}
