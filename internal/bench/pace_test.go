package bench

import (
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/internal/testrun/meeting"
)

// TestGapIsTheInitiators: the end that answers does so at once, so that a gap is in no sample.
func TestGapIsTheInitiators(t *testing.T) {
	const gap = 40 * time.Millisecond
	for _, op := range []plan.Operation{plan.Send, plan.Write} { // of which the other end moves first
		t.Run(string(op), func(t *testing.T) {
			m := &meeting.Manager{}
			server, client := m.Open(t, openOurs), m.Open(t, openOurs)
			results, err := runBoth(t, server, client, plan.Spec{
				Operation: op, Kind: plan.Latency, Sizes: []int{64}, Iterations: 11, Gap: gap,
			}, control.Ours)
			if err != nil {
				t.Fatal(err)
			}
			if p50 := results[1].Records[0].Latency.P50Ns; p50 >= float64(gap)/4 {
				t.Errorf("half a round trip of %.0f us, with a gap of %v", p50/1e3, gap)
			}
		})
	}
}
