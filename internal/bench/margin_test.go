package bench

import (
	"net/netip"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/internal/testrun/meeting"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce"
	"github.com/gobw/gobw/verbs/roce/netem"
)

// withMargins is a test of 0.6 s of which the third in the middle is measured, on a network of one's own.
func withMargins(t *testing.T, network string, p plan.Spec) *report.Record {
	t.Helper()
	emulated, err := netem.Parse(network)
	if err != nil {
		t.Fatal(err)
	}
	open := func(at netip.Addr) (verbs.Device, error) {
		return roce.New(roce.Options{Address: at, Network: emulated}).Open(roce.DeviceName)
	}
	p.Duration, p.Margin, p.Sizes = 600*time.Millisecond, 200*time.Millisecond, []int{64}
	m := &meeting.Manager{}
	server, client := m.Open(t, open), m.Open(t, open)
	results, err := runBoth(t, server, client, p, control.Ours)
	if err != nil {
		t.Fatal(err)
	}
	return &results[1].Records[0]
}

// Of what a network loses the margins change nothing.
func TestMarginsCountNoLossAsDelivered(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it measures for a second")
	}
	for name, p := range map[string]plan.Spec{
		"one direction":   {},
		"both directions": {Bidirectional: true},
	} {
		t.Run(name, func(t *testing.T) {
			// so slow that none is lost at a receiver
			p.Operation, p.Kind, p.Transport, p.RateBits = plan.Send, plan.Bandwidth, verbs.UD, 5e6
			r := withMargins(t, "loss=40%,seed=1", p)
			if r.Delivered == nil || *r.Delivered < 0.3 || *r.Delivered > 0.8 {
				t.Errorf("delivered %v of what loses 40 %%", *r.Delivered)
			}
		})
	}
}

// The samples, and the time that the processor spent, are of the measured third alone.
func TestMarginsReachSamplesAndTicks(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it measures for a second")
	}
	r := withMargins(t, "delay=50us", plan.Spec{Operation: plan.Send, Kind: plan.Latency, Transport: verbs.RC})
	if l := r.Latency; l == nil || l.Samples == 0 || l.Samples != r.Messages {
		t.Errorf("%+v are the samples of %d messages", l, r.Messages)
	}
	r = withMargins(t, "delay=1us", plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, Transport: verbs.RC, CPU: true})
	if spent := r.CPU.PostNsPerMessage * float64(r.Messages) / 1e9; spent > r.Seconds {
		t.Errorf("%.3f s were spent posting in %.3f s", spent, r.Seconds)
	}
	if l := r.Latency; l == nil || l.Samples == 0 || l.Samples > r.Messages {
		t.Errorf("%+v are the samples of %d messages", l, r.Messages)
	}
}
