package fabric

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/cli/compare"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	show "github.com/gobw/gobw/internal/cli/report"
	"github.com/gobw/gobw/internal/fabric"
	"github.com/gobw/gobw/internal/fabric/judge"
	"github.com/gobw/gobw/internal/fabric/schedule"
	"github.com/gobw/gobw/internal/fabric/simulate"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/stats"
	"github.com/gobw/gobw/verbs"
)

// simulated is the document of a simulated fabric, as rank 0 makes it.
func simulated(t *testing.T, pattern schedule.Pattern, c simulate.Config) *report.Document {
	t.Helper()
	s, err := schedule.Fit(pattern, schedule.Options{Hosts: c.Hosts, Leaf: c.Leaf, Seed: c.Seed}, 100)
	if err != nil {
		t.Fatal(err)
	}
	d := &report.Document{
		Schema: report.SchemaVersion, Tool: "gobw", Started: time.Unix(1700000000, 0).UTC(), Finished: time.Unix(1700000060, 0).UTC(), Complete: true,
		Fabric: &matrix.Matrix{Pattern: string(s.Pattern), Planned: s.Rounds, Rails: []string{"mlx5_0"}},
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
	j := simulate.Judge(simulate.New(c), s, judge.Config{Seed: 1})
	fabric.Conclude(d, j, plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, Transport: verbs.RC, Sizes: []int{65536}}, time.Second)
	d.Checks = fabric.Checks(d)
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
	path := saved(t, simulated(t, schedule.Pairs, simulate.Config{Hosts: 16, Leaf: leaf, Seed: 2, Plants: []simulate.Plant{
		{Kind: simulate.Host, A: 3, Factor: 0.8}, {Kind: simulate.Link, A: 7, B: 9, Factor: 0.5}, {Kind: simulate.Dead, A: 5},
	}}))
	for format, wants := range map[string][]string{
		"table": {
			"FAIL: 1 not connected host, 1 slow host, 1 slow link. 16 of 16 hosts", "Tested 240 of 240 ordered pairs", "a host slower by 5.0%", "host7 -> host9",
			"--exclude='host[3,5]'", "To drain (not run):  scontrol update nodename='host[3,5]' state=drain reason=\"gobw fabric 2023-11-14\"", "between leaves",
		},
		"html":        {"<svg", "host7 -&gt; host9: 50", "host15"},
		"junit":       {"host7 -&gt; host9: the link is good", "host3: the host is good"},
		"openmetrics": {`gobw_expectation_met{`, `point="host3"} 0`, `node="host7",side="sending"`, "# EOF"},
		"csv":         {"host12,receiving", "same leaf"},
		"markdown":    {"### FAIL", "host7 -"},
	} {
		out, code := ran(t, show.NewCommand, path, "--format", format)
		for _, want := range wants {
			if !strings.Contains(strings.Join(strings.Fields(out), " "), strings.Join(strings.Fields(want), " ")) {
				t.Errorf("%s, exit status %d: %q is missing in\n%.6000s", format, code, want, out)
			}
		}
	}
	incast := saved(t, simulated(t, schedule.Incast, simulate.Config{Hosts: 16, Seed: 2}))
	if out, _ := ran(t, show.NewCommand, incast); !strings.Contains(out, "Incast") || !strings.Contains(out, "of one sender") {
		t.Error(out)
	}
}

// TestCompareRuns: two runs are compared host by host, by the verdict of all comparisons. Rounds are repetitions, hosts are none.
func TestCompareRuns(t *testing.T) {
	before := saved(t, simulated(t, schedule.Pairs, simulate.Config{Hosts: 16, Seed: 1}))
	for name, tt := range map[string]struct {
		plants []simulate.Plant
		worse  []string
		code   int
	}{
		"as it was":                       {nil, nil, exit.Passed},
		"all slower by less than matters": {everyone(16, 0.98), nil, exit.Passed},
		"a slow host":                     {[]simulate.Plant{{Kind: simulate.Sender, A: 3, Factor: 0.8}}, []string{"host3"}, exit.Missed},
		"all slower":                      {everyone(16, 0.85), []string{"host3", "host9", "all paths"}, exit.Missed},
	} {
		t.Run(name, func(t *testing.T) {
			now := saved(t, simulated(t, schedule.Pairs, simulate.Config{Hosts: 16, Seed: 7, Plants: tt.plants}))
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

func everyone(hosts int, factor float64) []simulate.Plant {
	var out []simulate.Plant
	for h := range hosts {
		out = append(out, simulate.Plant{Kind: simulate.Sender, A: h, Factor: factor})
	}
	return out
}

// TestFinish: a file that cannot be written is told, whatever was found, and the gravest cause is the exit status.
func TestFinish(t *testing.T) {
	bad := simulated(t, schedule.Pairs, simulate.Config{Hosts: 8, Plants: []simulate.Plant{{Kind: simulate.Host, A: 3, Factor: 0.5}}})
	bad.Checks = []report.Check{{Verdict: stats.Failure(matrix.Slow, "", "")}}
	full := config{}
	f := &flags{kind: plan.Bandwidth}
	cmd := &cobra.Command{}
	f.bind(cmd)
	if err := cmd.ParseFlags([]string{"--save", "/dev/full"}); err != nil {
		t.Fatal(err)
	}
	var err error
	if full.output, err = f.output.Config(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = finish(t.Context(), output.Streams{Out: &out, Err: &out}, full, bad, nil)
	if _, silent := errors.AsType[exit.SilentError](err); err == nil || silent || !strings.Contains(err.Error(), "no space left") || exit.Code(err) != exit.Failed {
		t.Errorf("a full disk: %v, exit status %d", err, exit.Code(err))
	}
	check := func(word stats.Word, cause stats.Cause) report.Check {
		return report.Check{Verdict: stats.Verdict{Word: word, Cause: cause}}
	}
	pass, slow, lost, corrupt, unclear := check(stats.Pass, ""), check(stats.Fail, matrix.Slow), check(stats.Fail, matrix.Lost), check(stats.Fail, matrix.WrongData), check(stats.CannotTell, stats.Unclear)
	for want, checks := range map[int][][]report.Check{
		exit.Passed:   {{}, {pass, pass}},
		exit.Missed:   {{pass, slow}, {lost, slow, unclear}, {unclear}},
		exit.PeerLost: {{lost}, {unclear, lost}, {lost, unclear}},
		exit.Corrupt:  {{slow, corrupt, lost}},
	} {
		for _, c := range checks {
			if got := exit.Code(verdict(&report.Document{Checks: c})); got != want {
				t.Errorf("%v: exit status %d, want %d", c, got, want)
			}
		}
	}
}
