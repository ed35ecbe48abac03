//go:build linux && !race

package serve

import (
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
)

// TestJudgingMemoryIsBounded: a process that judges has so much memory, and the client reads that. The race detector takes memory
// of its own, and ends a process that gets none before Go can say why.
func TestJudgingMemoryIsBounded(t *testing.T) {
	t.Setenv("JUDGING", "fills its memory")
	err := followed(t, t.Context(), order{Timeouts: control.Timeouts{Hello: time.Hour}}, never)
	if err == nil || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("%v, want out of memory", err)
	}
}
