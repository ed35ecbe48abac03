package fabric

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/stats"
)

// TestFinish: a file that cannot be written is told, whatever was found, and the gravest cause is the exit status.
func TestFinish(t *testing.T) {
	bad := &report.Document{
		Complete: true, Fabric: &matrix.Matrix{Rounds: make([]matrix.Round, 1)},
		Checks: []report.Check{{Verdict: stats.Failure(matrix.Slow, "", "")}},
	}
	full := config{}
	f := &flags{}
	cmd := &cobra.Command{}
	f.bind(cmd, plan.Bandwidth)
	if err := cmd.ParseFlags([]string{"--save", "/dev/full"}); err != nil {
		t.Fatal(err)
	}
	var wrong cmdline.Faults
	if full.Output = f.Output.Config(&wrong); wrong != nil {
		t.Fatal(wrong)
	}
	var out bytes.Buffer
	err := finish(t.Context(), output.Streams{Out: &out, Err: &out}, full, bad, nil)
	if err == nil || !strings.Contains(err.Error(), "no space left") || exit.Code(err) != exit.Failed {
		t.Errorf("a full disk: %v, exit status %d", err, exit.Code(err))
	}
	check := func(word stats.Word, cause stats.Cause) report.Check {
		return report.Check{Verdict: stats.Verdict{Word: word, Cause: cause}}
	}
	pass, slow, lost, corrupt, unclear := check(stats.Pass, ""), check(stats.Fail, matrix.Slow), check(stats.Fail,
		matrix.Lost), check(stats.Fail, matrix.WrongData), check(stats.CannotTell, stats.Unclear)
	for want, checks := range map[int][][]report.Check{
		exit.Passed:    {{}, {pass, pass}},
		exit.Missed:    {{pass, slow}, {lost, slow, unclear}},
		exit.Undecided: {{unclear}, {pass, unclear}},
		exit.PeerLost:  {{lost}, {unclear, lost}, {lost, unclear}},
		exit.Corrupt:   {{slow, corrupt, lost}},
	} {
		for _, c := range checks {
			if got := exit.Code(verdict(&report.Document{Checks: c})); got != want {
				t.Errorf("%v: exit status %d, want %d", c, got, want)
			}
		}
	}
}
