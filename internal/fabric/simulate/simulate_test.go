package simulate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/fabric/judge"
	"github.com/gobw/gobw/internal/fabric/schedule"
	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/stats"
)

func leavesOf(hosts, per int) []int {
	leaf := make([]int, hosts)
	for i := range leaf {
		leaf[i] = i / per
	}
	return leaf
}

// words are the findings that are faults, or that the judge could not tell.
func words(findings []matrix.Finding) []string {
	var out []string
	for _, f := range findings {
		if f.Word != stats.Pass {
			out = append(out, fmt.Sprintf("%s %s %d>%d", f.Cause, f.Subject, f.From, f.To))
		}
	}
	slices.Sort(out)
	return out
}

// seeds is how many runs of a simulation there are: a fifth, but for make test-all.
func seeds(all uint64) uint64 {
	if !testrun.Whole() {
		return all / 5
	}
	return all
}

func TestJudgeFindsWhatIsPlanted(t *testing.T) {
	for _, tt := range []struct {
		name    string
		hosts   int
		leaf    int // hosts per leaf; 0: no leaves
		pattern schedule.Pattern
		rounds  int
		noise   float64
		plant   []Plant
		want    []string
	}{
		{"nothing, 4 hosts", 4, 0, schedule.Pairs, 100, 0.01, nil, nil},
		{"nothing, 1000 hosts", 1000, 0, schedule.Pairs, 16, 0.03, nil, nil},
		{
			"one slow host of 4", 4, 0, schedule.Pairs, 100, 0.01,
			[]Plant{{Kind: Host, A: 2, Factor: 0.5}},
			[]string{"slow host 2>2"},
		},
		{
			"one slow sender of 4", 4, 0, schedule.Pairs, 100, 0.01,
			[]Plant{{Kind: Sender, A: 2, Factor: 0.5}},
			[]string{"slow sender 2>2"},
		},
		{
			"one slow host of 5, odd", 5, 0, schedule.Pairs, 100, 0.02,
			[]Plant{{Kind: Host, A: 0, Factor: 0.7}},
			[]string{"slow host 0>0"},
		},
		{
			"slow link", 16, 0, schedule.Pairs, 100, 0.01,
			[]Plant{{Kind: Link, A: 3, B: 9, Factor: 0.5}},
			[]string{"slow link 3>9"},
		},
		{
			"host and link", 16, 0, schedule.Pairs, 100, 0.01, []Plant{
				{Kind: Host, A: 7, Factor: 0.8}, {Kind: Link, A: 3, B: 9, Factor: 0.5},
			}, []string{"slow host 7>7", "slow link 3>9"},
		},
		{
			"host and its own link", 16, 0, schedule.Pairs, 100, 0.01, []Plant{
				{Kind: Host, A: 7, Factor: 0.8}, {Kind: Link, A: 7, B: 9, Factor: 0.5},
			}, []string{"slow host 7>7", "slow link 7>9"},
		},
		{
			"three hosts by matchings", 1000, 0, schedule.Pairs, 6, 0.02,
			[]Plant{
				{Kind: Host, A: 17, Factor: 0.9}, {Kind: Sender, A: 400, Factor: 0.9}, {Kind: Receiver, A: 999, Factor: 0.8},
			},
			[]string{"slow host 17>17", "slow receiver 999>999", "slow sender 400>400"},
		},
		{
			"under load", 64, 0, schedule.Pairs, 100, 0.01,
			[]Plant{{Kind: Load, A: 5, Factor: 0.8}},
			[]string{"slow-under-load host 5>5"},
		},
		{
			"trunk", 64, 8, schedule.Pairs, 100, 0.01,
			[]Plant{{Kind: Trunk, A: 1, B: 5, Factor: 0.7}},
			[]string{"slow trunk 1>5"},
		},
		{
			"trunk, by few rounds", 64, 8, schedule.Pairs, 16, 0.01,
			[]Plant{{Kind: Trunk, A: 1, B: 5, Factor: 0.7}},
			[]string{"slow trunk 1>5"},
		},
		{"dead host", 16, 0, schedule.Pairs, 100, 0.01, []Plant{{Kind: Dead, A: 5}}, []string{"not-connected host 5>5"}},
		// Re-tests are held to paths that the schedule had: incast has no two hosts of a leaf,
		// or of different leaves, alone together.
		{
			"by incast", 16, 4, schedule.Incast, 100, 0.01, []Plant{{Kind: Host, A: 3, Factor: 0.88}}, []string{"slow host 3>3"},
		},
		{
			"dead and slow", 16, 4, schedule.Pairs, 100, 0.01,
			[]Plant{{Kind: Dead, A: 5}, {Kind: Host, A: 6, Factor: 0.8}},
			[]string{"not-connected host 5>5", "slow host 6>6"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range seeds(5) {
				c := Config{Hosts: tt.hosts, Noise: tt.noise, Seed: seed}
				if tt.leaf > 0 {
					c.Leaf = leavesOf(tt.hosts, tt.leaf)
				}
				c.Plants = tt.plant
				s := schedule.New(tt.pattern, tt.hosts, tt.rounds, seed)
				findings, v := Judge(New(c), s, judge.Config{Seed: seed}).Conclude()
				if got := words(findings); !slices.Equal(got, tt.want) {
					t.Errorf("seed %d, sigma %.4f, %d re-tests: %q, want %q", seed, v.Sigma, v.Retests, got, tt.want)
				}
			}
		})
	}
}

// TestLatencyIsJudgedByItsDistribution: what is slow in its tail alone is found although its median is as the others',
// what is faster than the others is not accused, and noise alone accuses nobody.
func TestLatencyIsJudgedByItsDistribution(t *testing.T) {
	for _, tt := range []struct {
		name  string
		plant []Plant
		noise float64
		want  []string
	}{
		{"nothing", nil, 0.03, nil},
		{"a slow host", []Plant{{Kind: Host, A: 7, Factor: 0.8}}, 0.02, []string{"slow host 7>7"}},
		{"its tail alone", []Plant{{Kind: Tail, A: 7, Factor: 0.4}}, 0.02, []string{"slow host 7>7"}},
		{"a slow link", []Plant{{Kind: Link, A: 3, B: 9, Factor: 0.5}}, 0.01, []string{"slow link 3>9"}},
		{"a small tail", []Plant{{Kind: Tail, A: 7, Factor: 0.95}}, 0.01, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range seeds(10) {
				s := schedule.New(schedule.Pairs, 32, 100, seed)
				findings, v := Judge(New(Config{Hosts: 32, Noise: tt.noise, Seed: seed, Latency: true, Plants: tt.plant}),
					s, judge.Config{Seed: seed}).Conclude()
				if got := words(findings); !slices.Equal(got, tt.want) || v.HostPower == 0 {
					t.Errorf("seed %d, sigma %.4f, power %.3f: %q, want %q", seed, v.Sigma, v.HostPower, got, tt.want)
				}
			}
		})
	}
}

// TestRails: a rail that is slow is found on that rail; what is slow only while all rails run is told
// from it by the re-test of the rail alone.
func TestRails(t *testing.T) {
	for _, tt := range []struct {
		plants []Plant
		want   []string
	}{
		{[]Plant{{Kind: Host, A: 7, Factor: 0.7, Rails: []int{1}}}, []string{"slow host 7>7 rail 1"}},
		{
			[]Plant{{Kind: Link, A: 3, B: 9, Factor: 0.5, Rails: []int{0}}, {Kind: Load, A: 5, Factor: 0.7, Rails: []int{1}}},
			[]string{"slow link 3>9 rail 0", "slow-under-load host 5>5 rail 1"},
		},
	} {
		for seed := range seeds(5) {
			s := schedule.New(schedule.Pairs, 16, 100, seed)
			j := Judge(New(Config{Hosts: 16, Rails: 2, Noise: 0.01, Seed: seed, Plants: tt.plants}), s, judge.Config{Seed: seed})
			findings, _ := j.Conclude()
			rails := map[uint16]map[uint8]bool{}
			for _, x := range j.Cells {
				if rails[x.Round] == nil {
					rails[x.Round] = map[uint8]bool{}
				}
				rails[x.Round][x.Rail] = true
			}
			for round, r := range j.Rounds() {
				if want := map[bool]int{false: 2, true: 1}[r.Alone]; len(rails[uint16(round)]) != want {
					t.Errorf("round %d, alone %t, ran on %d rails", round, r.Alone, len(rails[uint16(round)]))
				}
			}
			var got []string
			for _, f := range findings {
				if f.Word != stats.Pass {
					got = append(got, fmt.Sprintf("%s %s %d>%d rail %d", f.Cause, f.Subject, f.From, f.To, f.Rail))
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("seed %d: %q, want %q", seed, got, tt.want)
			}
		}
	}
}

// TestRemedyHelps: more time is advised where the re-tests were used up, and else what helps.
func TestRemedyHelps(t *testing.T) {
	for name, tt := range map[string]struct {
		hosts, retests int
		want, lack     string
	}{
		"no re-tests left":  {16, 1, "--time", "third"},
		"as many as wanted": {6, 1 << 12, "--round", "--time"},
		"two hosts":         {2, 1 << 12, "a third host", "--time"},
	} {
		f := New(Config{Hosts: tt.hosts, Noise: 0.3, Seed: 3, Plants: []Plant{{Kind: Host, A: 1, Factor: 0.8}}})
		findings, v := Judge(f, schedule.New(schedule.Pairs, tt.hosts, 100, 3), judge.Config{Retests: tt.retests}).Conclude()
		told := v.Settle
		for _, x := range findings {
			told += "; " + x.Settle
		}
		if !strings.Contains(told, tt.want) || strings.Contains(told, tt.lack) {
			t.Errorf("%s: %q, want %q and no %q", name, told, tt.want, tt.lack)
		}
	}
}
