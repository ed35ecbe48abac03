package bench

import (
	"time"

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
		return newLayouts(p, planted)
	}
	return &contiguous{plan: p, spec: p.Spec()}
}
