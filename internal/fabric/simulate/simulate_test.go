package simulate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/fabric/judge"
	"github.com/gobw/gobw/internal/fabric/schedule"
)

func leavesOf(hosts, per int) []int {
	leaf := make([]int, hosts)
	for i := range leaf {
		leaf[i] = i / per
	}
	return leaf
}

// words are the findings that are faults, or that the judge could not tell.
func words(v judge.Verdict) []string {
	var out []string
	for _, f := range v.Findings {
		if f.Kind.Bad() || f.Kind == judge.CannotTell {
			out = append(out, fmt.Sprintf("%s %s %d>%d", f.Kind, f.Subject, f.From, f.To))
		}
	}
	slices.Sort(out)
	return out
}

// seeds is how many runs of a simulation there are: a fifth of all with -short.
func seeds(all uint64) uint64 {
	if testing.Short() {
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
		o       schedule.Options
		noise   float64
		plant   string
		want    []string
	}{
		{"nothing, 4 hosts", 4, 0, schedule.Pairs, schedule.Options{}, 0.01, "", nil},
		{"nothing, 1000 hosts", 1000, 0, schedule.Random, schedule.Options{}, 0.03, "", nil},
		{"one slow host of 4", 4, 0, schedule.Pairs, schedule.Options{}, 0.01, "host=2:-50%", []string{"slow host host 2>2"}},
		{"one slow sender of 4", 4, 0, schedule.Pairs, schedule.Options{}, 0.01, "send=2:-50%", []string{"slow host sender 2>2"}},
		{"one slow host of 5, odd", 5, 0, schedule.Pairs, schedule.Options{}, 0.02, "host=0:-30%", []string{"slow host host 0>0"}},
		{"slow link", 16, 0, schedule.Pairs, schedule.Options{}, 0.01, "link=3-9:-50%", []string{"slow link link 3>9"}},
		{"host and link", 16, 0, schedule.Shift, schedule.Options{}, 0.01, "host=7:-20%,link=3-9:-50%", []string{"slow host host 7>7", "slow link link 3>9"}},
		{"host and its own link", 16, 0, schedule.Pairs, schedule.Options{}, 0.01, "host=7:-20%,link=7-9:-50%", []string{"slow host host 7>7", "slow link link 7>9"}},
		{"three hosts by matchings", 1000, 0, schedule.Random, schedule.Options{}, 0.02, "host=17:-10%,send=400:-10%,receive=999:-20%", []string{"slow host host 17>17", "slow host receiver 999>999", "slow host sender 400>400"}},
		{"under load", 64, 0, schedule.Pairs, schedule.Options{}, 0.01, "load=5:-20%", []string{"slow only under load host 5>5"}},
		{"trunk", 64, 8, schedule.Leaves, schedule.Options{Shifts: 4}, 0.01, "trunk=1-5:-30%", []string{"slow trunk trunk 1>5"}},
		{"dead host", 16, 0, schedule.Pairs, schedule.Options{}, 0.01, "dead=5", []string{"host not connected  5>5"}},
		// Re-tests are held to paths that the schedule had: these have no two hosts of a leaf, or of different leaves, alone together.
		{"by halves", 16, 4, schedule.Quick, schedule.Options{}, 0.01, "host=3:-12%", []string{"slow host host 3>3"}},
		{"by bisection", 16, 4, schedule.Bisection, schedule.Options{}, 0.01, "host=3:-12%", []string{"slow host host 3>3"}},
		{"by incast", 16, 4, schedule.Incast, schedule.Options{}, 0.01, "host=3:-12%", []string{"slow host host 3>3"}},
		{"dead and slow", 16, 4, schedule.Leaves, schedule.Options{Shifts: 4}, 0.01, "dead=5,host=6:-20%", []string{"host not connected  5>5", "slow host host 6>6"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range seeds(5) {
				c := Config{Hosts: tt.hosts, Noise: tt.noise, Seed: seed}
				leaves := 1
				if tt.leaf > 0 {
					c.Leaf = leavesOf(tt.hosts, tt.leaf)
					leaves = c.Leaf[tt.hosts-1] + 1
				}
				var err error
				if c.Plants, err = ParsePlants(tt.plant, Size{tt.hosts, leaves, 1}); err != nil {
					t.Fatal(err)
				}
				tt.o.Hosts, tt.o.Leaf, tt.o.Seed = tt.hosts, c.Leaf, seed
				s, err := schedule.New(tt.pattern, tt.o)
				if err != nil {
					t.Fatal(err)
				}
				v := Judge(New(c), s.Repeated(100), judge.Config{Seed: seed}).Conclude()
				if got := words(v); !slices.Equal(got, tt.want) {
					t.Errorf("seed %d, sigma %.4f, %d re-tests: %q, want %q", seed, v.Sigma, v.Retests, got, tt.want)
				}
			}
		})
	}
}

// TestLatencyIsJudgedByItsDistribution: what is slow in its tail alone is found although its median is as the others', what is
// faster than the others is not accused, and noise alone accuses nobody.
func TestLatencyIsJudgedByItsDistribution(t *testing.T) {
	for _, tt := range []struct {
		name, plant string
		noise       float64
		want        []string
	}{
		{"nothing", "", 0.03, nil},
		{"a slow host", "host=7:-20%", 0.02, []string{"slow host host 7>7"}},
		{"its tail alone", "tail=7:-60%", 0.02, []string{"slow host host 7>7"}},
		{"a slow link", "link=3-9:-50%", 0.01, []string{"slow link link 3>9"}},
		{"a small tail", "tail=7:-5%", 0.01, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range seeds(10) {
				plants, err := ParsePlants(tt.plant, Size{32, 1, 1})
				if err != nil {
					t.Fatal(err)
				}
				s, err := schedule.New(schedule.Pairs, schedule.Options{Hosts: 32})
				if err != nil {
					t.Fatal(err)
				}
				v := Judge(New(Config{Hosts: 32, Noise: tt.noise, Seed: seed, Latency: true, Plants: plants}), s, judge.Config{Seed: seed}).Conclude()
				if got := words(v); !slices.Equal(got, tt.want) || v.HostPower == 0 {
					t.Errorf("seed %d, sigma %.4f, power %.3f: %q, want %q", seed, v.Sigma, v.HostPower, got, tt.want)
				}
			}
		})
	}
}

// TestBaseline: what is slow in all hosts alike shows against an earlier run alone; a host that does what the baseline says
// is not slow, however fast the others have become; and hosts are still told apart where all have become slower.
func TestBaseline(t *testing.T) {
	const hosts = 32
	for _, latency := range []bool{false, true} {
		run := func(t *testing.T, seed uint64, all float64, plant string, b []judge.Level) (*judge.Judge, judge.Verdict) {
			t.Helper()
			plants, err := ParsePlants(plant, Size{hosts, 4, 1})
			if err != nil {
				t.Fatal(err)
			}
			for h := range hosts {
				if all != 1 {
					plants = append(plants, Plant{Kind: PlantSender, A: h, Rail: AllRails, Factor: all})
				}
			}
			c := Config{Hosts: hosts, Leaf: leavesOf(hosts, 8), Noise: 0.01, Seed: seed, Latency: latency, Plants: plants}
			s, err := schedule.New(schedule.Pairs, schedule.Options{Hosts: hosts, Leaf: c.Leaf})
			if err != nil {
				t.Fatal(err)
			}
			j := Judge(New(c), s, judge.Config{Seed: seed, Baseline: b})
			return j, j.Conclude()
		}
		j, _ := run(t, 100, 1, "", nil)
		level := j.Learnt()
		if len(level) != 2 || len(level[0].Hosts) != hosts {
			t.Fatalf("learnt %+v", level)
		}
		below := []string{"slower than baseline class -1>-1", "slower than baseline class -1>-1"} // inside leaves, and between
		for _, tt := range []struct {
			name, plant string
			all         float64
			want        []string
		}{
			{"as it was", "", 1, nil},
			{"all slower by less than matters", "", 0.98, nil},
			{"all slower", "", 0.9, below},
			{"all slower, and a host more so", "receive=7:-20%", 0.9, append([]string{"slow host receiver 7>7"}, below...)},
			{"all faster", "", 1.3, nil},
			{"all faster but one, which is as it was", "receive=7:-22%", 1.3, nil},
			{"all faster but one, which is slower", "receive=7:-40%", 1.3, []string{"slow host receiver 7>7"}},
		} {
			t.Run(fmt.Sprintf("%s, latency %t", tt.name, latency), func(t *testing.T) {
				for seed := range seeds(5) {
					_, v := run(t, seed, tt.all, tt.plant, level)
					if got := words(v); !slices.Equal(got, tt.want) || v.BaselinePower < 0.02 || v.BaselinePower > 0.1 {
						t.Errorf("seed %d, power %.3f: %q, want %q", seed, v.BaselinePower, got, tt.want)
					}
				}
			})
		}
	}
}

// TestAllToAllJudgesNoSpeed: everybody sends to everybody, so that flows share ports: nothing of one flow's speed is known.
func TestAllToAllJudgesNoSpeed(t *testing.T) {
	plants, err := ParsePlants("host=3:-50%,dead=5", Size{16, 1, 1})
	if err != nil {
		t.Fatal(err)
	}
	s, err := schedule.New(schedule.AllToAll, schedule.Options{Hosts: 16})
	if err != nil {
		t.Fatal(err)
	}
	j := Judge(New(Config{Hosts: 16, Noise: 0.01, Plants: plants}), s.Repeated(100), judge.Config{})
	v := j.Conclude()
	if got, want := words(v), []string{"host not connected  5>5"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if v.Untimed != v.Tested || v.Tested != 16*15 {
		t.Errorf("%d of %d tested pairs untimed", v.Untimed, v.Tested)
	}
	for _, x := range j.Cells() {
		if x.State == judge.Measured && x.From == 1 && x.To == 2 && (x.Value < 100e9/15*0.9 || x.Value > 100e9/15*1.1) {
			t.Errorf("a healthy flow has %g bits/s of its port", x.Value)
		}
	}
}

// TestRails: a rail that is slow is found on that rail; what is slow only while all rails run is told from it by the re-test
// of the rail alone.
func TestRails(t *testing.T) {
	for plant, want := range map[string][]string{
		"host=7@1:-30%":                 {"slow host host 7>7 rail 1"},
		"link=3-9@0:-50%,load=5@1:-30%": {"slow link link 3>9 rail 0", "slow only under load host 5>5 rail 1"},
	} {
		for seed := range seeds(5) {
			plants, err := ParsePlants(plant, Size{16, 1, 2})
			if err != nil {
				t.Fatal(err)
			}
			s, err := schedule.New(schedule.Pairs, schedule.Options{Hosts: 16})
			if err != nil {
				t.Fatal(err)
			}
			j := Judge(New(Config{Hosts: 16, Rails: 2, Noise: 0.01, Seed: seed, Plants: plants}), s, judge.Config{Seed: seed})
			v := j.Conclude()
			rails := map[uint16]map[uint8]bool{}
			for _, x := range j.Cells() {
				if rails[x.Round] == nil {
					rails[x.Round] = map[uint8]bool{}
				}
				rails[x.Round][x.Rail] = true
			}
			for round, l := range j.Loads() {
				if want := map[bool]int{false: 2, true: 1}[l.Quiet]; len(rails[uint16(round)]) != want {
					t.Errorf("round %d, alone %t, ran on %d rails", round, l.Quiet, len(rails[uint16(round)]))
				}
			}
			var got []string
			for _, f := range v.Findings {
				if f.Kind.Bad() || f.Kind == judge.CannotTell {
					got = append(got, fmt.Sprintf("%s %s %d>%d rail %d", f.Kind, f.Subject, f.From, f.To, f.Rail))
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("seed %d: %q, want %q", seed, got, want)
			}
		}
	}
}

func TestParsePlants(t *testing.T) {
	p, err := ParsePlants("host=17:-20%, link=3-90@1:-50%,dead=5,trunk=0-1:-30%", Size{100, 2, 2})
	if got, want := fmt.Sprint(p, err), "[{host 17 0 -1 0.8} {link 3 90 1 0.5} {dead 5 0 -1 1} {trunk 0 1 -1 0.7}] <nil>"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for text, want := range map[string]string{
		"host":           "want KIND",
		"host=1":         "has a drop",
		"dead=1:-5%":     "has a drop",
		"host=1:20%":     "drop",
		"host=1:-20":     "drop",
		"host=1:-100%":   "drop",
		"host=1:-NaN%":   "drop",
		"host=100:-5%":   "0 to 99",
		"host=-1:-5%":    "two ends",
		"host=1-2:-5%":   "two ends",
		"link=1:-5%":     "two ends",
		"link=1-1:-5%":   "the same",
		"trunk=0-2:-5%":  "0 to 1",
		"ghost=1:-5%":    "want host",
		"host=1e3:-5%":   "0 to 99",
		"link=1-2-3:-5%": "0 to 99",
		"host=1@2:-5%":   "rail from 0 to 1",
		"host=1@:-5%":    "rail from 0 to 1",
		"dead=1@0":       "rail from 0 to 1",
	} {
		if _, err := ParsePlants(text, Size{100, 2, 2}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzParsePlants(f *testing.F) {
	f.Add("host=17:-20%,link=3-900:-50%")
	f.Fuzz(func(t *testing.T, text string) {
		plants, err := ParsePlants(text, Size{50, 3, 2})
		if err != nil {
			return
		}
		for _, p := range plants {
			if p.Factor <= 0 || p.Factor > 1 || p.A < 0 || p.A >= 50 || p.B >= 50 || p.Rail < AllRails || p.Rail > 1 {
				t.Errorf("%+v", p)
			}
		}
	})
}
