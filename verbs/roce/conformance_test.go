package roce_test

import (
	"net/netip"
	"testing"

	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce"
	"github.com/gobw/gobw/verbs/verbstest"
)

// openEnd opens the software device at an address and closes it with the test.
func openEnd(t *testing.T, o roce.Options) verbstest.End {
	t.Helper()
	d := roce.OpenFree(t, o)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close device: %v", err)
		}
	})
	gids, err := d.GIDs(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range gids {
		if g.GID.Addr() == o.Address {
			return verbstest.End{Device: d, Port: 1, GIDIndex: g.Index, GID: g.GID}
		}
	}
	t.Fatalf("no GID of %v in %v", o.Address, gids)
	return verbstest.End{}
}

// TestConformance drives two devices on loopback addresses through the suite that every provider passes. The first pair
// passes all of it. The others pass the groups in which they may differ, and all of it in 'make test-all'.
func TestConformance(t *testing.T) {
	for _, tt := range []struct {
		name string
		a, b roce.Options // no address for b: both ends are on one device
		mtu  verbs.MTU

		deviations verbstest.Deviations
		groups     []string // in which the pair may differ from the first; none: all
	}{
		{
			name: "IPv4", a: roce.Options{Address: verbstest.Address()}, b: roce.Options{Address: verbstest.Address()},
			mtu: verbs.MTU1024,
		},
		{
			name:   "MTU 4096, no offload",
			a:      roce.WithoutOffload(roce.Options{Address: verbstest.Address()}),
			b:      roce.WithoutOffload(roce.Options{Address: verbstest.Address()}),
			mtu:    verbs.MTU4096,
			groups: []string{"data", "largest message", "status", "datagrams", "multicast", "visibility", "jobs"},
		},
		{
			name: "IPv6, one device", a: roce.Options{Address: netip.IPv6Loopback()}, mtu: verbs.MTU2048,
			groups: []string{"device", "data", "states", "datagrams", "multicast", "events", "many"},
			deviations: verbstest.Deviations{{
				Case: verbstest.MulticastDelivered, Ignored: true,
				Reason: "Linux gives its loopback interface no route to IPv6 groups",
				Source: "net/ipv6/addrconf.c (init_loopback has no addrconf_add_mroute)",
			}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if testing.Short() && tt.groups != nil {
				t.Skip("short: one pair")
			}
			largest := uint64(64 << 20)
			if testing.Short() {
				largest = 8 << 20
			}
			if testrun.Whole() {
				if tt.groups == nil {
					largest = 0 // what the device grants, up to 2^31
				}
				tt.groups = nil
			}
			verbstest.Run(t, func(t *testing.T) verbstest.Pair {
				p := verbstest.Pair{A: openEnd(t, tt.a), MTU: tt.mtu, Largest: largest}
				if p.B = p.A; tt.b.Address.IsValid() {
					p.B = openEnd(t, tt.b)
				}
				return p
			}, tt.deviations, tt.groups...)
		})
	}
}
