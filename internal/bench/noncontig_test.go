package bench

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/connect"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/verbstest"
)

// pair is two software devices and a session between them: run sends a plan to the other end.
type pair struct {
	client  verbs.Device
	others  []verbs.Device // the client's further ones
	session control.Session
}

// newPair opens both devices, each as wrap makes of it.
func newPair(t *testing.T, wrap func(verbs.Device) verbs.Device) *pair {
	t.Helper()
	return newPairOfRails(t, 1, 1, wrap)
}

// newPairOfRails gives each end so many devices.
func newPairOfRails(t *testing.T, clients, servers int, wrap func(verbs.Device) verbs.Device) *pair {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	at := [2]netip.Addr{verbstest.Address(), verbstest.Address()}
	open := func(address netip.Addr) verbs.Device {
		d, err := openOurs(address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return wrap(d)
	}
	client, server := open(at[0]), open(at[1])
	further := func(n int) (out []verbs.Device) {
		for range n - 1 {
			out = append(out, open(verbstest.Address()))
		}
		return out
	}
	others, serving := further(clients), further(servers)
	patient := control.Timeouts{Peer: time.Minute}
	l, err := connect.Listen(control.Options{Address: netip.AddrPortFrom(at[1], 0).String(), Timeouts: patient})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		s, err := l.Accept(ctx)
		if err != nil {
			return
		}
		for {
			res, err := Run(ctx, s, nil, server, Options{Rails: serving})
			if err != nil || res == nil {
				_ = s.Close()
				return
			}
		}
	}()
	s, err := connect.Dial(ctx, l.Addr().String(), control.Options{Timeouts: patient, Source: at[0]})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		_ = l.Close()
		cancel()
		<-served
	})
	return &pair{client: client, others: others, session: s}
}

func (p *pair) run(t *testing.T, spec plan.Spec) (*Result, error) {
	t.Helper()
	return Run(t.Context(), p.session, &spec, p.client, Options{Rails: p.others})
}

func TestNoncontigStrategies(t *testing.T) {
	p := newPair(t, func(d verbs.Device) verbs.Device { return d })
	for _, shape := range plan.Shapes() {
		for n, s := range plan.Strategies(shape) {
			for i, layout := range []string{
				"vector:block=64,num=100,stride=192", "vector:block=1000,num=7,stride=1001", "struct:0+4,8+8,24+100,extent=200,num=17",
				"subarray:dims=32x16x8,face=y",
			} {
				if testing.Short() && i != n%4 {
					continue // one layout a strategy
				}
				t.Run(shape+"/"+s.Name+"/"+layout, func(t *testing.T) {
					res, err := p.run(t, plan.Spec{
						Transport: verbs.RC, Iterations: 60, Verify: "ends",
						Noncontig: &plan.Noncontig{Shape: shape, Strategy: s.Name, Layout: layout, Window: 3, Segment: 1024},
					})
					if err != nil {
						t.Fatal(err)
					}
					if len(res.Records) != 1 || res.Records[0].Messages != 60 {
						t.Fatalf("got %+v", res.Records)
					}
					if r := res.Records[0]; r.Latency == nil || r.CPU == nil || r.CPU.PostNsPerMessage == 0 {
						t.Errorf("got latency %v and CPU %v, want both", r.Latency, r.CPU)
					}
				})
			}
		}
	}
}

func TestNoncontigColdAndAll(t *testing.T) {
	if testing.Short() {
		t.Skip("short: TestNoncontigStrategies runs the same strategies")
	}
	p := newPair(t, func(d verbs.Device) verbs.Device { return d })
	for _, shape := range plan.Shapes() {
		for _, s := range plan.Strategies(shape) {
			res, err := p.run(t, plan.Spec{
				Transport: verbs.RC, Iterations: 50, Verify: "all",
				Noncontig: &plan.Noncontig{Shape: shape, Strategy: s.Name, Layout: "vector:block=48,num=50,stride=96", Window: 4, Footprint: 1 << 20},
			})
			if err != nil {
				t.Fatalf("%s/%s: %v", shape, s.Name, err)
			}
			if got := res.Records[0].Messages; got != 50 {
				t.Errorf("%s/%s: got %d messages, want 50", shape, s.Name, got)
			}
		}
	}
}
