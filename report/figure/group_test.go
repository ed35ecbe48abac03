package figure

import (
	"strings"
	"testing"

	"github.com/gobw/gobw/report"
)

// A table of medians has the medians of the extremes, too: the greatest sample of all runs stands beside no other
// figure of its run. The samples are those of all runs.
func TestToldOverRuns(t *testing.T) {
	var r Row
	for _, ns := range [][]float64{{1, 5, 9}, {2, 5, 30}, {3, 4, 8}} {
		r.Runs = append(r.Runs,
			&report.Record{Latency: &report.Latency{Samples: 3, MinNs: ns[0], P50Ns: ns[1], MaxNs: ns[2]}})
	}
	for name, want := range map[string]float64{"min": 2e-9, "p50": 5e-9, "max": 9e-9, "samples": 9} {
		if got, has := r.Told(Of(name)); got != want || !has {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// A limit of 1 kb/s is written as one types it.
func TestInUnit(t *testing.T) {
	bw, _ := Named("bw")
	for v, want := range map[float64]string{1e3: "1.00 kb/s", 5e5: "500.0 kb/s", 0: "0 b/s", 36.26e9: "36.26 Gb/s"} {
		if got := bw.InUnit(v); got != want {
			t.Errorf("%v bit/s: got %q, want %q", v, got, want)
		}
	}
}

// What was not measured is missing and not nothing; what was counted may be nothing.
func TestMissingIsNotZero(t *testing.T) {
	bw, _ := Named("bw")
	rate, _ := Named("msgrate")
	unknown := &report.Record{Plan: report.Plan{Operation: "write", Kind: "bandwidth", Transport: "UC"}}
	for _, f := range []Figure{bw, rate} {
		if v, missing := f.Get(unknown); !strings.Contains(missing, "--verify=all") {
			t.Errorf("%s is %g: %s", f.Name, v, missing)
		}
		none := 0.0
		if v, missing := f.Get(&report.Record{Plan: unknown.Plan, Delivered: &none}); missing != "" || v != 0 {
			t.Errorf("%s of what was all lost: %g, %s", f.Name, v, missing)
		}
	}
}

// A test of calls has a rate, though it is one of latency.
func TestRateOfCalls(t *testing.T) {
	r := &report.Record{Plan: report.Plan{Operation: "connect", Kind: "latency"}, MessagesPerS: 700}
	if v, missing := Of("msgrate").Get(r); v != 700 || missing != "" {
		t.Errorf("got %g, %q", v, missing)
	}
}

// How often a completion comes is said by the rule for sizes, in whatever order, and not by the sizes that were
// measured.
func TestSignaled(t *testing.T) {
	for want, rows := range map[string][]Row{
		"message":      {{Size: 64, CQMod: 1}, {Size: 65536}},
		"100 messages": {{Size: 64, CQMod: 100}, {Size: 65536, CQMod: 100}},
		"100 messages (above 8 KiB: every message)": {{Size: 65536, CQMod: 1}, {Size: 64, CQMod: 100}},
		"1 to 100 messages":                         {{Size: 64, CQMod: 100}, {Size: 512, CQMod: 1}},
	} {
		if got := (Group{Rows: rows}).Signaled(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
