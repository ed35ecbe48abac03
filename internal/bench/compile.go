package bench

import (
	"fmt"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// compile makes this end's job for a round of one size: all that features change is decided here. The target of a
// one-sided test gets a job that only makes progress. Recorder, stop word, deadline and pace are the caller's to set.
// count is the round's own; 0: the plan's.
func (e *Endpoint) compile(size int, count uint64, peer []control.Address) (*job.Job, error) {
	p := e.plan
	s := p.Lane(size, count)
	j := &job.Job{Shape: job.Stream, CQs: e.cqs(), InGo: p.Point() != nil} // strategies that pack and others are compared
	if len(e.threads) == 1 {
		j.Channel = e.threads[0].channel
	}
	if !p.Sends() && !p.Receives() {
		j.Shape = job.Serve
		j.Channel = nil
	}
	if e.spec.Kind == plan.Latency && j.Shape != job.Serve {
		j.Shape = job.PingPong
		j.First = p.MovesFirst()
	}
	for q, qp := range e.qps {
		lane, err := e.work.lane(e, size, q, peer[q])
		if err != nil {
			return nil, err
		}
		lane.QP, lane.SRQ = qp, e.srq
		lane.Window, lane.Signal, lane.Batch = s.Window, s.Signal, s.Batch
		if len(lane.Ring) > 0 {
			lane.Count = s.Count
		}
		if len(lane.Receives) > 0 {
			lane.Receives = job.Rotate(lane.Receives, e.ringStart(q))
			lane.Unpack = job.Rotate(lane.Unpack, e.ringStart(q))
			lane.ReceiveList = p.ReceiveList()
			if !p.OpenEnded() {
				lane.Expect = s.Count
			}
		}
		j.Lanes = append(j.Lanes, lane)
	}
	return j, nil
}

// ringStart is the place in a receive ring at which a job begins: receives left over from earlier rounds are its first.
func (e *Endpoint) ringStart(q int) uint64 { return e.posted[q] - uint64(e.outstanding[q]) }

func (e *Endpoint) cqs() []verbs.CompletionQueue {
	var all []verbs.CompletionQueue
	for _, c := range e.threads {
		all = append(all, c.all()...)
	}
	return all
}

// queues are those of each thread.
func (e *Endpoint) queues() (all []job.ThreadQueues) {
	for _, c := range e.threads {
		all = append(all, job.ThreadQueues{CQs: c.all(), Channel: c.channel})
	}
	return all
}

// postReceives brings each lane's receive queue to its depth before the peer may send. Receives left over from earlier
// rounds are the first of the lane's ring.
func (e *Endpoint) postReceives(j *job.Job) error {
	for q := range j.Lanes {
		l := &j.Lanes[q]
		if len(l.Receives) == 0 {
			continue
		}
		n := e.plan.Queues().RecvWRs
		if l.Expect > 0 && uint64(n) > l.Expect {
			n = int(l.Expect)
		}
		for e.outstanding[q] < n {
			list := min(max(l.ReceiveList, 1), n-e.outstanding[q])
			if err := l.PostReceives(uint64(e.outstanding[q]), list); err != nil {
				return fmt.Errorf("post receives: %w", err)
			}
			e.posted[q] += uint64(list)
			e.outstanding[q] += list
		}
		l.Posted = uint64(e.outstanding[q])
	}
	return nil
}

// settleReceives notes what a round consumed: n receives per queue pair, in order. A counted round reposts until all that it
// expects have been posted: where messages were lost, some of them are left to the next round. Open-ended ones repost all.
func (e *Endpoint) settleReceives(j *job.Job, n []uint64) {
	for q := range j.Lanes {
		l := &j.Lanes[q]
		if len(l.Receives) == 0 {
			continue
		}
		if l.Expect > 0 {
			all := min(l.Posted+n[q], l.Expect)
			e.posted[q] += all - l.Posted
			e.outstanding[q] = int(all - n[q])
			continue
		}
		e.posted[q] += n[q]
	}
}
