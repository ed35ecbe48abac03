package qualify

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestPlansThatCost: brackets within one line, and ten thousand tests of one name, are
// refused for little memory, time and text.
func TestPlansThatCost(t *testing.T) {
	for name, text := range map[string]string{
		"brackets":    "tests: " + strings.Repeat("[", 40_000) + strings.Repeat("]", 40_000),
		"braces":      "tests: " + strings.Repeat("{a: ", 40_000) + strings.Repeat("}", 40_000),
		"equal names": "tests:\n" + strings.Repeat("- name: a\n  run: gobw write\n", 10_000),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			_, err := parsePlan("plan.yaml", []byte(text), Options{})
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			switch all := after.TotalAlloc - before.TotalAlloc; {
			case err == nil:
				t.Error("taken for a plan")
			case len(err.Error()) > 10_000:
				t.Errorf("%d bytes of errors", len(err.Error()))
			case all > 600<<20:
				t.Errorf("%d MiB were allocated", all>>20)
			}
			t.Logf("%v, %d MiB in all", took, (after.TotalAlloc-before.TotalAlloc)>>20)
		})
	}
}
