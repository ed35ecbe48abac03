package roce

import (
	"net/netip"
	"testing"
)

// TestGIDIndexStays: an index means the same address when others appear before it, vanish, and come back.
func TestGIDIndexStays(t *testing.T) {
	line := func(s string) gid { return gid{addr: netip.MustParseAddr(s), zone: 2} }
	v4, v6, local := line("192.0.2.1"), line("2001:db8::1"), line("fe80::1")
	var table gidTable
	for _, step := range [][]gid{{v4, v6}, {local, v4, v6}, {local, v6}, {local, v4, v6}} {
		table.update(step)
	}
	if len(table) != 3 || table[0] != v4 || table[1] != v6 || table[2] != local {
		t.Errorf("lines %v, want %v, %v, %v", table, v4, v6, local)
	}
	if table.update([]gid{v6}); !table[0].gone || table[1].gone {
		t.Errorf("lines %v, want the first gone, the second here", table)
	}
}
