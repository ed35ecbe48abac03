package opendevice

import (
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/verbs"
)

// taken is a device at whose address somebody else is.
type taken struct{ verbs.Device }

func (taken) Info() verbs.DeviceInfo { return verbs.DeviceInfo{Rebinds: true} }

func (taken) Bind(netip.Addr) error { return &verbs.Error{Verb: "bind", Err: syscall.EADDRINUSE} }

func (taken) Name(netip.Addr) error { return nil }

// TestAddressTaken: who has the port is said, and what to do about it.
func TestAddressTaken(t *testing.T) {
	d := &Device{Device: taken{}}
	_, err := d.Bind(netip.MustParseAddr("192.0.2.1"))
	if err == nil || !strings.Contains(err.Error(), "UDP 192.0.2.1 port 4791: ") || verbs.RemedyOf(err) == "" ||
		exit.Code(err) != exit.Setup {
		t.Errorf("%v, exit code %d", err, exit.Code(err))
	}
	d.look = true
	if _, err := d.Bind(netip.MustParseAddr("192.0.2.1")); err != nil {
		t.Errorf("for a look at the device: %v", err)
	}
}

// TestPlaces: one rule says where a software device is, whichever command opens it.
func TestPlaces(t *testing.T) {
	both := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	for _, tt := range []struct {
		name  string
		place place
		local string // of the control connection; empty: none yet
		want  string // an address, or part of the error
	}{
		{"nothing named", place{}, "192.0.2.9", "192.0.2.9"},
		{"nothing named, nothing known", place{}, "", "invalid IP"},
		{"an address, whatever the family", place{"2001:db8::1", true, both[1:]}, "192.0.2.9", "2001:db8::1"},
		{"an interface, before it is known to whom", place{"eth1", false, both}, "", "192.0.2.1"},
		{"an interface, IPv4", place{"eth1", false, both}, "192.0.2.9", "192.0.2.1"},
		{"an interface, IPv4 in IPv6", place{"eth1", false, both}, "::ffff:192.0.2.9", "192.0.2.1"},
		{"an interface, IPv6", place{"eth1", false, both}, "2001:db8::9", "2001:db8::1"},
		{
			"an interface of the other family",
			place{"eth1", false, both[:1]},
			"2001:db8::9",
			"roce0@eth1 has the address 192.0.2.1, but the ends are connected by 2001:db8::9",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			local, _ := netip.ParseAddr(tt.local)
			got, err := tt.place.towards(local)
			if text := got.String(); err != nil && !strings.Contains(err.Error(), tt.want) || err == nil && text != tt.want {
				t.Errorf("%s, %v; want %s", text, err, tt.want)
			}
		})
	}
}
