package bench

import (
	"context"
	"errors"
	"testing"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce"
)

// asked is a session that keeps what is proposed.
type asked struct {
	control.Session
	dialect control.Dialect
	spec    *plan.Spec
}

func (a *asked) Dialect() control.Dialect { return a.dialect }
func (a *asked) Dialled() bool            { return true }
func (a *asked) Fail(error)               {}
func (a *asked) Propose(_ context.Context, p *plan.Spec) (*plan.Spec, error) {
	a.spec = p
	return nil, errors.New("enough")
}

// TestQKeyIsDrawn: datagrams between two ends of ours have a key that nobody else knows; perftest has its own.
func TestQKeyIsDrawn(t *testing.T) {
	d, err := roce.New(roce.Options{}).Open(roce.DeviceName)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	key := func(dialect control.Dialect, spec plan.Spec) uint32 {
		a := &asked{dialect: dialect}
		if _, err := Run(t.Context(), a, &spec, d, Options{}); a.spec == nil {
			t.Fatalf("nothing was proposed: %v", err)
		}
		return a.spec.QKey
	}
	spec := plan.Spec{Operation: plan.Send, Kind: plan.Bandwidth, Transport: verbs.UD, Sizes: []int{64}, Iterations: 10}
	seen := map[uint32]bool{}
	for range 8 {
		k := key(control.Ours, spec)
		if k == 0 || k>>31 != 0 {
			t.Errorf("key %#x", k)
		}
		seen[k] = true
	}
	if len(seen) < 8 {
		t.Errorf("eight tests had %d keys", len(seen))
	}
	if k := key(control.Perftest, spec); k != 0x11111111 {
		t.Errorf("towards perftest: %#x", k)
	}
	if spec.QKey = 7; key(control.Ours, spec) != 7 {
		t.Error("the key asked for was not taken")
	}
}
