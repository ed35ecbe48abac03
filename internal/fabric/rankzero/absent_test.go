package rankzero

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/stats"
)

// TestWhyAbsent: a host that was refused, one whose name is wrong, and one of which nothing is known are told apart.
func TestWhyAbsent(t *testing.T) {
	secret := errors.New("another secret, or another job: " + sameSecret)
	for _, tt := range []struct {
		name    string
		refused map[netip.Addr]error
		cause   stats.Cause
		says    string
	}{
		{
			"10.77.0.5",
			map[netip.Addr]error{netip.MustParseAddr("10.77.0.5"): secret},
			matrix.Unfit,
			"its process was refused: another secret",
		},
		{
			"10.77.0.5",
			map[netip.Addr]error{netip.MustParseAddr("10.77.0.6"): secret},
			matrix.Absent,
			"did not come within 5s; refused was 10.77.0.6: another secret",
		},
		{"a..b", nil, matrix.Absent, "did not come within 5s; its name has no address on rank 0's host"},
		{"10.77.0.5", nil, matrix.Absent, "did not come within 5s"},
		{"", nil, matrix.Absent, "did not come within 5s"},
	} {
		c := &coordinator{cfg: Config{Wait: 5 * time.Second}, listener: &listener{refused: tt.refused}}
		v := c.whyAbsent(t.Context(), tt.name)
		if v.Cause != tt.cause || !strings.HasPrefix(v.Reason, tt.says) || v.Settle == "" {
			t.Errorf("%q, refused %v: %+v, want %s: %s", tt.name, tt.refused, v, tt.cause, tt.says)
		}
	}
}
