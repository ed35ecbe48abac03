package run

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/perftest/flags"
	"github.com/gobw/gobw/verbs"
)

// table is a port's GIDs: link-local, an IPv4 address, a global IPv6 address.
type table struct{ verbs.Device }

func (table) GIDs(int) ([]verbs.GIDEntry, error) {
	var all []verbs.GIDEntry
	for i, a := range []string{"fe80::1", "192.0.2.1", "2001:db8::1"} {
		all = append(all, verbs.GIDEntry{Index: i, Type: verbs.GIDRoCEv2, GID: verbs.GIDFromAddr(netip.MustParseAddr(a))})
	}
	return all, nil
}

// TestOptionsOfThisEnd has the options that concern this end alone arrive where they act: at the measuring run, or at
// the connection.
func TestOptionsOfThisEnd(t *testing.T) {
	seen := func(line string) string {
		words := strings.Fields(line)
		tool, _ := flags.ToolNamed(words[0])
		v, err := flags.Parse(tool, append(words[1:], "192.0.2.7"))
		if err != nil {
			t.Fatal(err)
		}
		r := testRun{v: v}
		o, d := r.options(table{}, v.IBPort, netip.Addr{}), r.dialOptions()
		show := func(p *int) string {
			if p == nil {
				return "default"
			}
			return fmt.Sprint(*p)
		}
		return fmt.Sprintf("cpu %+v port %d gid %s dlid %d node %s stall %v linger %v | version %q gbits %v marker %v "+
			"source %v network %s timeouts %v rdma %v",
			o.CPU.CPUs, o.Port, show(o.GIDIndex), o.DLID, show(o.NUMANode), o.Stall, o.Linger,
			d.Perftest.Version, d.Perftest.Gbits, !d.Perftest.NoMarker, d.Source, d.Network, d.Timeouts, v.ControlCM)
	}
	plain := seen("ib_write_bw")
	for option, want := range map[string]string{
		"--pin_cores=3-5":                    "cpu [3 4 5] ",
		"-i 2":                               " port 2 ",
		"-x 7":                               " gid 7 ",
		"--ipv6":                             " gid 2 ", // global before link-local
		"--dlid=9":                           " dlid 9 ",
		"--numa_node=1":                      " node 1 ",
		"--disable_numa":                     " node -1 ",
		"--peer-timeout=60":                  " stall 1m0s ",
		"--wait_destroy=2":                   " linger 2s ",
		"--perftest-version=6.29":            `version "6.29"`,
		"--report_gbits":                     " gbits true ",
		"--source_ip=127.0.0.9":              " source 127.0.0.9 ",
		"--bind_source_ip=127.0.0.8":         " source 127.0.0.8 ",
		"--ipv6-addr":                        " network tcp6 ",
		"-z":                                 " rdma true",
		"--peer-timeout=60 --wait_destroy=0": "{1m0s",
	} {
		got := seen("ib_write_bw " + option)
		if !strings.Contains(got, want) || strings.Contains(plain, want) {
			t.Errorf("%s: %q is missing in %s\nwithout it %s", option, want, got, plain)
		}
	}
}

// lines is a device with these addresses.
type lines struct {
	verbs.Device
	all []verbs.GIDEntry
}

func (l lines) GIDs(int) ([]verbs.GIDEntry, error) { return l.all, nil }

// TestIPv6AddressIsOneThatThePeerReaches: --ipv6 goes by the control connection, and leaves loopback out.
func TestIPv6AddressIsOneThatThePeerReaches(t *testing.T) {
	var all []verbs.GIDEntry
	for i, at := range []string{
		"lo ::1", "eth0 fe80::1", "eth0 192.0.2.1", "eth1 fe80::2", "eth1 2001:db8::2", "eth1 198.51.100.2",
	} {
		name, a, _ := strings.Cut(at, " ")
		all = append(all,
			verbs.GIDEntry{Index: i, Type: verbs.GIDRoCEv2, GID: verbs.GIDFromAddr(netip.MustParseAddr(a)), NetInterface: name})
	}
	for local, want := range map[string]int{
		"192.0.2.1": 1, "198.51.100.2": 4, "fe80::2%eth1": 3, "fe80::1%eth0": 1, "2001:db8::2": 4, "203.0.113.1": 4,
	} {
		got := ipv6GID(lines{all: all}, 1, netip.MustParseAddr(local))
		if got == nil || *got != want {
			t.Errorf("control connection at %s: %v, want line %d", local, got, want)
		}
	}
	if got := ipv6GID(lines{all: all[:1]}, 1, netip.MustParseAddr("::1")); got != nil {
		t.Errorf("loopback alone: line %d", *got)
	}
}
