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
		leaf := make([]int, n)
		for i := range leaf {
			leaf[i] = i % 4
		}
		for _, tt := range []struct {
			p      Pattern
			o      Options
			rounds int
		}{
			{Pairs, Options{}, n - 1 + n%2},
			{Leaves, Options{Leaf: leaf, Shifts: n}, -1},
			{Leaves, Options{}, n - 1 + n%2},
		} {
			t.Run(fmt.Sprintf("%s/%d", tt.p, n), func(t *testing.T) {
				tt.o.Hosts = n
				s, err := New(tt.p, tt.o)
				if err != nil {
					t.Fatal(err)
				}
				if tt.rounds >= 0 && s.Rounds != tt.rounds {
					t.Errorf("%d rounds, want %d", s.Rounds, tt.rounds)
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
}

func TestCircleIsSuperBenchs(t *testing.T) { // the closed form for even n: host n-1 meets r, host r meets n-1, else i meets (2r-i) mod (n-1)
	got := fmt.Sprint(circle(4, 0), circle(4, 1), circle(4, 2), circle(3, 0))
	if want := "[{0 3} {1 2}] [{0 2} {1 3}] [{0 1} {2 3}] [{1 2}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestIncastFansIn(t *testing.T) {
	s, err := New(Incast, Options{Hosts: 16})
	if err != nil {
		t.Fatal(err)
	}
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

func TestLeavesInsideFirst(t *testing.T) {
	leaf := make([]int, 1024)
	for i := range leaf {
		leaf[i] = i / 32
	}
	s, err := New(Leaves, Options{Hosts: 1024, Leaf: leaf, Shifts: 2})
	if err != nil {
		t.Fatal(err)
	}
	if want := 31 + 31*2; s.Rounds != want {
		t.Errorf("%d rounds, want %d", s.Rounds, want)
	}
	cells(t, s, 1024)
	for k := range s.Rounds {
		for _, f := range s.At(k).Flows {
			if (leaf[f.From] == leaf[f.To]) != (k < 31) {
				t.Fatalf("round %d: %v", k, f)
			}
		}
	}
}

func TestRandomIsRepeatable(t *testing.T) {
	o := Options{Hosts: 33, Count: 5, Seed: 7}
	a, _ := New(Random, o)
	b, _ := New(Random, o)
	cells(t, a, 33)
	if fmt.Sprint(a.At(3)) != fmt.Sprint(b.At(3)) || fmt.Sprint(a.At(3).Flows) == fmt.Sprint(a.At(4).Flows) {
		t.Error("matchings must repeat with their seed and differ from round to round")
	}
	if got := len(a.At(0).Flows); got != 32 {
		t.Errorf("%d flows, want 32: one of 33 hosts is idle", got)
	}
}

func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		p Pattern
		o Options
	}{{Pairs, Options{Hosts: 1}}, {Pairs, Options{}}, {"nonsense", Options{Hosts: 4}}, {Leaves, Options{Hosts: 4, Leaf: []int{1}}}} {
		if _, err := New(tt.p, tt.o); err == nil {
			t.Errorf("%s %+v: no error", tt.p, tt.o)
		}
	}
	if _, err := ParsePattern("pears"); err == nil {
		t.Error("pears")
	}
}

func TestFit(t *testing.T) {
	leaf := make([]int, 1024)
	for i := range leaf {
		leaf[i] = i / 32
	}
	for _, tt := range []struct {
		hosts, rounds int
		leaf          []int
		pattern       Pattern
		want          int
	}{
		{16, 100, nil, Pairs, 15},
		{1024, 1023, leaf, Pairs, 1023},
		{1024, 100, leaf, Leaves, 93}, // 31 inside, twice 31 between
		{1024, 40, leaf, Random, 16},
		{1024, 100, nil, Random, 16},
		{10000, 8, nil, Random, 8},
		{10000, 0, nil, Random, 3},
	} {
		s, err := Fit("", Options{Hosts: tt.hosts, Leaf: tt.leaf}, tt.rounds)
		if err != nil || s.Pattern != tt.pattern || s.Rounds != tt.want {
			t.Errorf("%d hosts in %d rounds: %s, %d rounds, %v; want %s, %d", tt.hosts, tt.rounds, s.Pattern, s.Rounds, err, tt.pattern, tt.want)
		}
	}
}
