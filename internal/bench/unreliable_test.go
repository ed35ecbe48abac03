package bench

import (
	"fmt"
	"math"
	"net/netip"
	"testing"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/internal/testrun/meeting"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce"
	"github.com/gobw/gobw/verbs/roce/netem"
)

// TestUnreliableWritesAreAwaited: the initiator of UC WRITEs is done when they have left, and says so at once.
// Where they are still on their way then, the end that is written to waits for them: none counts as lost, and
// none lands in the next part of the test.
func TestUnreliableWritesAreAwaited(t *testing.T) {
	slow, err := netem.Parse("delay=3ms")
	if err != nil {
		t.Fatal(err)
	}
	open := func(at netip.Addr) (verbs.Device, error) {
		return roce.New(roce.Options{Address: at, Network: slow}).Open(roce.DeviceName)
	}
	for name, p := range map[string]plan.Spec{
		"all":           {Verify: plan.VerifyAll, Iterations: 40, TxDepth: 8},
		"ends":          {Verify: plan.VerifyEnds, Iterations: 40},
		"bidirectional": {Verify: plan.VerifyAll, Iterations: 40, TxDepth: 8, Bidirectional: true},
		"reversed":      {Verify: plan.VerifyAll, Iterations: 40, TxDepth: 8, Reversed: true},
	} {
		t.Run(name, func(t *testing.T) {
			p.Operation, p.Kind, p.Transport, p.Sizes = plan.Write, plan.Bandwidth, verbs.UC, []int{8192}
			m := &meeting.Manager{}
			server, client := m.Open(t, open), m.Open(t, open)
			results, err := runBothWith(t.Context(), server, client, p, control.Ours, Options{WhatLeft: true})
			if err != nil {
				t.Fatal(err)
			}
			r := results[1].Records[0]
			if p.Verify == plan.VerifyAll && (r.Delivered == nil || *r.Delivered != 1) {
				share := "nil"
				if r.Delivered != nil {
					share = fmt.Sprint(*r.Delivered)
				}
				t.Errorf("delivered %s of what nobody lost, want 1", share)
			}
		})
	}
}

// TestBothDirectionsAgree: of a test in both directions counts, seconds, rates and series tell
// the same, where a fifth is lost, too.
func TestBothDirectionsAgree(t *testing.T) {
	lossy, err := netem.Parse("loss=20%")
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]plan.Spec{
		"UD":         {Operation: plan.Send, Transport: verbs.UD, Sizes: []int{512}},
		"RC, SEND":   {Operation: plan.Send, Transport: verbs.RC, Sizes: []int{512}},
		"RC, WRITE":  {Operation: plan.Write, Transport: verbs.RC, Sizes: []int{4096}},
		"RC, READ":   {Operation: plan.Read, Transport: verbs.RC, Sizes: []int{4096}},
		"UC, verify": {Operation: plan.Write, Transport: verbs.UC, Sizes: []int{512}, Verify: plan.VerifyAll, TxDepth: 8},
	} {
		t.Run(name, func(t *testing.T) {
			p.Kind, p.Iterations, p.Bidirectional = plan.Bandwidth, 4000, true
			m := &meeting.Manager{}
			open := func(at netip.Addr) (verbs.Device, error) {
				options := roce.Options{Address: at}
				if p.Transport != verbs.RC {
					options.Network = lossy
				}
				return roce.New(options).Open(roce.DeviceName)
			}
			server, client := m.Open(t, open), m.Open(t, open)
			results, err := runBoth(t, server, client, p, control.Ours)
			if err != nil {
				t.Fatal(err)
			}
			r := results[1].Records[0]
			delivered := 1.0
			if r.Delivered != nil {
				delivered = *r.Delivered
			}
			if p.Transport != verbs.RC && !(delivered > 0.5 && delivered < 0.9) {
				t.Errorf("delivered %v, want about 0.8", delivered)
			}
			near := func(what string, got, want, by float64) {
				t.Helper()
				if math.Abs(got-want) > by*want {
					t.Errorf("%s: got %v, want %v", what, got, want)
				}
			}
			near("messages", float64(r.Messages), 8000*delivered, 1e-3)
			near("bytes", float64(r.Bytes), float64(r.Messages)*float64(p.Sizes[0]), 1e-3)
			near("message rate", r.MessagesPerS, float64(r.Messages)/r.Seconds, 1e-9)
			near("bandwidth", r.Bandwidth.AverageBitsPerS, 8*float64(r.Bytes)/r.Seconds, 1e-9)
			sum := 0.0
			if p.Transport != verbs.UC { // whose bytes are known when all is over
				for _, v := range r.Series.Bytes {
					sum += v
				}
				near("series", sum, float64(r.Bytes), 0.01)
			}
		})
	}
}
