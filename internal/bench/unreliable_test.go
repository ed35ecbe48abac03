package bench

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/internal/testrun/meeting"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce"
	"github.com/gobw/gobw/verbs/roce/netem"
)

// TestUnreliableWritesAreAwaited: the initiator of UC WRITEs is done when they have left, and says so at once. Where they
// are still on their way then, the end that is written to waits for them: none counts as lost, and none lands in the next
// part of the test.
func TestUnreliableWritesAreAwaited(t *testing.T) {
	slow, err := netem.Parse("delay=3ms")
	if err != nil {
		t.Fatal(err)
	}
	open := func(at netip.Addr) (verbs.Device, error) {
		return roce.New(roce.Options{Address: at, Network: slow}).Open(roce.DeviceName)
	}
	for name, p := range map[string]plan.Spec{
		"all":           {Verify: plan.VerifyAll, Iterations: 40, TxDepth: 8},
		"ends":          {Verify: plan.VerifyEnds, Iterations: 40},
		"bidirectional": {Verify: plan.VerifyAll, Iterations: 40, TxDepth: 8, Bidirectional: true},
		"reversed":      {Verify: plan.VerifyAll, Iterations: 40, TxDepth: 8, Reversed: true},
	} {
		t.Run(name, func(t *testing.T) {
			p.Operation, p.Kind, p.Transport, p.Sizes = plan.Write, plan.Bandwidth, verbs.UC, []int{8192}
			m := &meeting.Manager{}
			server, client := m.Open(t, open), m.Open(t, open)
			results, err := runBoth(t, server, client, p, control.Ours)
			if err != nil {
				t.Fatal(err)
			}
			r := results[1].Records[0]
			if p.Verify == plan.VerifyAll && (r.Delivered == nil || *r.Delivered != 1) {
				share := "nil"
				if r.Delivered != nil {
					share = fmt.Sprint(*r.Delivered)
				}
				t.Errorf("delivered %s of what nobody lost, want 1", share)
			}
		})
	}
}
