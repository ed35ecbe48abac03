package bench

import (
	"slices"
	"time"
	"unsafe"

	"github.com/gobw/gobw/internal/bench/noncontig"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs/job"
)

// workload is what a message is. The ordinary tests are one ([contiguous]), the non-contiguous experiment another.
type workload interface {
	// lane makes queue pair q's part of the job for one size: rings and addresses. Window, counts and receives due are
	// set by compile.
	lane(e *Endpoint, size, q int, peer control.Address) (job.Lane, error)
	// arm fills what is sent and wipes what is received, so that check can tell what arrived. Called before every part of
	// a round whose data is verified; seed differs from part to part and is the same at both ends.
	arm(e *Endpoint, size int, seed uint64) error
	// check compares what arrived after a part: moved says how much, per queue pair. It returns how many messages it found
	// whole; 0 where this end has nothing to compare.
	check(e *Endpoint, size int, seed uint64, moved []movement) (whole uint64, err error)
}

// movement is what one queue pair did in a round.
type movement struct {
	sent     uint64 // messages sent and known complete at the initiator
	received uint64 // receives completed at this end
	first    uint64 // number of the receive (since the queue pair was made) that took the round's first message
}

// workloadOf picks the workload of a plan.
func workloadOf(p *plan.Settled, planted time.Duration) workload {
	if p.Point() != nil {
		return &layouts{noncontig.New(p), planted}
	}
	return &contiguous{plan: p, spec: p.Spec()}
}

// layouts is the workload of the non-contiguous experiment: one queue pair.
type layouts struct {
	*noncontig.Workload
	planted time.Duration // that each message costs on purpose
}

func (w *layouts) memory(e *Endpoint, q int) noncontig.Memory {
	m := noncontig.Memory{
		Send: e.sendSlot(q), SendAddr: e.sendAddr(q), Recv: e.recvSlot(q), RecvAddr: e.recvAddr(q), LKey: e.lkey(q), QKey: e.qkey,
	}
	if len(e.handles) > q {
		m.AH = e.handles[q]
	}
	return m
}

func (w *layouts) lane(e *Endpoint, _, q int, peer control.Address) (job.Lane, error) {
	if k := w.Kernels(); k != nil {
		e.closers.add(k)
	}
	lane, err := w.Lane(w.memory(e, q), noncontig.Remote{Addr: peer.Addr, RKey: peer.RKey, QPN: peer.QPN})
	if err != nil || w.planted == 0 {
		return lane, err
	}
	lane.Ring = slices.Clone(lane.Ring) // the workload keeps its own
	for k := range lane.Ring {
		steps := slices.Clone(lane.Ring[k].Steps)
		steps[0].Pack = delayed(w.planted, steps[0].Pack)
		lane.Ring[k].Steps = steps
	}
	return lane, nil
}

// delayed is work that begins with a wait.
func delayed(by time.Duration, work job.Work) job.Work {
	return job.Work{Arg: work.Arg, Go: func(arg unsafe.Pointer) {
		for start := time.Now(); time.Since(start) < by; {
		}
		if work.Go != nil {
			work.Go(arg)
		}
	}}
}

func (w *layouts) arm(e *Endpoint, _ int, seed uint64) error {
	w.Arm(w.memory(e, 0), seed)
	return nil
}

func (w *layouts) check(e *Endpoint, _ int, seed uint64, moved []movement) (uint64, error) {
	return w.Check(w.memory(e, 0), seed, moved[0].sent, moved[0].received)
}
