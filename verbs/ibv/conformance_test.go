//go:build linux && cgo

package ibv

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/verbstest"
)

// realDevice is the device named by GOBW_IBV_DEVICE, or skips.
func realDevice(t testing.TB) verbs.Device {
	t.Helper()
	name := os.Getenv("GOBW_IBV_DEVICE")
	if name == "" {
		t.Skip("GOBW_IBV_DEVICE is not set: it names an RDMA device to test, such as rxe0 in scripts/lab")
	}
	d, err := New().Open(name)
	if err != nil {
		t.Fatalf("%v; %s", err, verbs.RemedyOf(err))
	}
	closeLater(t, d)
	return d
}

// bestGID prefers RoCE v2 over IPv4, as the tools do.
func bestGID(t testing.TB, d verbs.Device) verbs.GIDEntry {
	t.Helper()
	gids, err := d.GIDs(1)
	if err != nil || len(gids) == 0 {
		t.Fatalf("GIDs of port 1: %v, %v", gids, err)
	}
	for _, g := range gids {
		if g.Type == verbs.GIDRoCEv2 && g.GID.Addr().Is4() {
			return g
		}
	}
	return gids[0]
}

// TestConformanceWithoutHardware holds this package against the suite on the libibverbs of testdata, by both posting
// interfaces: a difference is ours, since that device has none. The first mode passes all of it. The others pass the
// groups in which they may differ, and all of it in 'make test-all'.
func TestConformanceWithoutHardware(t *testing.T) {
	for _, tt := range []struct {
		name, link, part, clock string
		post                    verbs.PostAPI
		ports                   [2]int   // of A and B
		groups                  []string // in which the mode may differ from the first; none: all
	}{
		{"InfiniBand, ibv_post_send", "ib", "0", "", verbs.PostSend, [2]int{1, 1}, nil},
		{
			"InfiniBand, ibv_wr", "ib", "4129", "", verbs.PostWR,
			[2]int{1, 1},
			[]string{"data", "flags", "queue", "status", "atomics", "datagrams", "windows", "jobs"},
		},
		{
			"InfiniBand, ibv_start_poll", "ib", "0", "156250", verbs.PostSend,
			[2]int{1, 1},
			[]string{"data", "status", "datagrams", "shared receives", "timestamps", "jobs"},
		},
		{
			"two ports", "eth", "0", "", verbs.PostSend,
			[2]int{1, 2},
			[]string{"device", "data", "states", "datagrams", "events"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if testing.Short() && tt.groups != nil {
				t.Skip("short: one mode")
			}
			if testrun.Whole() {
				tt.groups = nil
			}
			p := fakeVerbs(t,
				map[string]string{"LINK": tt.link, "PART": tt.part, "CLOCK": tt.clock, "WRAP": "100000", "PORTS": "2"})
			verbstest.Run(t, func(t *testing.T) verbstest.Pair {
				end := func(port int) verbstest.End {
					d := openFake(t, p)
					gids, err := d.GIDs(port)
					if err != nil {
						t.Fatal(err)
					}
					g := gids[len(gids)-1]
					return verbstest.End{Device: d, Port: port, GIDIndex: g.Index, GID: g.GID}
				}
				return verbstest.Pair{A: end(tt.ports[0]), B: end(tt.ports[1]), MTU: verbs.MTU4096, Timestamps: tt.clock != ""}
			}, nil, tt.groups...)
			e := newEndpoint(t, openFake(t, p), 1, verbs.QueuePairOptions{})
			if got := verbs.PostsBy(e.qps[0]); got != tt.post {
				t.Errorf("posted by %v, want %v", got, tt.post)
			}
		})
	}
}

// TestConformance holds a real device against the suite, both ends on the same port.
func TestConformance(t *testing.T) {
	realDevice(t)
	verbstest.Run(t, func(t *testing.T) verbstest.Pair {
		end := func() verbstest.End {
			d := realDevice(t)
			g := bestGID(t, d)
			return verbstest.End{Device: d, Port: 1, GIDIndex: g.Index, GID: g.GID}
		}
		p := verbstest.Pair{A: end(), B: end()}
		if at := managerAddress(t, p.A.Device); at.IsValid() {
			p.Connect = meetAt(at)
		}
		port, err := p.A.Device.Port(1)
		if err != nil {
			t.Fatal(err)
		}
		p.MTU = port.ActiveMTU
		return p
	}, deviations(t))
}

// deviations is the table of the device's driver.
func deviations(t *testing.T) verbstest.Deviations {
	switch info := realDevice(t).Info(); {
	case info.Driver == "rdma_rxe":
		return softRoCE()
	case info.IWARP() && info.Software:
		return softIWARP()
	}
	return nil
}

// managerAddress is where RDMA CM finds a device that nothing else connects; of any other, none.
func managerAddress(t *testing.T, d verbs.Device) (a netip.Addr) {
	t.Helper()
	if info := d.Info(); !info.IWARP() {
		return a
	}
	const variable = "GOBW_RDMACM_ADDRESS"
	a, err := netip.ParseAddr(os.Getenv(variable))
	if err != nil {
		t.Fatalf("%s: %v: %s is connected by RDMA CM alone, tell its network interface's address", variable, err,
			d.Info().Name)
	}
	return a
}

// meetAt connects queue pairs by RDMA CM, whose listener is at an address of both devices.
func meetAt(at netip.Addr) func(t testing.TB, a, b verbs.QueuePair, ao, bo verbs.ConnectOptions) []io.Closer {
	return func(t testing.TB, a, b verbs.QueuePair, ao, bo verbs.ConnectOptions) []io.Closer {
		t.Helper()
		l, err := b.Device().(verbs.ConnectionManager).ListenCM(netip.AddrPortFrom(at, 0), verbs.CMOptions{})
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, l)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var dialled verbs.CMConnection
		joined := make(chan error, 1)
		go func() {
			var err error
			dialled, err = a.Device().(verbs.ConnectionManager).DialCM(ctx, l.Addr(), verbs.CMOptions{Source: at})
			if err == nil {
				err = join(ctx, a, dialled, ao)
			}
			if err != nil {
				cancel()
			}
			joined <- err
		}()
		accepted, err := l.Accept(ctx)
		if err == nil {
			err = join(ctx, b, accepted, bo)
		}
		err = errors.Join(err, <-joined)
		made := []io.Closer{l}
		for _, c := range []verbs.CMConnection{accepted, dialled} {
			if c != nil {
				closeLater(t, c)
				made = append([]io.Closer{c}, made...)
			}
		}
		if err != nil {
			t.Fatalf("connect by RDMA CM: %v", err)
		}
		return made
	}
}

// join takes one end's queue pair to RTS.
func join(ctx context.Context, qp verbs.QueuePair, cm verbs.CMConnection, o verbs.ConnectOptions) error {
	path, err := cm.InitOptions()
	if err != nil {
		return err
	}
	o.Port, o.PKeyIndex, o.AddressVector = path.Port, path.PKeyIndex, verbs.AddressVector{}
	if err := verbs.InitQP(qp, o); err != nil {
		return err
	}
	_, err = cm.Join(ctx, qp, o)
	return err
}
