package bench

import (
	"fmt"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/verbs"
)

// Compile makes this end's job for one size of a settled plan: all that features change is decided here. The target of a
// one-sided test gets a job that only makes progress. Recorder, stop word, deadline and pace are the caller's to set.
func Compile(p control.Plan, role Role, size int, e *Endpoint, peer []control.Address) (*verbs.Job, error) {
	return compileRound(p, role, size, 0, e, peer)
}

// compileRound is Compile with a message count of its own (a warm-up, a verification); 0 keeps the plan's.
func compileRound(p control.Plan, role Role, size int, count uint64, e *Endpoint, peer []control.Address) (*verbs.Job, error) {
	if len(peer) != len(e.qps) {
		return nil, fmt.Errorf("compile: %d addresses of the peer for %d queue pairs", len(peer), len(e.qps))
	}
	s := settingsFor(p, size, count)
	j := &verbs.Job{Shape: verbs.Stream, CQs: e.cqs(), Channel: e.channel}
	if !sends(p, role) && !receives(p, role) {
		j.Shape = verbs.Serve
		j.Channel = nil
	}
	if p.Kind == control.Latency && j.Shape != verbs.Serve {
		j.Shape = verbs.PingPong
		// In a write test the target moves first, in a send test the initiator (perftest's order).
		j.First = (role == Initiator) != (answers(p) && p.Operation == control.Write)
	}
	for q, qp := range e.qps {
		lane, err := e.work.lane(e, role, size, q, peer[q])
		if err != nil {
			return nil, err
		}
		lane.QP, lane.SRQ = qp, e.srq
		lane.Window, lane.Signal, lane.Batch = s.window, s.signal, s.batch
		if len(lane.Ring) > 0 {
			lane.Count = s.count
		}
		if len(lane.Receives) > 0 {
			lane.Receives = rotate(lane.Receives, e.ringStart(q))
			lane.Unpack = rotate(lane.Unpack, e.ringStart(q))
			if !e.openEnded {
				lane.Expect = s.count
			}
		}
		j.Lanes = append(j.Lanes, lane)
	}
	return j, nil
}

// ringStart is the place in a receive ring at which a job begins: receives left over from earlier rounds are its first.
func (e *Endpoint) ringStart(q int) uint64 { return e.posted[q] - uint64(e.outstanding[q]) }

// rotate makes ring begin at element n mod its length.
func rotate[T any](ring []T, n uint64) []T {
	if len(ring) == 0 {
		return ring
	}
	k := int(n % uint64(len(ring)))
	return append(append([]T(nil), ring[k:]...), ring[:k]...)
}

func (e *Endpoint) cqs() []verbs.CompletionQueue {
	if e.recvCQ == e.sendCQ {
		return []verbs.CompletionQueue{e.sendCQ}
	}
	return []verbs.CompletionQueue{e.sendCQ, e.recvCQ}
}

// postReceives brings each lane's receive queue to its depth before the peer may send. Receives left over from earlier
// rounds are the first of the lane's ring.
func (e *Endpoint) postReceives(j *verbs.Job) error {
	for q := range j.Lanes {
		l := &j.Lanes[q]
		if len(l.Receives) == 0 {
			continue
		}
		n := e.rxDepth
		if l.Expect > 0 && uint64(n) > l.Expect {
			n = int(l.Expect)
		}
		for k := e.outstanding[q]; k < n; k++ {
			if err := l.PostReceive(uint64(k)); err != nil {
				return fmt.Errorf("post receives: %w", err)
			}
			e.posted[q]++
			e.outstanding[q]++
		}
		l.Posted = uint64(e.outstanding[q])
	}
	return nil
}

// settleReceives notes what a round consumed: n receives per queue pair, in order. Exact rounds leave nothing posted;
// open-ended ones repost all.
func (e *Endpoint) settleReceives(j *verbs.Job, n []uint64) {
	for q := range j.Lanes {
		l := &j.Lanes[q]
		if len(l.Receives) == 0 {
			continue
		}
		if l.Expect > 0 {
			e.posted[q] += l.Expect - uint64(e.outstanding[q])
			e.outstanding[q] = 0
			continue
		}
		e.posted[q] += n[q]
	}
}

// serveJob makes progress for the peer while this end waits: where receives are kept posted, a stream that goes on
// reposting them; got is how many each lane has received by now.
func (e *Endpoint) serveJob(j *verbs.Job, got []uint64) *verbs.Job {
	after := &verbs.Job{Shape: verbs.Serve, CQs: j.CQs, Lanes: j.Lanes}
	if j.Shape != verbs.Stream || !e.openEnded || len(j.Lanes[0].Receives) == 0 {
		return after
	}
	after.Shape = verbs.Stream
	after.Lanes = nil
	for q := range j.Lanes {
		l := &j.Lanes[q]
		after.Lanes = append(after.Lanes, verbs.Lane{
			QP: l.QP, SRQ: l.SRQ, Receives: rotate(l.Receives, got[q]), Unpack: rotate(l.Unpack, got[q]), Posted: l.Posted,
			Window: 1, Signal: 1, Batch: 1,
		})
	}
	return after
}
