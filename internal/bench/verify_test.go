package bench

import (
	"testing"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// TestFlushed compares every message of WRITEs that a READ flushes, at sizes of one byte, one packet and several.
func TestFlushed(t *testing.T) {
	p := newPair(t, func(d verbs.Device) verbs.Device { return d })
	for name, s := range map[string]plan.Spec{
		"bandwidth":       {Kind: plan.Bandwidth, Verify: plan.VerifyAll, QPs: 2},
		"both directions": {Kind: plan.Bandwidth, Verify: plan.VerifyAll, Bidirectional: true},
		"reversed":        {Kind: plan.Bandwidth, Verify: plan.VerifyAll, Reversed: true, PostList: 4, CQMod: 7},
		"one at a time":   {Kind: plan.Bandwidth, Verify: plan.VerifyAll, Outstanding: 1},
		"latency":         {Kind: plan.Latency, Verify: plan.VerifyEnds},
		"events":          {Kind: plan.Latency, Verify: plan.VerifyEnds, Events: true},
	} {
		t.Run(name, func(t *testing.T) {
			s.Operation, s.Sizes, s.Iterations = plan.Flush, []int{1, 1000, 20000}, 200
			if testing.Short() {
				s.Iterations = 60
			}
			res, err := p.run(t, s)
			if err != nil {
				t.Fatal(err)
			}
			if len(res.Records) != len(s.Sizes) {
				t.Fatalf("%d records, want %d", len(res.Records), len(s.Sizes))
			}
			for _, r := range res.Records {
				if r.Operation != "flush" || r.RoundTripHalf || r.Outstanding == 0 {
					t.Errorf("%d B: operation %q, half of a round trip %v, %d outstanding", r.SizeBytes, r.Operation, r.RoundTripHalf,
						r.Outstanding)
				}
			}
		})
	}
}
