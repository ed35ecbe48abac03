package figure

import (
	"strings"
	"testing"

	"github.com/gobw/gobw/report"
)

// A latency figure is one field with its tag: its names, and from how many samples on it is given.
func TestLatencyFigures(t *testing.T) {
	for _, tt := range []struct {
		name, alias string
		samples     uint64 // the fewest
	}{
		{"min", "min", 1},
		{"p50", "median", 1},
		{"p90", "p90", 100},
		{"p99", "p99", 1_000},
		{"p99.9", "p999", 10_000},
		{"p99.99", "p9999", 100_000},
		{"stdev", "stdev", 1},
	} {
		f, known := Named(tt.alias)
		if !known || f.Name != tt.name || f.Unit != "us" {
			t.Errorf("%s is %q in %q (%v), want %s", tt.alias, f.Name, f.Unit, known, tt.name)
			continue
		}
		has := func(n uint64) (bool, string) {
			l := report.NewLatency(report.Samples{
				Counts: []int64{0, 0, int64(n)}, N: n, Min: 2, Max: 2, Sum: 2 * float64(n), Scale: 1,
			})
			r := report.Record{Latency: &l}
			_, missing := f.Get(&r)
			return missing == "", missing
		}
		if ok, _ := has(tt.samples); !ok {
			t.Errorf("%s is missing of %d samples", tt.name, tt.samples)
		}
		if ok, why := has(tt.samples - 1); tt.samples > 1 && (ok || !strings.Contains(why, "needed")) {
			t.Errorf("%s of %d samples: %v, %q", tt.name, tt.samples-1, ok, why)
		}
	}
}
