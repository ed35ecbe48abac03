package fabric

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/stats"
)

// matrix is a run of n hosts in which each pair was measured so often, slower by the factors of slow: a sender's name, or a
// link's.
func matrix(n, times int, seed uint64, slow map[string]float64) *Document {
	r := rand.New(rand.NewPCG(seed, 1))
	d := &Document{
		Format: Format, Version: Version, Began: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Pattern: "pairs", Rails: []string{"mlx5_0"},
		Test: Test{Operation: "write", Kind: "bandwidth", Transport: "RC", SizeBytes: 65536, QPs: 1}, Rounds: []Round{{Label: "all"}, {Label: "re-test", Retest: true}},
	}
	for i := range n {
		d.Hosts = append(d.Hosts, Host{Rank: i, Name: fmt.Sprintf("node%d", i), State: "took part"})
	}
	add := func(from, to, round int, v float64) {
		c := &d.Cells
		c.From, c.To, c.Round, c.Rail = append(c.From, from), append(c.To, to), append(c.Round, round), append(c.Rail, 0)
		c.State, c.Value, c.Share = append(c.State, Measured), append(c.Value, v), append(c.Share, 1)
	}
	for from := range n {
		for to := range n {
			if from == to {
				continue
			}
			for range times {
				v := 100e9 * math.Exp(0.01*r.NormFloat64())
				for _, name := range []string{d.Hosts[from].Name, d.Hosts[from].Name + " -> " + d.Hosts[to].Name} {
					if f, is := slow[name]; is {
						v *= f
					}
				}
				add(from, to, 0, v)
			}
		}
	}
	add(0, 1, 1, 1) // a re-test says nothing of the weeks
	return d
}

func worse(c *compare.Comparison) []string {
	var out []string
	for _, p := range c.Points {
		if p.Word == stats.Worse {
			out = append(out, p.Group+": "+p.Row)
		}
	}
	slices.Sort(out)
	return out
}

func TestCompareFindsWhatBecameWorse(t *testing.T) {
	for _, tt := range []struct {
		name  string
		times int
		slow  map[string]float64
		want  []string
	}{
		{"nothing", 2, nil, nil},
		{"a host", 2, map[string]float64{"node3": 0.8}, []string{"sending, mlx5_0: node3"}},
		{"a link, measured often", 10, map[string]float64{"node3 -> node5": 0.7}, []string{"link, mlx5_0: node3 -> node5"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Compare(matrix(8, tt.times, 1, nil), matrix(8, tt.times, 2, tt.slow), compare.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := worse(c); !slices.Equal(got, tt.want) {
				t.Errorf("worse: %q, want %q", got, tt.want)
			}
			if c.Hosts != 8 {
				t.Errorf("%d hosts", c.Hosts)
			}
			if brief := Brief(c); len(brief.Points) >= len(c.Points) || !strings.Contains(strings.Join(brief.Labels, ";"), "the same, not shown") {
				t.Errorf("%d of %d points, %q", len(brief.Points), len(c.Points), brief.Labels)
			}
		})
	}
}

// TestCompareClaimsNothingOfOneCell: a link that was measured once is shown where it fell, and nothing is claimed.
func TestCompareClaimsNothingOfOneCell(t *testing.T) {
	c, err := Compare(matrix(8, 1, 1, nil), matrix(8, 1, 2, map[string]float64{"node3 -> node5": 0.5}), compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(c.Points, func(p compare.Point) bool { return p.Row == "node3 -> node5" })
	if at < 0 || c.Points[at].Word != stats.CannotTell || c.Points[at].Cause != stats.TooFew || math.Abs(c.Points[at].WorseBy-0.5) > 0.05 {
		t.Errorf("%+v", c.Points)
	}
	if got := worse(c); len(got) > 0 {
		t.Errorf("worse: %q", got)
	}
}

func TestCompareMatchesByName(t *testing.T) {
	old, new := matrix(8, 2, 1, nil), matrix(8, 2, 2, nil)
	for i := range new.Hosts { // other ranks this week
		new.Hosts[i].Name = fmt.Sprintf("node%d", (i+3)%8)
	}
	new.Hosts[0].Name = "fresh"
	new.Hosts[1].State, new.Hosts[1].Reason = "lost", "its agent has ended"
	new.Findings = []Finding{{Kind: "slow host", Bad: true, Subject: "sender", From: "node5"}}
	c, err := Compare(old, new, compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.OnlyOld, []string{"node3 on mlx5_0"}) || !slices.Equal(c.OnlyNew, []string{"fresh on mlx5_0"}) {
		t.Errorf("only old %q, only new %q", c.OnlyOld, c.OnlyNew)
	}
	if want := []string{"new finding: slow host: node5, sending", "node4: took part, now lost its agent has ended"}; !slices.Equal(c.Labels, want) {
		t.Errorf("got %q, want %q", c.Labels, want)
	}
	for _, s := range new.series() {
		if s.name == "node5" && s.kind == bySender && len(s.values) != 14 {
			t.Errorf("%d values", len(s.values))
		}
	}
}

func TestCompareRefusesUnlikeTests(t *testing.T) {
	old, new := matrix(4, 2, 1, nil), matrix(4, 2, 2, nil)
	new.Test.SizeBytes = 8
	_, err := Compare(old, new, compare.Options{})
	if unlike, is := errors.AsType[*compare.UnlikeError](err); !is || unlike.Differences[0].What != "size" {
		t.Errorf("%v", err)
	}
	if _, err := Compare(old, new, compare.Options{Unlike: true}); err != nil {
		t.Error(err)
	}
}

func TestIs(t *testing.T) {
	var b bytes.Buffer
	if err := matrix(2, 1, 1, nil).Write(&b); err != nil {
		t.Fatal(err)
	}
	if !Is(b.Bytes()) {
		t.Error("a document is not one")
	}
	for _, other := range []string{"", "{}", `{"format":"gobw"}`, `{"format": 1}`, `[1]`, `{"tool":"gobw-fabric"}`, `["gobw-fabric"]`} {
		if Is([]byte(other)) {
			t.Errorf("%s is one", other)
		}
	}
}
