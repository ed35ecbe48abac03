package roce

import (
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/verbstest"
)

// TestBindError: what to do about a port in use depends on the address: of ::1 there is no next one.
func TestBindError(t *testing.T) {
	for address, want := range map[string]string{"::1": "meet at 127.0.0.1", "192.0.2.1": "ip netns add"} {
		if fix := verbs.RemedyOf(bindError(netip.MustParseAddr(address), syscall.EADDRINUSE)); !strings.Contains(fix, want) {
			t.Errorf("%s: %q, want %q in it", address, fix, want)
		}
	}
}

// TestName: a device can be looked at by an address that another one has, and cannot be bound to it.
func TestName(t *testing.T) {
	at := netip.MustParseAddr("::1")
	var devices []verbs.Device
	for range 2 {
		d, err := New(Options{}).Open(DeviceName)
		check(t, err)
		defer func() { check(t, d.Close()) }()
		devices = append(devices, d)
	}
	check(t, devices[0].Bind(at))
	d := devices[1]
	check(t, d.Name(at))
	port, err := devices[1].Port(1)
	check(t, err)
	if gid, err := devices[1].(*device).DefaultGID(); err != nil || gid.GID.Addr() != at || port.ActiveMTU == 0 {
		t.Errorf("%v, %+v, %v", gid, port, err)
	}
	if err := d.Bind(at); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("bound, too: %v", err)
	}
}

// TestAddressVectors asks for paths: the same way is one path, and what no packet can carry is refused.
func TestAddressVectors(t *testing.T) {
	d, err := New(Options{Address: verbstest.Address()}).Open(DeviceName)
	check(t, err)
	defer func() { check(t, d.Close()) }()
	e := d.(*device).e
	e.lock() // packets are not kept waiting while this machine's addresses are listed
	defer e.unlock()
	gid, err := d.(*device).DefaultGID()
	check(t, err)
	for a, ok := range map[verbs.AddressVector]bool{
		{}: true, {TrafficClass: 0x68, HopLimit: 7, SL: 3, FlowLabel: 5}: true, {SL: 16}: false, {FlowLabel: 1 << 20}: false,
	} {
		a.UseGID, a.DGID, a.SGIDIndex = true, gid.GID, gid.Index
		from, err := d.(*device).source(a)
		check(t, err)
		p, err := e.pathTo(from, a, Port)
		if again, err2 := e.pathTo(from, a, Port); (err == nil) != ok || (err2 == nil) != ok || again != p {
			t.Errorf("%+v: %v, %v; another path the second time: %v", a, err, err2, again != p)
		}
	}
}
