package endpoint

import (
	"fmt"
	"math"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// workload is what a message is. The ordinary tests are one ([contiguous]), the non-contiguous experiment another.
type workload interface {
	// lane makes a queue pair's part of the job for one size: rings and addresses. Window, counts and receives due are
	// set by Compile.
	lane(e *Endpoint, size int, qp *pair) (job.Lane, error)
	// source is how messages lie where they start, destination how a queue pair's lie where
	// they arrive, after the round that was.
	source(e *Endpoint, size int) image
	destination(e *Endpoint, size int, qp *pair) destination
}

// movement is what one queue pair did in a round.
type movement struct {
	sent     uint64 // messages sent and known complete at the initiator; the largest number: nobody knows
	received uint64 // receives completed at this end
	first    uint64 // number of the receive (since the queue pair was made) that took the round's first message
}

// workloadOf picks the workload of a plan.
func workloadOf(p *plan.Settled) workload {
	if p.Point == nil {
		return contiguous{}
	}
	return &layouts{Point: p.Point}
}

// Compile makes this end's job for a round of one size: all that features change is decided here. The target of a
// one-sided test gets a job that only makes progress. Recorder, stop word, deadline and pace are the caller's to set.
// count is the round's own; 0: the plan's.
func (e *Endpoint) Compile(size int, count uint64) (*job.Job, error) {
	p := e.plan
	s := p.Lane(size, count)
	j := &job.Job{Shape: job.Stream, InGo: p.Point != nil} // strategies that pack and others are compared
	for _, t := range e.Threads {
		j.CQs = append(j.CQs, t.CQs...)
	}
	if len(e.Threads) == 1 {
		j.Channel = e.Threads[0].Channel
	}
	if !p.Sends() && !p.Receives() {
		j.Shape = job.Serve
		j.Channel = nil
	}
	if e.spec.Kind == plan.Latency && j.Shape != job.Serve {
		j.Shape = job.PingPong
		j.First = p.MovesFirst()
	}
	for _, qp := range e.qps {
		lane, err := e.work.lane(e, size, qp)
		if err != nil {
			return nil, err
		}
		lane.QP, lane.SRQ = qp.QueuePair, e.srq
		lane.Window, lane.Signal, lane.Batch = s.Window, s.Signal, s.Batch
		if len(lane.Ring) > 0 {
			lane.Count = s.Count
		}
		if len(lane.Receives) > 0 {
			lane.Receives, lane.Unpack = job.Rotate(lane.Receives, qp.taken), job.Rotate(lane.Unpack, qp.taken)
			if e.spec.RecvList > 1 { // else they are posted as they come
				lane.ReceiveList = e.spec.RecvList
			}
			if !p.OpenEnded() {
				lane.Expect = s.Count
			}
		}
		j.Lanes = append(j.Lanes, lane)
	}
	return j, nil
}

// request is one of a queue pair's: of these entries, and of what lies so far from the beginning of the peer's memory.
func (e *Endpoint) request(qp *pair, entries []verbs.SGE, remote uint64) verbs.SendRequest {
	row := e.plan.Row
	r := verbs.SendRequest{Opcode: row.Opcode, SGEs: entries}
	if row.Addressed() {
		r.RemoteAddr, r.RKey = qp.peer.Addr+remote, qp.peer.RKey
	}
	if qp.handle != nil {
		r.AH, r.RemoteQPN, r.RemoteQKey = qp.handle, qp.peer.QPN, e.qkey
	}
	return r
}

// Begin brings each lane's receive queue to its depth before the peer may send. Receives left over from earlier
// rounds are the first of the lane's ring.
func (e *Endpoint) Begin(j *job.Job) error {
	for q, qp := range e.qps {
		l := &j.Lanes[q]
		qp.moved = movement{first: qp.taken, sent: math.MaxUint64}
		if len(l.Receives) == 0 {
			continue
		}
		n := e.plan.Queues.RecvWRs
		if l.Expect > 0 && uint64(n) > l.Expect {
			n = int(l.Expect)
		}
		for qp.outstanding < n {
			list := min(max(l.ReceiveList, 1), n-qp.outstanding)
			if err := l.PostReceives(uint64(qp.outstanding), list); err != nil {
				return fmt.Errorf("post receives: %w", err)
			}
			qp.outstanding += list
		}
		l.Posted = uint64(qp.outstanding)
	}
	return nil
}

// End notes what each queue pair sent and received in a round. A counted round posts as many receives as it expects
// messages; if messages were lost, unused receives stay posted for the next round. A round without a count reposts all.
func (e *Endpoint) End(j *job.Job, moved func(q int) (sent, received uint64)) {
	for q, qp := range e.qps {
		l := &j.Lanes[q]
		qp.moved.sent, qp.moved.received = moved(q)
		if len(l.Receives) == 0 {
			continue
		}
		qp.taken += qp.moved.received
		if l.Expect > 0 {
			qp.outstanding = int(min(l.Posted+qp.moved.received, l.Expect) - qp.moved.received)
		}
	}
}
