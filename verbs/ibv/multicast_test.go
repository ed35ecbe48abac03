//go:build linux && cgo

package ibv

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gobw/gobw/verbs"
)

// TestMulticastCalls: the group and its LID reach libibverbs as they are, the port those of queue pairs and address
// handles, and a device that refuses is named with its errno.
func TestMulticastCalls(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	d := openFake(t, fakeVerbs(t, map[string]string{"LINK": "ib", "PORTS": "2", "TRACE": trace}))
	e := newEndpoint(t, d, 1, verbs.QueuePairOptions{Transport: verbs.UD})
	group := verbs.GIDFromAddr(netip.MustParseAddr("239.1.2.3"))
	if err := verbs.InitQP(e.qps[0], verbs.ConnectOptions{Port: 2}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(e.qps[0].AttachMulticast(group, 0xc001), e.qps[0].DetachMulticast(group, 0xc001)); err != nil {
		t.Fatal(err)
	}
	calls := traced(t, trace)
	want := "create_ah port 1\nmodify_qp port 2\nattach_mcast 0000::ffff:239.1.2.3 lid 49153\ndetach_mcast\n"
	if calls != want {
		t.Errorf("libibverbs was asked for\n%swant\n%s", calls, want)
	}
	t.Setenv("FAKEVERBS_FAULTS", "attach_mcast=12")
	err := e.qps[0].AttachMulticast(group, 0)
	if !errors.Is(err, syscall.ENOMEM) ||
		!strings.Contains(err.Error(), "attach queue pair to multicast group ::ffff:239.1.2.3: fake0") {
		t.Errorf("a device without room for groups: %v", err)
	}
}

// TestOnDemand: what ibv_query_device_ex says of on-demand paging, and the flag of memory that is registered so.
func TestOnDemand(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	for _, odp := range []string{"0", "1"} {
		d := openFake(t, fakeVerbs(t, map[string]string{"ODP": odp, "TRACE": trace}))
		has := d.Info().Limits.OnDemand
		if want := odp == "1"; has.Supported != want || (has.RC&verbs.PagedAtomic != 0) != want {
			t.Errorf("FAKEVERBS_ODP=%s: %+v", odp, has)
		}
		pd, err := d.AllocPD()
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, pd)
		mr, err := pd.RegisterMemory(verbs.Borrow(make([]byte, 4096)), 0, 4096, verbs.AccessLocalWrite|verbs.AccessOnDemand)
		if (err == nil) != has.Supported {
			t.Errorf("FAKEVERBS_ODP=%s: registering on demand: %v", odp, err)
		}
		if mr != nil {
			closeLater(t, mr)
		}
	}
	if calls := traced(t, trace); calls != "reg_mr on demand\n" {
		t.Errorf("libibverbs was asked for %q", calls)
	}
}

// traced are the calls in a trace, without those that make completion queues.
func traced(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var calls strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "create_cq_ex ") {
			calls.WriteString(line)
		}
	}
	return calls.String()
}
