package figure

import (
	"testing"

	"github.com/gobw/gobw/report"
)

// The extremes of several runs are extremes of their samples.
func TestExtremesOverRuns(t *testing.T) {
	var r Row
	for _, ns := range [][]float64{{1, 5, 9}, {2, 5, 30}, {3, 4, 8}} {
		l := report.LatencyFromNs(ns)
		r.Runs = append(r.Runs, &report.Record{Latency: &l})
	}
	if got := r.Latency(); got.MinNs != 1 || got.MaxNs != 30 || got.P50Ns != 5 || got.Samples != 9 {
		t.Errorf("min %v, median %v, max %v of %d; want 1, 5, 30 of 9", got.MinNs, got.P50Ns, got.MaxNs, got.Samples)
	}
}
