//go:build linux && !race

package serve

import "testing"

// TestJudgingMemoryIsBounded: a process that judges has so much memory, and the client reads that. The race detector takes memory
// of its own, and ends a process that gets none before Go can say why.
func TestJudgingMemoryIsBounded(t *testing.T) { testBound(t, "fills its memory", "out of memory") }
