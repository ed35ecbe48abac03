package bench

import (
	"slices"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// TestMergeWithPerftest has both directions of an unreliable test: perftest tells what it sent and not what it
// received, so that the sum stays what was sent.
func TestMergeWithPerftest(t *testing.T) {
	one := report.Record{
		Messages: 100, Bytes: 125_000, Seconds: 0.001, Bandwidth: report.Bandwidth{AverageBitsPerS: 1e9}, MessagesPerS: 1e5,
	}
	for _, transport := range []verbs.Transport{verbs.UC, verbs.UD} {
		spec := plan.Spec{Operation: plan.Send, Kind: plan.Bandwidth, Transport: transport, Bidirectional: true}
		r := &run{plan: settled(t, spec, true, plan.Peer{Perftest: true}), spec: spec}
		got := r.merge(one, one, arrival{Received: 100}, arrival{})
		if got.Bandwidth.AverageBitsPerS != 2e9 || got.MessagesPerS != 2e5 || got.Delivered != nil {
			t.Errorf("%v: %g bit/s, %g messages/s, delivered %v; want the sum of both ends", transport,
				got.Bandwidth.AverageBitsPerS, got.MessagesPerS, got.Delivered)
		}
		r.plan = settled(t, spec, true, plan.Peer{})
		if got = r.merge(one, one, arrival{Sent: 100, Received: 100},
			arrival{Sent: 100, Received: 50}); got.Delivered == nil || *got.Delivered != 0.75 {
			t.Errorf("%v, with gobw there: delivered %v, want 0.75", transport, got.Delivered)
		}
	}
}

// TestMergeBothDirections has ends that need not overlap, and of which each loses something else: the rates follow from
// what arrived and the seconds, and each end has its own share.
func TestMergeBothDirections(t *testing.T) {
	spec := plan.Spec{Operation: plan.Send, Kind: plan.Bandwidth, Transport: verbs.UD, Bidirectional: true}
	r := &run{plan: settled(t, spec, true, plan.Peer{}), spec: spec}
	end := func(seconds float64, series ...float64) report.Record {
		return report.Record{
			Messages: 1000, Iterations: 1000, Bytes: 1_000_000, Seconds: seconds, MessagesPerS: 1000 / seconds,
			Bandwidth: report.Bandwidth{AverageBitsPerS: 8e6 / seconds},
			Series:    &report.Series{IntervalS: 0.01, Bytes: series, Messages: series},
		}
	}
	got := r.merge(end(0.04, 1, 2, 3), end(0.1, 4, 5, 6, 7), arrival{Sent: 1000, Received: 400},
		arrival{Sent: 1000, Received: 800})
	if got.Messages != 1200 || got.Bytes != 1_200_000 || got.Iterations != 2000 || got.Seconds != 0.1 ||
		*got.Delivered != 0.6 {
		t.Errorf("got %d messages, %d bytes in %v s, delivered %v; want 1200 of 2000", got.Messages, got.Bytes, got.Seconds,
			*got.Delivered)
	}
	if got.MessagesPerS != 12000 || got.Bandwidth.AverageBitsPerS != 96e6 {
		t.Errorf("got %v messages/s and %v bit/s, want 1200 messages in 0.1 s", got.MessagesPerS,
			got.Bandwidth.AverageBitsPerS)
	}
	if got.Local.AverageBitsPerS != 0.8*8e6/0.04 || got.Remote.AverageBitsPerS != 0.4*8e6/0.1 {
		t.Errorf("got %v and %v bit/s: what arrived of what each end sent", got.Local.AverageBitsPerS,
			got.Remote.AverageBitsPerS)
	}
	if want := []float64{5, 7, 16}; !slices.Equal(got.Series.Bytes, want) {
		t.Errorf("got a series %v, want that of both directions, %v", got.Series.Bytes, want)
	}
}

// TestMergeOfWhatArrived: the figures of an unreliable test are those of the receiver, also where it saw too little for
// some.
func TestMergeOfWhatArrived(t *testing.T) {
	spec := plan.Spec{Operation: plan.Send, Kind: plan.Bandwidth, Transport: verbs.UD}
	r := &run{plan: settled(t, spec, true, plan.Peer{}), spec: spec}
	sent := report.Record{
		Messages: 1000, Bytes: 1_000_000, Seconds: 0.1,
		Bandwidth: report.Bandwidth{AverageBitsPerS: 80e6, PeakBitsPerS: 90e6},
		Series:    &report.Series{IntervalS: 0.01, Bytes: []float64{1e5, 1e5}, Messages: []float64{100, 100}},
	}
	got := r.merge(sent, report.Record{Messages: 3, Bytes: 3000, Seconds: 0.1}, arrival{Sent: 1000}, arrival{Received: 3})
	if got.Series != nil || got.Bandwidth != (report.Bandwidth{AverageBitsPerS: 240e3}) || *got.Delivered != 0.003 {
		t.Errorf("got %+v with the series %+v, want what arrived", got.Bandwidth, got.Series)
	}
}

// TestMergeOfReversedEnds: whichever end sends, the peer that warnings speak of is the
// server, and runs are counted by the client.
func TestMergeOfReversedEnds(t *testing.T) {
	client, server := report.Record{Plan: report.Plan{}, Run: 5, Warnings: []string{"of the client"}}, report.Record{
		Run: 1, Warnings: []string{"of the server"},
	}
	for _, reversed := range []bool{false, true} {
		spec := plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, Reversed: reversed, Transport: verbs.RC}
		for _, dialled := range []bool{true, false} {
			r := &run{plan: settled(t, spec, dialled, plan.Peer{}), spec: spec}
			local, remote := client, server
			if !dialled {
				local, remote = server, client
			}
			got := r.merge(local, remote, arrival{}, arrival{})
			if want := []string{"of the client", "peer: of the server"}; !slices.Equal(got.Warnings, want) || got.Run != 5 {
				t.Errorf("reversed %t, dialled %t: run %d, %q", reversed, dialled, got.Run, got.Warnings)
			}
		}
	}
}

// TestStallAllowsForPauses: what a test is told to wait between messages is no stall.
func TestStallAllowsForPauses(t *testing.T) {
	for _, spec := range []plan.Spec{
		{Operation: plan.Send, Kind: plan.Latency, Gap: 12 * time.Second},
		{Operation: plan.Write, Kind: plan.Bandwidth, Sizes: []int{64 << 10}, RateBits: 10e3},
	} {
		r := &run{plan: settled(t, spec, true, plan.Peer{}), perNs: 1}
		r.spec = r.plan.Spec
		l := r.limit(plan.Round{Kind: plan.Measured}, 3)
		if least := job.Ticks(r.plan.PauseNs(r.plan.LargestSize())); l.Stall <= least {
			t.Errorf("%v: a pause of %v ns, and stalled after %v", spec.Operation, least, l.Stall)
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
