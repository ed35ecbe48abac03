package verbs

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// plainDevice is a device with a GID table and nothing else; one that rebinds has the address that it is bound to.
type plainDevice struct {
	Device
	table   []GIDEntry
	rebinds bool
	at      netip.Addr
}

func (d *plainDevice) Info() DeviceInfo              { return DeviceInfo{Rebinds: d.rebinds} }
func (d *plainDevice) Port(int) (PortInfo, error)    { return PortInfo{LinkLayer: LinkEthernet}, nil }
func (d *plainDevice) GIDs(int) ([]GIDEntry, error)  { return d.table, nil }
func (d *plainDevice) Bind(a netip.Addr) error       { d.at = a; return nil }
func (d *plainDevice) DefaultGID() (GIDEntry, error) { return GIDEntry{GID: GIDFromAddr(d.at)}, nil }

func TestChooseGID(t *testing.T) {
	line := func(i int, a string, typ GIDType) GIDEntry {
		return GIDEntry{Index: i, GID: GIDFromAddr(netip.MustParseAddr(a)), Type: typ}
	}
	table := []GIDEntry{
		line(0, "fe80::1", GIDRoCEv2), line(1, "192.0.2.1", GIDRoCEv1), line(2, "192.0.2.1", GIDRoCEv2),
		line(3, "2001:db8::1", GIDRoCEv2),
	}
	for local, want := range map[string]int{"192.0.2.1": 2, "2001:db8::1": 3, "::ffff:192.0.2.1": 2, "198.51.100.1": 2} {
		if g, err := ChooseGID(&plainDevice{table: table}, 1, netip.MustParseAddr(local)); err != nil || g.Index != want {
			t.Errorf("for a connection from %s: line %d, %v; want %d", local, g.Index, err, want)
		}
	}
	if _, err := ChooseGID(&plainDevice{}, 1, netip.Addr{}); !errors.As(err, new(*Error)) {
		t.Errorf("a port without a GID: %v, want an error of set-up", err)
	}
	local := netip.MustParseAddr("198.51.100.1")
	if g, err := ChooseGID(&plainDevice{rebinds: true}, 1, local); err != nil || g.GID.Addr() != local {
		t.Errorf("a device that rebinds is at %v, %v; want %v", g.GID, err, local)
	}
}

// providerOf has devices of these names, of which those named "broken" do not open.
type providerOf []string

func (providerOf) Name() string { return "test" }

func (p providerOf) Devices() (list []DeviceName, err error) {
	if len(p) == 0 {
		return nil, errors.New("no library")
	}
	for _, n := range p {
		list = append(list, DeviceName{Name: n})
	}
	return list, nil
}

func (p providerOf) Open(name string) (Device, error) {
	if name == "broken" {
		return nil, errors.New("does not open")
	}
	return &plainDevice{table: []GIDEntry{{NetInterface: name}}}, nil
}

func TestOpen(t *testing.T) {
	for _, tt := range []struct {
		name      string
		providers []Provider
		want      string // the device, or what the error says
	}{
		{"", []Provider{providerOf{}, providerOf{"broken", "b"}, providerOf{"c"}}, "b"},
		{"c", []Provider{providerOf{}, providerOf{"broken", "b"}, providerOf{"c"}}, "c"},
		{"broken", []Provider{providerOf{"broken", "b"}}, "does not open"},
		{"x", []Provider{providerOf{}, providerOf{"b"}}, "no device \"x\"\nno library"},
		{"", []Provider{providerOf{}, providerOf{"broken"}}, "no RDMA device\nno library\ndoes not open"},
		{"", nil, "no RDMA device"},
	} {
		d, err := Open(tt.name, tt.providers...)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = d.(*plainDevice).table[0].NetInterface
		}
		if got != tt.want {
			t.Errorf("%q: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestAddressJSON(t *testing.T) {
	want := Address{
		QPN: 1, PSN: 0xffffff, GID: GIDFromAddr(netip.MustParseAddr("192.0.2.1")), MTU: MTU4096, Window: 1 << 22,
		Addr:  1<<64 - 4096,
		Bytes: 1 << 40, RKey: 1<<32 - 1,
	}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Address
	if err := json.Unmarshal(b, &got); err != nil || got != want {
		t.Errorf("%s reads as %+v, %v", b, got, err)
	}
}

// scripted is a completion queue that gives these, one a poll.
type scripted struct {
	CompletionQueue
	list []Completion
}

func (s *scripted) Poll(out []Completion) (int, error) {
	n := copy(out, s.list[:min(1, len(s.list))])
	s.list = s.list[n:]
	return n, nil
}

func TestAwait(t *testing.T) {
	good, bad := Completion{ID: 1}, Completion{ID: 2, Status: FlushError}
	if list, err := Await(t.Context(), &scripted{list: []Completion{good, good, bad}}, 2); err != nil || len(list) != 2 {
		t.Errorf("two of three: %v, %v", list, err)
	}
	list, err := Await(t.Context(), &scripted{list: []Completion{good, bad, good}}, 3)
	if !errors.Is(err, FlushError) || len(list) != 2 || !strings.Contains(err.Error(), "work request 2") {
		t.Errorf("one that fails: %v, %v", list, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("over")
	cancel(over)
	if list, err := Await(ctx, &scripted{list: []Completion{good}}, 2); !errors.Is(err, over) || len(list) != 1 {
		t.Errorf("at the end of the time: %v, %v", list, err)
	}
}
