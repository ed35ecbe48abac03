package serve

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// admit refuses a plan that no test is, or that this end does not grant. The device is not asked: it is opened later.
func admit(p plan.Policy) func(*plan.Spec) error {
	return func(proposed *plan.Spec) error {
		_, err := plan.Settle(*proposed, plan.Limits{}, plan.Peer{}, p)
		return err
	}
}

// guard keeps the traffic of a test from whom it is not for.
type guard struct {
	control.Session
	bound     bool           // the device's address is that of the control connection, so the client's is too
	dataAllow []netip.Prefix // where else traffic may go
	planned   func(*plan.Spec)
	agreed    *plan.Spec
}

// Propose notes what the test is.
func (g *guard) Propose(ctx context.Context, p *plan.Spec) (*plan.Spec, error) {
	agreed, err := g.Session.Propose(ctx, p)
	g.agreed = agreed
	if err == nil && agreed != nil {
		g.planned(agreed)
	}
	return agreed, err
}

// Exchange refuses addresses to which this end does not send.
func (g *guard) Exchange(ctx context.Context, local []control.Address) ([]control.Address, error) {
	remote, err := g.Session.Exchange(ctx, local)
	if err != nil {
		return nil, err
	}
	for _, a := range remote {
		if !a.HasGID && a.GID.IsZero() {
			continue // a LID: the subnet manager's partition bounds it
		}
		if err := g.check(a.GID.Addr()); err != nil {
			return nil, err
		}
	}
	return remote, nil
}

// check is about one address. The client's own has shown that it is there: it holds a TCP connection. Of others a hardware
// device sends a reliable connection's first packets and no more until they are acknowledged; what nobody acknowledges goes
// only where the operator allows it.
func (g *guard) check(a netip.Addr) error {
	if err := (plan.Policy{}).CheckAddress(a); err != nil {
		return err
	}
	own := g.RemoteAddr().Addr().WithZone("")
	if a == own || own.IsLoopback() { // a client on this host sends whatever it likes without our help
		return nil
	}
	for _, p := range g.dataAllow {
		if p.Contains(a) {
			return nil
		}
	}
	unasked := g.agreed != nil && (g.agreed.Reversed || g.agreed.Bidirectional) && g.agreed.Transport != verbs.RC
	if !g.bound && !a.IsLoopback() && !unasked {
		return nil
	}
	return fmt.Errorf("the client at %v wants traffic to %v, which need not be its own: choose another GID (-x), or start serve with --data-allow %v", own, a, a)
}
