package roce_test

import (
	"net/netip"
	"os"
	"testing"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce"
	"github.com/gobw/gobw/verbs/verbstest"
)

// openEnd opens the software device at an address and closes it with the test.
func openEnd(t *testing.T, o roce.Options) verbstest.End {
	t.Helper()
	d, err := roce.New(o).Open(roce.DeviceName)
	if err != nil {
		t.Fatal(err)
	}
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

// testAddress is a loopback address of this process alone: runs side by side do not meet.
func testAddress(n int) netip.Addr {
	id := os.Getpid()
	return netip.AddrFrom4([4]byte{127, 1, byte(id), byte(id>>8&7)<<5 | byte(n)})
}

// TestConformance drives two devices on loopback addresses through the suite that every provider passes.
func TestConformance(t *testing.T) {
	for _, tt := range []struct {
		name string
		a, b roce.Options
		mtu  verbs.MTU
	}{
		{"IPv4", roce.Options{Address: testAddress(1)}, roce.Options{Address: testAddress(2)}, verbs.MTU1024},
		{
			"MTU 4096, no offload",
			roce.Options{Address: testAddress(3), Offload: roce.OffloadOff},
			roce.Options{Address: testAddress(4), Offload: roce.OffloadOff},
			verbs.MTU4096,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			verbstest.Run(t, func(t *testing.T) verbstest.Pair {
				return verbstest.Pair{A: openEnd(t, tt.a), B: openEnd(t, tt.b), MTU: tt.mtu}
			}, nil)
		})
	}
}
