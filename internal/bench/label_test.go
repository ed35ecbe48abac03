package bench

import (
	"testing"

	"github.com/gobw/gobw/verbs"
)

func TestLabel(t *testing.T) {
	for want, d := range map[string]verbs.DeviceInfo{
		"":                                      {Provider: "ibv", Driver: "mlx5_core"},
		"software device (rdma_rxe), not a NIC": {Provider: "ibv", Driver: "rdma_rxe", Software: true},
		"software device, not a NIC":            {Provider: "roce", Driver: "roce", Software: true},
		"software device, not a NIC; emulated network loss=1%": {
			Provider: "roce", Driver: "roce", Software: true, EmulatedNetwork: "loss=1%",
		},
	} {
		if got := Label(d); got != want {
			t.Errorf("%s of %s: %q, want %q", d.Driver, d.Provider, got, want)
		}
	}
}
