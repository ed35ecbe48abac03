package cmdline

import "testing"

// TestParsePrefix: a prefix matches the addresses that clients have: no zones, and no IPv4 in IPv6.
func TestParsePrefix(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.7": "192.0.2.7/32", "192.0.2.7/24": "192.0.2.0/24", "2001:db8::1/32": "2001:db8::/32",
		"::ffff:127.0.0.1":     "127.0.0.1/32",
		"::ffff:192.0.2.7/120": "192.0.2.0/24", "fe80::1%lo": "fe80::1/128", "::/0": "::/0", "::ffff:0:0/96": "0.0.0.0/0",
		"x": "", "": "", "192.0.2.7/33": "", "fe80::1%lo/64": "",
	} {
		p, err := ParsePrefix(text)
		if err != nil && want != "" || err == nil && p.String() != want {
			t.Errorf("%q: %v, %v; want %s", text, p, err, want)
		}
	}
}
