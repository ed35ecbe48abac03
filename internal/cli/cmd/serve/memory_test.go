//go:build linux && !race

package serve

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
)

// TestJudgingMemoryIsBounded: a process that judges has so much memory, and the client reads that. The race detector
// takes memory of its own, and ends a process that gets none before Go can say why.
func TestJudgingMemoryIsBounded(t *testing.T) {
	t.Setenv("JUDGING", "fills its memory")
	_, err := follow(t, t.Context(), order{Timeouts: control.Timeouts{Hello: time.Hour}}, &testDoor{others: never}, nil)
	if err == nil || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("%v, want out of memory", err)
	}
}

// TestMemoryLimit: a test has no more memory than this process's own limit allows, which only root can raise.
func TestMemoryLimit(t *testing.T) {
	const gib, none = 1 << 30, math.MaxUint64
	for _, tt := range []struct{ bytes, present, cur, max uint64 }{
		{4 * gib, none, judgeBytes, 6 * gib},
		{0, none, judgeBytes, none},
		{4 * gib, 3 * gib, judgeBytes, 3 * gib},
		{0, 3 * gib, judgeBytes, 3 * gib},
		{4 * gib, 256 << 20, 256 << 20, 256 << 20},
	} {
		if got := memoryLimit(tt.bytes, tt.present); got.Cur != tt.cur || got.Max != tt.max {
			t.Errorf("granted %d where the limit is %d: %+v", tt.bytes, tt.present, got)
		}
	}
}
