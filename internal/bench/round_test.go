package bench

import (
	"testing"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
)

// TestMergeWithPerftest has both directions of an unreliable test: perftest tells what it sent and not what it received,
// so that the sum stays what was sent.
func TestMergeWithPerftest(t *testing.T) {
	one := report.Record{Messages: 100, Bandwidth: report.Bandwidth{AverageBitsPerS: 1e9}, MessagesPerS: 1e5}
	for _, transport := range []verbs.Transport{verbs.UC, verbs.UD} {
		spec := plan.Spec{Operation: plan.Send, Kind: plan.Bandwidth, Transport: transport, Bidirectional: true}
		r := &run{plan: settled(t, spec, true, plan.Peer{Perftest: true}), spec: spec}
		got := r.merge(one, one, arrival{Received: 100}, arrival{})
		if got.Bandwidth.AverageBitsPerS != 2e9 || got.MessagesPerS != 2e5 || got.Delivered != nil {
			t.Errorf("%v: %g bit/s, %g messages/s, delivered %v; want the sum of both ends", transport, got.Bandwidth.AverageBitsPerS, got.MessagesPerS, got.Delivered)
		}
		r.plan = settled(t, spec, true, plan.Peer{})
		if got = r.merge(one, one, arrival{Sent: 100, Received: 100}, arrival{Sent: 100, Received: 50}); got.Delivered == nil || *got.Delivered != 0.75 {
			t.Errorf("%v, with gobw there: delivered %v, want 0.75", transport, got.Delivered)
		}
	}
}

// settled is a test of the software device, at the client or the server.
func settled(t *testing.T, spec plan.Spec, dialled bool, peer plan.Peer) *plan.Settled {
	t.Helper()
	s, err := plan.Settle(spec, plan.Limits{Dialled: dialled}, peer, plan.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
