package bench

import (
	"testing"

	"github.com/gobw/gobw/internal/bench/payload"
	"github.com/gobw/gobw/internal/plan"
)

// TestSeedsDiffer: what a round has left in memory is no other round's data, of however many sizes and runs.
func TestSeedsDiffer(t *testing.T) {
	r, seen := &run{}, map[uint64]plan.Round{}
	for size := range 40 {
		for n := 1; n <= 600; n++ {
			rd := plan.Round{Size: size, Run: n, Kind: plan.Measured}
			for part := range uint64(2) {
				s := payload.Seed(r.seed(rd, part), 0, true)
				if other, is := seen[s]; is {
					t.Fatalf("%+v and %+v have the same seed", other, rd)
				}
				seen[s] = rd
			}
		}
	}
}
