package run

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/perftest/flags"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce"
)

// nics are devices that have ports and tables, and nothing else.
type nics map[string]verbs.PortState

func (nics) Name() string { return "ibv" }

func (n nics) Devices() ([]verbs.DeviceName, error) {
	var all []verbs.DeviceName
	for _, name := range []string{"nic0", "nic1"} {
		if _, is := n[name]; is {
			all = append(all, verbs.DeviceName{Name: name})
		}
	}
	return all, nil
}

func (n nics) Open(name string) (verbs.Device, error) { return nic{name: name, state: n[name]}, nil }

type nic struct {
	verbs.Device
	name  string
	state verbs.PortState
}

func (n nic) Close() error           { return nil }
func (n nic) Info() verbs.DeviceInfo { return verbs.DeviceInfo{Name: n.name, Ports: 1} }
func (n nic) Port(number int) (verbs.PortInfo, error) {
	return verbs.PortInfo{Number: number, State: n.state, LinkLayer: verbs.LinkEthernet}, nil
}

func (n nic) GIDs(int) ([]verbs.GIDEntry, error) { return []verbs.GIDEntry{{Index: 3}}, nil }

// TestDevice has a test end before it begins where the device is none that stock perftest would take. The software
// device stands in for a NIC only where it is named or allowed.
func TestDevice(t *testing.T) {
	up := nics{"nic0": verbs.PortActive}
	for _, tt := range []struct {
		devices         nics
		line, env, want string // want: the first line on stderr; empty: the device opens
	}{
		{nil, "ib_write_bw", "", " Did not detect devices "},
		{nil, "ib_write_bw", "0", " Did not detect devices "},
		{nil, "ib_write_bw", "1", ""},
		{nil, "ib_write_bw -d roce0", "", ""},
		{nil, "ib_write_bw -d nic0", "1", "IB device nic0 not found"},
		{nil, "ib_read_bw -d nope", "", "IB device nope not found"},
		{nics{"nic0": verbs.PortDown}, "ib_write_bw", "", " Port number 1 state is Down"},
		{nics{"nic0": verbs.PortDown}, "ib_send_lat -d nic0", "", " Port number 1 state is Down"},
		// the first, as stock
		{nics{"nic0": verbs.PortInit, "nic1": verbs.PortActive}, "ib_read_bw 192.0.2.1", "", " Port number 1 state is Init"},
		{up, "ib_write_bw", "", ""},
		{up, "ib_write_bw -i 2", "", " Unable to query port 2 attributes"},
		{up, "ib_write_bw -i 2 -d nic0", "1", " Unable to query port 2 attributes"},
		{up, "ib_write_bw -x 3", "", ""},
		{up, "ib_write_bw -x 4", "", "ib_write_bw: GID index (-x) 4 is empty; there are: 3: :: (IB)"},
	} {
		t.Run(tt.line+" "+tt.env, func(t *testing.T) {
			t.Setenv(allowSoftware, tt.env)
			words := strings.Fields(tt.line)
			tool, _ := flags.ToolNamed(words[0])
			v, err := flags.Parse(tool, words[1:])
			if err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			r := testRun{
				v: v, out: output.Streams{Out: &out, Err: &errs}, providers: []verbs.Provider{tt.devices, roce.New(roce.Options{})},
			}
			d, err := r.open()
			if err == nil {
				err = d.Close()
			} else if code := r.status(err); (code == perftestNoDevice) != strings.HasPrefix(tt.line, "ib_read_bw -d") ||
				code == PerftestOK {
				t.Errorf("exit %d", code)
			}
			if err != nil {
				r.explain(err)
			}
			if first, _, _ := strings.Cut(errs.String(), "\n"); (err != nil || tt.want != "") && first != tt.want {
				t.Errorf("stderr begins %q, want %q", first, tt.want)
			}
		})
	}
}
