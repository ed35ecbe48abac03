package bench

import (
	"testing"

	"github.com/gobw/gobw/verbs/job"
)

// TestLull holds that a late look alone ends no wait, that packets and messages begin it anew, and that it ends somewhere.
func TestLull(t *testing.T) {
	type look struct {
		now, lastChange int64
		packets         uint64
		want            bool
	}
	for name, looks := range map[string][]look{
		"quiet":    {{10, 5, 7, false}, {20, 5, 7, false}, {30, 5, 7, false}, {31, 5, 7, true}},
		"too soon": {{10, 5, 7, false}, {11, 5, 7, false}, {12, 5, 7, false}, {13, 5, 7, false}},
		"late":     {{10, 5, 7, false}, {100, 5, 7, false}, {101, 5, 7, false}, {102, 5, 7, true}},
		"packets":  {{10, 5, 7, false}, {20, 5, 8, false}, {41, 5, 9, false}, {62, 5, 9, false}, {63, 5, 9, false}, {64, 5, 9, true}},
		"messages": {{10, 5, 0, false}, {20, 15, 0, false}, {21, 15, 0, false}, {22, 15, 0, false}, {41, 15, 0, true}},
		"for ever": {{10, 5, 1, false}, {500, 5, 2, false}, {1009, 5, 3, false}, {1011, 5, 4, true}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &lull{}
			for i, k := range looks {
				if got := l.lasts(job.Ticks(k.now), job.Ticks(k.lastChange), 20, 1000, k.packets); got != k.want {
					t.Fatalf("look %d: got %v, want %v", i, got, k.want)
				}
			}
		})
	}
}
