package judge

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gobw/gobw/internal/fabric/schedule"
	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/report/matrix"
)

// accused are the hosts that a judge accuses of not connecting, after so many rounds in which a flow fails if it does
// at one of its ends.
func accused(hosts, rounds int, seed uint64, fails func(host int) bool) (out []int) {
	j := New(Config{Hosts: hosts})
	s := schedule.New(schedule.Pairs, hosts, rounds, seed)
	for k := range s.Rounds {
		r := s.At(k)
		number := j.Round(r.Round)
		var cells []Cell
		for _, f := range r.Flows {
			x := Cell{From: uint16(f.From), To: uint16(f.To), Round: number, State: matrix.Measured, Value: 1e9}
			if fails(f.From) || fails(f.To) {
				x.State = matrix.Missing
			}
			cells = append(cells, x)
		}
		j.Add(cells)
	}
	j.suspect()
	for _, f := range j.bad {
		if f.OfHost() && f.Cause == matrix.NotConnected {
			out = append(out, f.From)
		}
	}
	slices.Sort(out)
	return out
}

// TestRandomLiars: of 64 ranks a few lie at random, to all or to some, about their own address or about that of others:
// the flow fails. A host that is accused is always a liar, and one that lies to all is always accused.
func TestRandomLiars(t *testing.T) {
	const hosts = 64
	trials := 10_000
	if !testrun.Whole() {
		trials = 200
	}
	for trial := range trials {
		rng := rand.New(rand.NewPCG(uint64(trial), 3))
		share := map[int]float64{} // of its partners to which a liar lies
		for range 1 + rng.IntN(3) {
			share[rng.IntN(hosts)] = []float64{1, 1, 0.3 + 0.7*rng.Float64()}[rng.IntN(3)]
		}
		lies := func(from int) bool { return rng.Float64() < share[from] }
		named := accused(hosts, 12, uint64(trial), lies)
		for _, h := range named {
			if _, liar := share[h]; !liar {
				t.Fatalf("trial %d: the honest host %d is accused; the liars are %v", trial, h, share)
			}
		}
		for h, of := range share {
			if of == 1 && !slices.Contains(named, h) {
				t.Errorf("trial %d: the liar %d of %v is not accused", trial, h, share)
			}
		}
	}
}

// TestPartnersOfTheDead: hosts that connect with each other are not accused for the dead, also where most are dead.
func TestPartnersOfTheDead(t *testing.T) {
	for _, tt := range []struct {
		hosts int
		dead  []int
	}{{4, []int{1, 2}}, {5, []int{0, 4}}, {6, []int{0, 1, 2, 3}}, {3, []int{0}}, {8, nil}} {
		got := accused(tt.hosts, 40, 1, func(host int) bool { return slices.Contains(tt.dead, host) })
		if !slices.Equal(got, tt.dead) {
			t.Errorf("of %d hosts are accused %v, dead are %v", tt.hosts, got, tt.dead)
		}
	}
}
