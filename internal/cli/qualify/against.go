package qualify

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/ab"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/qualify"
	"github.com/gobw/gobw/report/stats"
)

// beside is a test as both sides of the plan's 'against' run it.
type beside struct {
	side      *qualify.Against
	base, now ab.Command
	figure    string
}

// besides makes the two command lines. The other side's flags come last and win.
func (f *flags) besides(a *qualify.Against, t *qualifyTest) (*beside, error) {
	if t.command.Test == nil || t.command.Test.Plan.AllSizes || len(t.command.Test.Plan.Sizes) > 1 {
		return nil, fmt.Errorf("test %s: against: pairs are of one size, as of -s 64K; give the test against: none", t.Name)
	}
	b := &beside{side: a, figure: "bw"}
	if t.command.Test.Plan.Kind == plan.Latency {
		b.figure = "p50"
	}
	words := slices.Clone(t.Run)
	if f.host != "" {
		words = slices.Insert(words, 2, f.host)
	}
	b.now.Words = append(typed(words, f.placed), "--runs", "1") // pairs are the runs
	b.base = ab.Command{Build: a.Program, Words: slices.Concat(b.now.Words, a.Flags)}
	return b, nil
}

// bindPlace adds the flags of device and peer, and remembers what was given of them for the command lines of both sides.
func (f *flags) bindPlace(fs *pflag.FlagSet) {
	f.placed = pflag.NewFlagSet("", pflag.ContinueOnError)
	f.device.Bind(f.placed)
	f.peer.Bind(f.placed)
	fs.AddFlagSet(f.placed)
}

// judge measures both sides in pairs and tells whether the test is worse than the other side by more than it may be. Nothing can be
// told where the other build is not there.
func (b *beside) judge(ctx context.Context, out output.Streams, accept stats.Accepted) (*report.Check, error) {
	within := stats.Percent(b.side.Within)
	check := &report.Check{Expression: fmt.Sprintf("%s within %s of %s", b.figure, within, b.side), Point: fmt.Sprintf("%d pairs", b.side.Pairs), Limit: within + " worse"}
	base := b.base
	if base.Build != "" {
		found, err := exec.LookPath(base.Build)
		if err != nil {
			v := stats.Unknown(stats.Missing, "install it, or --accept missing", "%v", err)
			check.Actual, check.Reason, check.Cause, check.Passed = "not there", v.InWords(), v.Cause, accept.Has(v.Cause)
			return check, nil
		}
		base.Build = found
	}
	c, err := ab.Against(ctx, out, base, b.now, b.figure, b.side.Pairs, b.side.Within)
	if err != nil {
		return nil, fmt.Errorf("against %s: %w", b.side, err)
	}
	gate, err := compare.ParseGate(fmt.Sprintf("worse>%g%%", 100*b.side.Within))
	if err != nil {
		return nil, err
	}
	p := &c.Points[0]
	missed := gate.Judge(c, accept)
	check.Actual, check.Passed = fmt.Sprintf("%+.1f %%", 100*p.Change), len(missed) == 0
	if !p.NotWorse(b.side.Within) { // within a narrower margin it may be unclear
		check.Cause = p.Cause
	}
	margin := (b.side.Within - p.WorseBy) / b.side.Within
	if check.Margin = &margin; !check.Passed {
		check.Reason = strings.Join(missed, "; ")
	}
	return check, nil
}
