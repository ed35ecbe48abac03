package serve

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/gobw/gobw/internal/plan"
)

// turn is a client's time at this end: it has others give way while it gets on.
type turn struct {
	policy plan.Policy
	tell   func(event)
	began  time.Time
	others atomic.Bool   // wait
	judged bool          // the first plan was, or is about to be
	step   time.Duration // that the client may take for a step while others wait
	runs   time.Duration // that its test takes; 0: it counts messages
}

// stepTime is how long a client that lives may take for a step while others wait. It may have as much memory to register as this end,
// which takes the more the more there is.
func stepTime(bytes uint64) time.Duration {
	return 5*time.Second + time.Duration(bytes>>20)*time.Millisecond
}

// judges begins to judge the first plan, in the memory that this takes.
func (t *turn) judges() {
	if !t.judged {
		t.judged = true
		t.tell(event{Judging: true})
		_ = boundMemory(judgeBytes)
	}
}

// admit refuses a plan that no test is, or that this end does not grant. While others wait, a client may begin tests only for as long as
// one may take.
func (t *turn) admit(p *plan.Spec) error {
	settled, err := plan.Settle(*p, plan.Limits{}, plan.Peer{}, t.policy)
	if err != nil {
		return err
	}
	if served, most := time.Since(t.began), t.policy.Duration; most > 0 && t.others.Load() && served > most {
		return fmt.Errorf("others wait, and this client has been served for %v: --max-duration grants %v", served.Round(time.Second), most)
	}
	t.step, t.runs = stepTime(settled.Memory().Total()), p.Duration
	t.tell(event{Planned: planText(*p)})
	return boundMemory(math.MaxUint64)
}

// await bounds a wait for the client's next step: after that time it ends as soon as another client waits. What is measured takes its
// time; where messages are counted nobody knows which.
func (t *turn) await(ctx context.Context, measuring bool) (context.Context, context.CancelFunc) {
	t.judges()
	most := max(t.step, stepTime(0))
	switch {
	case measuring && t.runs == 0:
		return ctx, func() {}
	case measuring:
		most += t.runs
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var timer *time.Timer
	timer = time.AfterFunc(math.MaxInt64, func() {
		if t.others.Load() {
			cancel(fmt.Errorf("others wait, and this client did nothing for %v", most.Round(time.Second)))
			return
		}
		timer.Reset(lookEvery)
	})
	timer.Reset(most) // now that there is one
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}
