package control

import (
	"net"
	"testing"
)

func TestHostPort(t *testing.T) {
	for typed, want := range map[string]string{
		"": ":18515", "alpha": "alpha:18515", "alpha:9": "alpha:9", ":9": ":9", "192.0.2.1": "192.0.2.1:18515",
		"192.0.2.1:9": "192.0.2.1:9",
		"::1":         "[::1]:18515", "[::1]": "[::1]:18515", "[::1]:9": "[::1]:9", "fe80::1%eth0": "[fe80::1%eth0]:18515",
		"[fe80::1%eth0]": "[fe80::1%eth0]:18515", "[fe80::1%eth0]:19002": "[fe80::1%eth0]:19002",
	} {
		if got := HostPort(typed, DefaultPort); got != want {
			t.Errorf("%q: %s, want %s", typed, got, want)
		}
	}
}

// wire is a connection between two addresses.
type wire struct {
	net.Conn
	local, remote string
}

func (w wire) LocalAddr() net.Addr  { a, _ := net.ResolveTCPAddr("tcp", w.local); return a }
func (w wire) RemoteAddr() net.Addr { a, _ := net.ResolveTCPAddr("tcp", w.remote); return a }

// TestMeet: ends that have one address are on one host, and meet on loopback.
func TestMeet(t *testing.T) {
	for _, tt := range []struct{ local, remote, wantLocal, wantRemote string }{
		{"192.0.2.1:7", "192.0.2.2:8", "192.0.2.1", "192.0.2.2"},
		{"192.0.2.1:7", "192.0.2.1:8", "127.0.0.1", "127.0.0.1"},
		{"[::1]:7", "[::1]:8", "127.0.0.1", "127.0.0.1"},
		{"127.0.0.1:7", "127.0.1.1:8", "127.0.0.1", "127.0.1.1"},
		{"[2001:db8::1]:7", "[2001:db8::1]:8", "127.0.0.1", "127.0.0.1"},
	} {
		local, remote := Meet(Ends{Conn: wire{local: tt.local, remote: tt.remote}})
		if l, r := local.String(), remote.String(); l != tt.wantLocal || r != tt.wantRemote {
			t.Errorf("%s to %s: %s and %s, want %s and %s", tt.local, tt.remote, l, r, tt.wantLocal, tt.wantRemote)
		}
	}
}
