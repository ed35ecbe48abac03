package bench

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
)

// TestRoundsWithPerftest has the warm-up of a plan whose other end is a perftest, which must not notice it.
func TestRoundsWithPerftest(t *testing.T) {
	alone, once := round{kind: warmup, count: 32, alone: true}, round{run: 1}
	for _, tt := range []struct {
		name string
		plan control.Plan
		role Role
		want []round
	}{
		{"none asked for", control.Plan{Operation: control.Write, Kind: control.Bandwidth}, Initiator, []round{once}},
		{"write", control.Plan{Operation: control.Write, Kind: control.Bandwidth, Warmup: 32}, Initiator, []round{alone, once}},
		{"the end that is written to", control.Plan{Operation: control.Write, Kind: control.Bandwidth, Warmup: 32}, Target, []round{once}},
		{"both directions", control.Plan{Operation: control.Read, Kind: control.Bandwidth, Warmup: 32, Bidirectional: true}, Target, []round{alone, once}},
		{"send takes the peer's receives", control.Plan{Operation: control.Send, Kind: control.Bandwidth, Warmup: 32}, Initiator, []round{once}},
		{"latency", control.Plan{Operation: control.Read, Kind: control.Latency, Warmup: 32}, Initiator, []round{once}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.plan.Sizes, tt.plan.Transport = []int{64}, verbs.RC
			r := &run{plan: tt.plan, role: tt.role}
			if diff := cmp.Diff(r.rounds(), tt.want, cmp.AllowUnexported(round{})); diff != "" {
				t.Errorf("rounds (-got +want):\n%s", diff)
			}
		})
	}
}

// TestMergeWithPerftest has both directions of an unreliable test: perftest tells what it sent and not what it received,
// so that the sum stays what was sent.
func TestMergeWithPerftest(t *testing.T) {
	one := report.Record{Messages: 100, Bandwidth: report.Bandwidth{AverageBitsPerS: 1e9}, MessagesPerS: 1e5}
	for _, transport := range []verbs.Transport{verbs.UC, verbs.UD} {
		r := &run{plan: control.Plan{Operation: control.Send, Kind: control.Bandwidth, Transport: transport, Bidirectional: true}}
		got := r.merge(one, one, 100, 0)
		if got.Bandwidth.AverageBitsPerS != 2e9 || got.MessagesPerS != 2e5 || got.Delivered != nil {
			t.Errorf("%v: %g bit/s, %g messages/s, delivered %v; want the sum of both ends", transport, got.Bandwidth.AverageBitsPerS, got.MessagesPerS, got.Delivered)
		}
		r.ours = true
		if got = r.merge(one, one, 100, 50); got.Delivered == nil || *got.Delivered != 0.75 {
			t.Errorf("%v, with gobw there: delivered %v, want 0.75", transport, got.Delivered)
		}
	}
}
