package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/connect"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/internal/testrun/meeting"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce"
)

// openOurs opens the software device.
func openOurs(at netip.Addr) (verbs.Device, error) {
	return roce.New(roce.Options{Address: at}).Open(roce.DeviceName)
}

// TestRunByRDMACM runs whole tests whose queue pairs RDMA CM connects: in our dialect over TCP, and in perftest's
// over a queue pair, as stock ends would.
func TestRunByRDMACM(t *testing.T) {
	test := func(change func(*plan.Spec)) plan.Spec {
		p := plan.Spec{
			Operation: plan.Write, Kind: plan.Bandwidth, Transport: verbs.RC, Sizes: []int{4096}, Iterations: 200,
			InlineBytes: -1, RDMACM: true,
		}
		change(&p)
		return p
	}
	row := 0
	for name, p := range map[string]plan.Spec{
		"write":         test(func(*plan.Spec) {}),
		"write -q 3":    test(func(p *plan.Spec) { p.QPs = 3 }),
		"read":          test(func(p *plan.Spec) { p.Operation, p.InlineBytes = plan.Read, 0 }),
		"atomic":        test(func(p *plan.Spec) { p.Operation, p.Sizes, p.InlineBytes = plan.Atomic, []int{8}, 0 }),
		"send -b -q 2":  test(func(p *plan.Spec) { p.Operation, p.Bidirectional, p.QPs = plan.Send, true, 2 }),
		"send UD":       test(func(p *plan.Spec) { p.Operation, p.Transport, p.Sizes = plan.Send, verbs.UD, []int{512} }),
		"send latency":  test(func(p *plan.Spec) { p.Operation, p.Kind, p.Sizes = plan.Send, plan.Latency, []int{8} }),
		"write latency": test(func(p *plan.Spec) { p.Kind, p.Sizes = plan.Latency, []int{8} }),
		"UD latency": test(func(p *plan.Spec) {
			p.Operation, p.Kind, p.Transport, p.Sizes = plan.Send, plan.Latency, verbs.UD, []int{8}
		}),
		"send SRQ, -q 2": test(func(p *plan.Spec) { p.Operation, p.SRQ, p.QPs = plan.Send, true, 2 }),
	} {
		row++
		for i, dialect := range []control.Dialect{control.Ours, control.Perftest} {
			if testing.Short() && row%2 != i {
				continue // each test in one dialect, in another run in the other
			}
			t.Run(fmt.Sprintf("%s, %s", name, dialect), func(t *testing.T) {
				m := &meeting.Manager{}
				server, client := m.Open(t, openOurs), m.Open(t, openOurs)
				results, err := runBoth(t, server, client, p, dialect)
				if err != nil {
					t.Fatal(err)
				}
				r := results[1].Records
				if len(r) != 1 || r[0].Messages < p.Iterations && p.Transport == verbs.RC {
					t.Errorf("records %+v", r)
				}
				if mtu := results[1].Here.MTU; mtu != 1024 && p.Transport == verbs.RC { // the Meeting's path, not the device's
					t.Errorf("MTU %d, want that of the path", mtu)
				}
			})
		}
	}
}

// runBoth runs a plan at both ends: the server's result and the client's.
func runBoth(t *testing.T, server, client verbs.Device, p plan.Spec, dialect control.Dialect) (results [2]*Result,
	err error,
) {
	t.Helper()
	return runBothWith(t.Context(), server, client, p, dialect, Options{})
}

// runBothWith is runBoth with options of the client's.
func runBothWith(ctx context.Context, server, client verbs.Device, p plan.Spec, dialect control.Dialect,
	of Options,
) (results [2]*Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	patient := control.Timeouts{Peer: time.Minute}
	lo, do := control.Options{Address: "127.0.0.1:0", Timeouts: patient}, control.Options{Timeouts: patient}
	plans := [2]*plan.Spec{nil, &p}
	if dialect == control.Perftest {
		own := p
		lo.RDMA, do.RDMA, plans[0] = server, client, &own
	}
	l, err := connect.Listen(lo)
	if err != nil {
		return results, err
	}
	defer func() { _ = l.Close() }()
	end := func(s control.Session, d verbs.Device, plan *plan.Spec, o Options) (*Result, error) {
		r, err := Run(ctx, s, plan, d, o)
		if err != nil {
			return r, err
		}
		return r, s.Close()
	}
	served := make(chan error, 1)
	go func() {
		s, err := l.Accept(ctx)
		if lo.RDMA != nil { // the test's queue pairs want its port
			err = errors.Join(err, l.Close())
		}
		if err == nil {
			results[0], err = end(s, server, plans[0], Options{})
		}
		served <- err
	}()
	s, err := connect.Dial(ctx, l.Addr().String(), do)
	if err == nil {
		results[1], err = end(s, client, plans[1], of)
	}
	return results, errors.Join(err, <-served)
}

// TestNoRDMACM: a device without RDMA CM refuses by name, at either end, and the peer hears why.
func TestNoRDMACM(t *testing.T) {
	m := &meeting.Manager{}
	managed, plain := m.Open(t, openOurs), m.Open(t, openOurs)
	plain = struct{ verbs.Device }{plain}
	p := plan.Spec{
		Operation: plan.Write, Kind: plan.Bandwidth, Transport: verbs.RC, Sizes: []int{4096}, Iterations: 100, RDMACM: true,
	}
	for _, ends := range [][2]verbs.Device{{managed, plain}, {plain, managed}} {
		_, err := runBoth(t, ends[0], ends[1], p, control.Ours)
		if err == nil || !strings.Contains(err.Error(), "roce0: not supported: this device has no RDMA CM") ||
			!strings.Contains(verbs.RemedyOf(err), "leave out -R") {
			t.Errorf("%v, remedy %q", err, verbs.RemedyOf(err))
		}
	}
}
