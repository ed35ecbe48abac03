package endpoint

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/gobw/gobw/verbs"
)

func gid(index int, addr string, kind verbs.GIDType) verbs.GIDEntry {
	return verbs.GIDEntry{Index: index, GID: verbs.GIDFromAddr(netip.MustParseAddr(addr)), Type: kind}
}

func TestChooseGIDs(t *testing.T) {
	client := []verbs.GIDEntry{
		gid(0, "fe80::1", verbs.GIDRoCEv1), gid(1, "fe80::1", verbs.GIDRoCEv2),
		gid(2, "192.0.2.1", verbs.GIDRoCEv1), gid(3, "192.0.2.1", verbs.GIDRoCEv2), gid(4, "2001:db8::1", verbs.GIDRoCEv2),
	}
	tests := []struct {
		name           string
		server         []verbs.GIDEntry
		client, choice int // indices
		fails          string
	}{
		{
			"v2 over IPv4", []verbs.GIDEntry{
				gid(0, "fe80::2", verbs.GIDRoCEv1), gid(5, "192.0.2.2", verbs.GIDRoCEv2), gid(6, "2001:db8::2", verbs.GIDRoCEv2),
			}, 3, 5, "",
		},
		{
			"IPv6 where the peer has no IPv4",
			[]verbs.GIDEntry{gid(1, "fe80::2", verbs.GIDRoCEv2), gid(2, "2001:db8::2", verbs.GIDRoCEv2)},
			4, 2, "",
		},
		{"link-local only", []verbs.GIDEntry{gid(1, "fe80::2", verbs.GIDRoCEv2)}, 1, 1, ""},
		{"v1 only", []verbs.GIDEntry{gid(2, "192.0.2.2", verbs.GIDRoCEv1)}, 2, 2, ""},
		{"nothing in common", []verbs.GIDEntry{gid(0, "127.0.0.1", verbs.GIDRoCEv2)}, 0, 0, "no GID of one end reaches"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			own, other, err := ChooseGIDs(client, tt.server, Ends{Dialled: true})
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Errorf("error %v, want %q", err, tt.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if own.Index != tt.client || other.Index != tt.choice {
				t.Errorf("client %d, server %d; want %d, %d", own.Index, other.Index, tt.client, tt.choice)
			}
		})
	}
}

func TestChooseGIDsPrefersTheControlConnection(t *testing.T) {
	two := func(host string) []verbs.GIDEntry {
		return []verbs.GIDEntry{gid(0, "192.0.2."+host, verbs.GIDRoCEv2), gid(1, "198.51.100."+host, verbs.GIDRoCEv2)}
	}
	own, other, err := ChooseGIDs(two("2"), two("1"),
		Ends{Local: netip.MustParseAddr("198.51.100.2"), Remote: netip.MustParseAddr("198.51.100.1")})
	if err != nil {
		t.Fatal(err)
	}
	if own.Index != 1 || other.Index != 1 {
		t.Errorf("chose %v to %v, want the control connection's addresses", own.GID.Addr(), other.GID.Addr())
	}
}

// A link-local address of the control connection has a zone, which the GID has not.
func TestChooseGIDKnowsLinkLocal(t *testing.T) {
	table := []verbs.GIDEntry{gid(0, "fe80::1", verbs.GIDRoCEv2), gid(1, "fe80::2", verbs.GIDRoCEv2)}
	got, err := verbs.BestGID(table, netip.MustParseAddr("fe80::2%eth1"))
	if err != nil || got.Index != 1 {
		t.Errorf("line %d, %v; want 1", got.Index, err)
	}
	local, remote := netip.MustParseAddr("fe80::2%eth1"), netip.MustParseAddr("fe80::2%eth1")
	own, other, err := ChooseGIDs(table, table, Ends{Local: local, Remote: remote, Dialled: true})
	if err != nil || own.Index != 1 || other.Index != 1 {
		t.Errorf("lines %d and %d, %v; want 1", own.Index, other.Index, err)
	}
}
