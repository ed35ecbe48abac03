//go:build linux

package cli

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gobw/gobw/internal/testrun"
)

// TestTwoHosts runs testdata/netns between two network namespaces with a veth pair between them: two hosts, real
// packets, IPv4 and IPv6. Where it is not root, it runs itself again as root of a user namespace.
func TestTwoHosts(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it measures for seconds")
	}
	testrun.Need(t, "ip")
	if os.Geteuid() != 0 {
		inUserNamespace(t)
		return
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

// inUserNamespace runs this test alone as root of a user namespace, where the system permits one.
func inUserNamespace(t *testing.T) {
	t.Helper()
	alone := []string{"unshare", "--user", "--map-root-user", "--mount", "--net"}
	if out, err := exec.CommandContext(t.Context(), alone[0], append(alone[1:], "true")...).CombinedOutput(); err != nil {
		t.Logf("%v: %s", err, out)
		testrun.Missing(t, "network namespaces: neither root nor user namespaces")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append(alone[1:], "sh", "-c", `mount -t tmpfs none /run && exec "$0" "$@"`, self, "-test.v",
		"-test.run=^"+t.Name()+"$")
	if out, err := exec.CommandContext(t.Context(), alone[0], args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
