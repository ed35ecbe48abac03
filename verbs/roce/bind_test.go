package roce

import (
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/gobw/gobw/verbs"
)

// TestBindError: what to do about a port in use depends on the address: of ::1 there is no next one.
func TestBindError(t *testing.T) {
	for address, want := range map[string]string{"::1": "meet at 127.0.0.1", "192.0.2.1": "ip netns add"} {
		if fix := verbs.RemedyOf(bindError(netip.MustParseAddr(address), syscall.EADDRINUSE)); !strings.Contains(fix, want) {
			t.Errorf("%s: %q, want %q in it", address, fix, want)
		}
	}
}
