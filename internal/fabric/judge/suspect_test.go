package judge

import (
	"maps"
	"slices"
	"testing"

	"github.com/gobw/gobw/report/matrix"
)

// TestPartnersOfASlowHostAreNotSuspected: half of what each partner of the slow host has measured is slow,
// which the second look no longer counts. A partner that stays suspected is acquitted by its re-tests: it
// costs rounds, and no finding tells of it.
func TestPartnersOfASlowHostAreNotSuspected(t *testing.T) {
	const hosts, slowHost = 8, 2
	j := New(Config{Hosts: hosts})
	for _, shift := range []int{1, 3} {
		round := j.Round(matrix.Round{})
		for from := range hosts {
			x := Cell{Value: 1e9, From: uint16(from), To: uint16((from + shift) % hosts), Round: round}
			if x.From == slowHost || x.To == slowHost {
				x.Value /= 2
			}
			j.Cells = append(j.Cells, x)
		}
	}
	j.suspect()
	for _, s := range []subject{sender(0, slowHost), receiver(0, slowHost)} {
		if j.subjects[s] == nil {
			t.Errorf("%+v is not suspected", s)
		}
	}
	if len(j.subjects) != 2 {
		t.Errorf("suspected are %+v, want both sides of host %d alone", slices.Collect(maps.Keys(j.subjects)), slowHost)
	}
}
