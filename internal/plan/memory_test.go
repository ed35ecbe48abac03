package plan

import (
	"math"
	"testing"
)

// TestMemorySticks: what does not fit a number is over every limit, and never small again.
func TestMemorySticks(t *testing.T) {
	const most = math.MaxUint64
	for name, got := range map[string]uint64{
		"sum": sum(most-1, 1, 1), "product": product(1<<33, 1<<32), "align": align(most-1, 4096),
		"total": Memory{Buffers: most, Requests: 1}.Total(),
	} {
		if got != most {
			t.Errorf("%s: %d", name, got)
		}
	}
}
