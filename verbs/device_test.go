package verbs

import (
	"encoding/json"
	"testing"
)

// TestText64 has numbers of 64 bits in JSON as text, which readers with floating-point numbers keep whole.
func TestText64(t *testing.T) {
	info := DeviceInfo{NodeGUID: 0x0200_00ff_fe00_12b7, SystemGUID: 1<<64 - 1, Limits: Limits{MaxMRBytes: 1<<64 - 1}}
	b, err := json.Marshal(info)
	if err != nil {
		t.Fatal(err)
	}
	var seen struct {
		Node   string `json:"node_guid"`
		System string `json:"system_guid"`
		Limits struct {
			MaxMR string `json:"max_mr_bytes"`
		} `json:"limits"`
	}
	if err := json.Unmarshal(b, &seen); err != nil || seen.Node != "0x020000fffe0012b7" ||
		seen.System != "0xffffffffffffffff" || seen.Limits.MaxMR != "18446744073709551615" {
		t.Errorf("%+v, %v in %s", seen, err, b)
	}
	var back DeviceInfo
	if err := json.Unmarshal(b, &back); err != nil || back.NodeGUID != info.NodeGUID ||
		back.Limits.MaxMRBytes != info.Limits.MaxMRBytes {
		t.Errorf("%+v, %v", back, err)
	}
}
