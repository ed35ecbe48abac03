package serve

import (
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce"
)

// caller is a client as far as the choice of a device asks.
type caller struct {
	control.Session
	dialect control.Dialect
	program string
}

func (c caller) Dialect() control.Dialect { return c.dialect }
func (c caller) PeerProgram() string      { return c.program }

// TestStandIn: where there is no NIC, a client whose rows are taken for a NIC's gets the software
// device only where the server named it.
func TestStandIn(t *testing.T) {
	for _, tt := range []struct {
		client caller
		named  string
		opens  bool
	}{
		{caller{dialect: control.Ours, program: "gobw 1.0"}, "", true},
		{caller{dialect: control.Ours, program: "ib_write_bw (gobw 1.0)"}, "", false},
		{caller{dialect: control.Ours, program: "ib_write_bw (gobw 1.0)"}, roce.DeviceName, true},
		{caller{dialect: control.Perftest, program: "perftest 6.29"}, "", false},
		{caller{dialect: control.Perftest, program: "perftest 6.29"}, roce.DeviceName, true},
	} {
		d, err := openFor(tt.client, opendevice.Config{Name: tt.named, Providers: []verbs.Provider{roce.New(roce.Options{})}})
		if (err == nil) != tt.opens || err != nil && !strings.Contains(err.Error(), "only if named: -d roce0") {
			t.Errorf("%s, -d %q: %v", tt.client.program, tt.named, err)
		}
		if err == nil {
			_ = d.Close()
		}
	}
}
