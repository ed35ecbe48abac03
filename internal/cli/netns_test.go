//go:build linux

package cli

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestTwoHosts runs testdata/netns between two network namespaces with a veth pair between them: two hosts, real
// packets, IPv4 and IPv6. It needs root.
func TestTwoHosts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("needs the ip command of iproute2")
	}
	a, b := fmt.Sprintf("gobw%da", os.Getpid()), fmt.Sprintf("gobw%db", os.Getpid())
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, out)
		}
	}
	for _, ns := range []string{a, b} {
		run("netns", "add", ns)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", ns).Run() })
	}
	run("link", "add", "va", "netns", a, "type", "veth", "peer", "name", "vb", "netns", b)
	for _, end := range []struct{ ns, link, v4, v6 string }{
		{a, "va", "192.0.2.1/24", "2001:db8::1/64"}, {b, "vb", "192.0.2.2/24", "2001:db8::2/64"},
	} {
		run("-n", end.ns, "link", "set", "lo", "up")
		run("-n", end.ns, "address", "add", end.v4, "dev", end.link)
		run("-n", end.ns, "address", "add", end.v6, "dev", end.link, "nodad")
		run("-n", end.ns, "link", "set", end.link, "up")
	}
	runScripts(t, testscript.Params{Dir: "testdata/netns"}, map[string]string{"A": a, "B": b})
}
