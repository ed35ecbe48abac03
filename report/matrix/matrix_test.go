package matrix

import (
	"encoding/json"
	"testing"

	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/report/stats"
)

// sample is a run of three hosts of which one is slow and one never came.
func sample() *Matrix {
	m := &Matrix{
		Pattern: "pairs", Planned: 1, Rounds: []Round{{Label: "pairs 1"}, {Label: "re-test", Retest: true}},
		Rails: []string{"mlx5_0"}, Leaves: []string{"a", "b"},
		Hosts: []Host{
			{Rank: 0, Name: "node1", Leaf: "a", Verdict: stats.Verdict{Word: stats.Pass}},
			{Rank: 2, Name: "node2", Leaf: "b", Verdict: stats.Verdict{Word: stats.Pass}},
			{Rank: 1, Name: "node3", Verdict: stats.Failure(Absent, "look there", "did not come within 1m0s")},
		},
		Findings: []Finding{
			{
				Subject: Sender, From: 1, To: 1, Busy: stats.Summary{N: 3, Median: 0.5},
				Verdict: stats.Failure(Slow, "see it alone", "one direction"),
			},
		},
		Judged: Judged{Sigma: 0.01, Slow: 0.05, HostPower: 0.05, LinkPower: 0.05, Tested: 2, Pairs: 2, Retests: 1},
	}
	m.Cells.Add(0, 1, 0, 0, Measured, 1e11, 1)
	m.Cells.Add(1, 0, 0, 0, Measured, 5e10, 0.5)
	m.Cells.Add(1, 0, 1, 0, Missing, 0, 0)
	return m
}

// TestIncastSumsAReceiversFlows: and the knee is where it gets less.
func TestIncastSumsAReceiversFlows(t *testing.T) {
	m := &Matrix{Rails: []string{""}, Hosts: make([]Host, 4), Rounds: []Round{{FanIn: 1}, {FanIn: 3}}}
	m.Cells.Add(0, 1, 0, 0, Measured, 100, 1)
	for from, bits := range map[int]float64{0: 30, 2: 20, 3: 0} {
		state := Measured
		if bits == 0 {
			state = Missing
		}
		m.Cells.Add(from, 1, 1, 0, state, bits, 1)
	}
	got := m.Incast()
	want := []Incast{{FanIn: 1, Receivers: 1, Receiver: 100}, {FanIn: 3, Receivers: 1, Receiver: 50}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] || Knee(got) != 3 {
		t.Errorf("got %+v, want %+v; knee %d", got, want, Knee(got))
	}
}

func TestCheckRefuses(t *testing.T) {
	if err := sample().Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Matrix){
		"short": func(m *Matrix) { m.Cells.To = nil }, "host": func(m *Matrix) { m.Cells.To[0] = 9 },
		"itself": func(m *Matrix) { m.Cells.To[0] = 0 },
		"round":  func(m *Matrix) { m.Cells.Round[0] = -1 }, "rail": func(m *Matrix) { m.Cells.Rail[0] = 4 },
		"state":   func(m *Matrix) { m.Cells.State[0] = 7 },
		"finding": func(m *Matrix) { m.Findings[0].Rail = 3 }, "its host": func(m *Matrix) { m.Findings[0].From = -1 },
		"value": func(m *Matrix) { m.Cells.Value[0] = -1 },
	} {
		m := sample()
		change(m)
		if m.Check() == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// FuzzCheck shows whatever the check lets through.
func FuzzCheck(f *testing.F) {
	b, err := json.Marshal(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	testrun.Fuzz(f, func(_ *testing.T, b []byte) {
		m := &Matrix{}
		if json.Unmarshal(b, m) != nil || m.Check() != nil {
			return
		}
		_, _ = m.Tested(), Knee(m.Incast())
		for i := range m.Cells.Len() {
			_, _ = m.Scheduled(i), m.Path(m.Cells.From[i], m.Cells.To[i])
		}
		for _, f := range m.Findings {
			_ = m.Where(f)
		}
	})
}
