package connect

import (
	"strings"
	"testing"
)

func TestLinkLocalAddressesGetTheirInterface(t *testing.T) {
	for _, tt := range []struct {
		address    string
		interfaces string
		want, says string
	}{
		{"[fe80::1]:9", "eth0", "[fe80::1%eth0]:9", ""},
		{"[fe80::1%eth7]:9", "eth0", "[fe80::1%eth7]:9", ""},
		{"[fe80::1]:9", "eth0 eth1", "", "fe80::1%eth0 (there are: eth0, eth1)"},
		{"[fe80::1]:9", "", "", "name the interface"},
		{"[2001:db8::1]:9", "eth0", "[2001:db8::1]:9", ""},
		{"alpha:9", "eth0", "alpha:9", ""},
		{":9", "eth0", ":9", ""},
	} {
		got, err := withZone(tt.address, func() []string { return strings.Fields(tt.interfaces) })
		if got != tt.want || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s of %q: %q, %v; want %q, %q", tt.address, tt.interfaces, got, err, tt.want, tt.says)
		}
	}
}
