package drive

import (
	"math"
	"testing"

	"github.com/gobw/gobw/report"
)

func TestChange(t *testing.T) {
	for _, tt := range []struct {
		name          string
		before, after uint64
		want          int64
	}{
		{"out_of_sequence", 3, 14, 11},
		{"out_of_sequence", 4294967290, 5, 11},
		{"port_xmit_discards", 65530, 4, 10},
		{"link_downed", 250, 2, 8},
		{"port_rcv_data", math.MaxUint64 - 5, 5, 11},
		{"port_rcv_data", 5_000_000_000, 5_000_000_100, 100},
		{"out_of_sequence", 1000, 3, -997},               // reset
		{"port_rcv_data", 5_000_000_000, 0, -5000000000}, // reset
		{"out_of_sequence", 65530, 4, -65526},            // a counter of 32 bits does not wrap there
		{"port_xmit_discards", 65535, 65535, report.CounterFull},
		{"port_xmit_discards", 65530, 65535, 5},
		{"out_of_sequence", 7, 7, 0},
	} {
		if got := change(tt.name, tt.before, tt.after); got != tt.want {
			t.Errorf("%s from %d to %d: got %d, want %d", tt.name, tt.before, tt.after, got, tt.want)
		}
	}
}

// A reset of one device is not hidden by what another one counted.
func TestChangesOfSeveralDevices(t *testing.T) {
	type m = map[string]uint64
	got := Changes([]m{{"discards": 9}, {"discards": 4294967290}}, []m{{"discards": 2}, {"discards": 5}})
	if got["discards"] != -7 {
		t.Errorf("got %d, want -7: the first was reset", got["discards"])
	}
	got = Changes([]m{{"discards": 9}, {"discards": 4294967290}}, []m{{"discards": 11}, {"discards": 5}})
	if got["discards"] != 13 {
		t.Errorf("got %d, want 13", got["discards"])
	}
	all := &Trace{Counters: map[string]int64{"discards": -7}}
	if all.Join(&Trace{Counters: map[string]int64{"discards": 100}}, false); all.Counters["discards"] >= 0 {
		t.Errorf("got %d after a part with a reset", all.Counters["discards"])
	}
}
