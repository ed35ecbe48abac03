package testrun

import (
	"runtime"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/cputime"
)

// Within holds a test to what reading a stranger's text may cost. It fails where f takes longer, or allocates more in
// all, than it may. A busy machine makes anything slow: the best of five tries counts.
func Within(tb testing.TB, most time.Duration, bytes uint64, f func()) {
	tb.Helper()
	var took time.Duration
	var grew uint64
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := cputime.Process()
		f()
		took = cputime.Process() - began
		runtime.ReadMemStats(&after)
		if grew = after.TotalAlloc - before.TotalAlloc; took <= most && grew <= bytes {
			return
		}
	}
	tb.Errorf("it took %v of CPU time and %d KiB, more than %v and %d KiB", took.Round(time.Microsecond), grew>>10,
		most, bytes>>10)
}
