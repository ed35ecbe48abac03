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
		{"dead and slow", 16, 4, schedule.Leaves, schedule.Options{Shifts: 4}, 0.01, "dead=5,host=6:-20%", []string{"host not connected  5>5", "slow host host 6>6"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(5) {
				c := Config{Hosts: tt.hosts, Noise: tt.noise, Seed: seed}
				leaves := 1
				if tt.leaf > 0 {
					c.Leaf = leavesOf(tt.hosts, tt.leaf)
					leaves = c.Leaf[tt.hosts-1] + 1
				}
				var err error
				if c.Plants, err = ParsePlants(tt.plant, tt.hosts, leaves); err != nil {
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

func TestParsePlants(t *testing.T) {
	p, err := ParsePlants("host=17:-20%, link=3-90:-50%,dead=5,trunk=0-1:-30%", 100, 2)
	if got, want := fmt.Sprint(p, err), "[{host 17 0 0.8} {link 3 90 0.5} {dead 5 0 1} {trunk 0 1 0.7}] <nil>"; got != want {
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
	} {
		if _, err := ParsePlants(text, 100, 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzParsePlants(f *testing.F) {
	f.Add("host=17:-20%,link=3-900:-50%")
	f.Fuzz(func(t *testing.T, text string) {
		plants, err := ParsePlants(text, 50, 3)
		if err != nil {
			return
		}
		for _, p := range plants {
			if p.Factor <= 0 || p.Factor > 1 || p.A < 0 || p.A >= 50 || p.B >= 50 {
				t.Errorf("%+v", p)
			}
		}
	})
}
