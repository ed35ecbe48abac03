package schedule

import (
	"fmt"
	"testing"
)

// cells counts how often each ordered pair occurs, and fails where a host is in two flows of a round in the same role.
func cells(t *testing.T, s Schedule, n int) map[Flow]int {
	t.Helper()
	seen := map[Flow]int{}
	for k := range s.Rounds {
		out, in := make([]int, n), make([]int, n)
		for _, f := range s.At(k).Flows {
			if f.From == f.To || f.From < 0 || f.To < 0 || f.From >= n || f.To >= n {
				t.Fatalf("round %d: flow %v of %d hosts", k, f, n)
			}
			seen[f]++
			if out[f.From]++; out[f.From] > 1 {
				t.Fatalf("round %d: host %d sends twice", k, f.From)
			}
			if in[f.To]++; in[f.To] > 1 {
				t.Fatalf("round %d: host %d receives twice", k, f.To)
			}
		}
	}
	return seen
}

func TestEveryCellOnce(t *testing.T) {
	for _, n := range []int{2, 3, 4, 5, 8, 16, 17, 64, 101} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := New(Pairs, n, max(n, 4), 1)
			if n < 9 { // repeated: of each pass alone
				s.Rounds = n - 1 + n%2
			}
			if want := n - 1 + n%2; s.Rounds != want {
				t.Errorf("%d rounds, want %d", s.Rounds, want)
			}
			seen := cells(t, s, n)
			if len(seen) != n*(n-1) {
				t.Errorf("%d cells, want %d", len(seen), n*(n-1))
			}
			for f, times := range seen {
				if times != 1 {
					t.Errorf("%v occurs %d times", f, times)
				}
			}
		})
	}
}

// the closed form for even n: host n-1 meets r, host r meets n-1, else i meets (2r-i) mod (n-1)
func TestCircleIsSuperBenchs(t *testing.T) {
	got := fmt.Sprint(circle(4, 0), circle(4, 1), circle(4, 2), circle(3, 0))
	if want := "[{0 3} {1 2}] [{0 2} {1 3}] [{0 1} {2 3}] [{1 2}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestIncastFansIn(t *testing.T) {
	s := New(Incast, 16, 0, 1)
	var fans []int
	for k := range s.Rounds {
		r := s.At(k)
		fans = append(fans, r.FanIn)
		in, out := map[int]int{}, map[int]int{}
		for _, f := range r.Flows {
			in[f.To]++
			if out[f.From]++; out[f.From] > 1 {
				t.Errorf("%s: host %d sends twice", r.Label, f.From)
			}
		}
		want, sends := 16/(r.FanIn+1), 0
		if r.FanIn == 1 { // both of two
			want, sends = 16, 1
		}
		for to, n := range in {
			if n != r.FanIn || out[to] != sends {
				t.Errorf("%s: host %d receives from %d and sends to %d", r.Label, to, n, out[to])
			}
		}
		if len(in) != want {
			t.Errorf("%s: %d receivers, want %d", r.Label, len(in), want)
		}
	}
	if got, want := fmt.Sprint(fans), "[1 2 4 8 15]"; got != want {
		t.Errorf("fan-ins %s, want %s", got, want)
	}
}

// TestFewRoundsAreRandomPairs: the first rounds bring hosts together with others from
// anywhere, and repeat with their seed.
func TestFewRoundsAreRandomPairs(t *testing.T) {
	const hosts, perLeaf = 1024, 32
	a, b, c := New(Pairs, hosts, 8, 7), New(Pairs, hosts, 8, 7), New(Pairs, hosts, 8, 8)
	if fmt.Sprint(a.At(3)) != fmt.Sprint(b.At(3)) || fmt.Sprint(a.At(3)) == fmt.Sprint(c.At(3)) {
		t.Error("pairs must repeat with their seed, and differ with another")
	}
	leaves := map[Flow]int{}
	for f, times := range cells(t, a, hosts) {
		if leaves[Flow{f.From / perLeaf, f.To / perLeaf}]++; times != 1 {
			t.Errorf("%v occurs %d times", f, times)
		}
	}
	if all := hosts / perLeaf * hosts / perLeaf; len(leaves) < all*99/100 {
		t.Errorf("%d of %d pairs of leaves met", len(leaves), all)
	}
	if got := len(New(Pairs, 33, 5, 7).At(0).Flows); got != 32 {
		t.Errorf("%d flows, want 32: one of 33 hosts is idle", got)
	}
}

// TestRoundsFitTheTime: as many rounds of pairs as fit, three at least; what is short is repeated.
func TestRoundsFitTheTime(t *testing.T) {
	for _, tt := range []struct {
		p                   Pattern
		hosts, rounds, want int
	}{
		{Pairs, 16, 100, 15},
		{Pairs, 1024, 1023, 1023},
		{Pairs, 1024, 100, 100},
		{Pairs, 10000, 8, 8},
		{Pairs, 10000, 0, 3},
		{Pairs, 4, 100, 9},
		{Pairs, 4, 7, 6},
		{Pairs, 2, 5, 5},
		{Incast, 16, 0, 5},
		{Incast, 16, 100, 10},
		{Incast, 16, 9, 5},
	} {
		if s := New(tt.p, tt.hosts, tt.rounds, 1); s.Pattern != tt.p || s.Rounds != tt.want {
			t.Errorf("%s, %d hosts in %d rounds: %s, %d rounds; want %d", tt.p, tt.hosts, tt.rounds, s.Pattern,
				s.Rounds, tt.want)
		}
	}
	if first, again := New(Pairs, 4, 100, 1).At(2), New(Pairs, 4, 100,
		1).At(5); fmt.Sprint(first.Flows) != fmt.Sprint(again.Flows) || again.Label != "pairs 3, repetition 2 of 3" {
		t.Errorf("%+v, then %+v", first, again)
	}
}
