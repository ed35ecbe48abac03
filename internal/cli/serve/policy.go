package serve

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
)

// admit refuses a plan that no test is, or that this end does not grant. The device is not asked: it is opened later.
func admit(p plan.Policy) func(*plan.Spec) error {
	return func(proposed *plan.Spec) error {
		_, err := plan.Settle(*proposed, plan.Limits{}, plan.Peer{}, p)
		return err
	}
}

// turn is a client's time at this end: it has others give way while it gets on.
type turn struct {
	began  time.Time
	most   time.Duration // that it may begin tests for while others wait
	others atomic.Bool   // they do
}

// stepTime is how long a client that lives may take for a step while others wait. It may have as much memory to register as this end,
// which takes the more the more there is.
func stepTime(bytes uint64) time.Duration {
	return 5*time.Second + time.Duration(bytes>>20)*time.Millisecond
}

// guard keeps the slot from a client that does nothing with it.
type guard struct {
	control.Session
	planned func(*plan.Spec)
	turn    *turn // nil: nobody waits
	agreed  *plan.Spec
	step    time.Duration
}

// await bounds a wait for the client: after that time it ends as soon as another client waits.
func (g *guard) await(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	if g.turn == nil || most <= 0 || g.Dialect() != control.Ours {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var timer *time.Timer
	timer = time.AfterFunc(math.MaxInt64, func() {
		if g.turn.others.Load() {
			cancel(fmt.Errorf("others wait, and the client has not gone on for %v", most.Round(time.Second)))
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

// Propose notes what the test is. While others wait, a client may begin tests only for as long as one may take.
func (g *guard) Propose(ctx context.Context, p *plan.Spec) (*plan.Spec, error) {
	ctx, cancel := g.await(ctx, stepTime(0))
	defer cancel()
	agreed, err := g.Session.Propose(ctx, p)
	g.agreed = agreed
	if err != nil || agreed == nil {
		return agreed, err
	}
	g.planned(agreed)
	if t := g.turn; t != nil && t.most > 0 && t.others.Load() && time.Since(t.began) > t.most {
		return nil, fmt.Errorf("others wait, and this client has been served for %v: --max-duration grants %v", time.Since(t.began).Round(time.Second), t.most)
	}
	g.step = stepTime(0)
	if settled, err := plan.Settle(*agreed, plan.Limits{}, plan.Peer{}, plan.Policy{}); err == nil { // else the test says why
		g.step = stepTime(settled.Memory().Total())
	}
	return agreed, nil
}

// Facts waits for as long as a step may take.
func (g *guard) Facts(ctx context.Context, local control.Facts) (control.Facts, error) {
	ctx, cancel := g.await(ctx, g.step)
	defer cancel()
	return g.Session.Facts(ctx, local)
}

// Sync waits for as long as a step may take. What is measured takes its time; where messages are counted nobody knows which.
func (g *guard) Sync(ctx context.Context, phase control.Phase, size int, last bool) error {
	most := g.step
	if phase == control.PhaseDone {
		if most = 0; g.agreed.Duration > 0 {
			most = g.agreed.Duration + g.step
		}
	}
	ctx, cancel := g.await(ctx, most)
	defer cancel()
	return g.Session.Sync(ctx, phase, size, last)
}

// Report waits for as long as a step may take.
func (g *guard) Report(ctx context.Context, local control.Figures) (control.Figures, error) {
	ctx, cancel := g.await(ctx, g.step)
	defer cancel()
	return g.Session.Report(ctx, local)
}

// Exchange waits for as long as a step may take.
func (g *guard) Exchange(ctx context.Context, local []control.Address) ([]control.Address, error) {
	ctx, cancel := g.await(ctx, g.step)
	defer cancel()
	return g.Session.Exchange(ctx, local)
}
