package endpoint

import (
	"testing"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// TestAddressVectors has queue pairs take the flow labels of a list in turn.
func TestAddressVectors(t *testing.T) {
	spec := plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, QPs: 5, FlowLabels: []uint32{7, 0, 9}}
	p, err := plan.Settle(spec, plan.Limits{}, plan.Peer{}, plan.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	e, rail := Endpoint{plan: p, spec: p.Spec}, &Rail{UseGID: true, GID: gid(3, "2001:db8::1", verbs.GIDRoCEv2)}
	for q, want := range []uint32{7, 0, 9, 7, 0} {
		av := e.addressVector(&pair{number: q, rail: rail, peer: control.Address{HasGID: true, LID: 17}})
		if av.FlowLabel != want || av.SGIDIndex != 3 || av.DLID != 17 {
			t.Errorf("queue pair %d: %+v, want flow label %d", q, av, want)
		}
	}
}
