// Package qualify is the command 'qualify': a plan of tests and a verdict.
package qualify

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/gate"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report/expect"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/qualify"
	"github.com/gobw/gobw/report/render"
	"github.com/gobw/gobw/report/stats"
)

// flags are the flags of 'qualify' as they were typed.
type flags struct {
	line                   float64 // bits/s, 0: the link's own
	accept                 stats.Accepted
	only, leaveOut, expect []string
	runs                   int
	show                   bool
	label                  string
	measure.Flags
	wrong cmdline.Faults // of what was typed
}

// config is a validated qualification.
type config struct {
	measure.Config
	Plan   *qualify.Plan
	Tests  []planned
	Line   float64                // bits/s, 0: the link's own
	Resume *qualify.Qualification // nil: from the start
	Accept stats.Accepted
	Label  string
}

// planned is one test of a plan, ready to run.
type planned struct {
	qualify.Test
	leftOut []string // expectations that --leave-out leaves out
}

func (t *planned) command() string { return strings.Join(t.Words, " ") }

//go:embed help.txt
var help string

// NewCommand makes 'qualify'.
func NewCommand(tool string, out output.Streams) *cobra.Command {
	f := &flags{}
	cmd := cmdline.Command(tool, help)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.show {
			if len(args) != 1 || cmd.Flags().NFlag() > 1 {
				return exit.With(exit.Usage,
					fmt.Errorf("--print: want the name of a plan alone: %s qualify nic --print > mine.yaml", tool))
			}
			text, err := qualify.ShippedPlan(args[0])
			if err != nil {
				return exit.With(exit.Usage, err)
			}
			_, err = out.Out.Write(text)
			return err
		}
		return cmdline.Run(
			func(args []string) (config, error) { return f.config(tool, args, cmd.Flags()) },
			func(ctx context.Context, c config) error { return run(ctx, out, c) },
		)(cmd, args)
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringSliceVar(&f.only, "only", nil, "run only these `TESTS` of the plan: write-64k,read-64k")
	fs.IntVar(&f.runs, "runs", 0, "run each test this many times (default: as in the plan)")
	fs.BoolVar(&f.show, "print", false, "print a shipped plan, to start your own plan from")
	cmdline.Group(fs, "Plan")
	fs.StringArrayVar(&f.expect, "expect", nil, "each test must also meet this `RULE`: 'worse<5% of accepted.json'")
	gate.Accept(fs, &f.wrong, &f.accept)
	cmdline.Parsed(fs, &f.wrong, &f.line, "line", "", "", "the line `RATE`, if the device does not report it: 25Gb/s",
		plan.ParseRate)
	fs.StringSliceVar(&f.leaveOut, "leave-out", nil,
		"skip this `KIND` of expectations of the plan: line (line rate), counters, all")
	cmdline.Group(fs, "Verdict")
	fs.StringVar(&f.label, "label",
		"", "`NAME` in the result, such as a student's: 'gobw report --grades' lists results by it")
	f.Bind(fs, render.QualificationFormats())
	f.Output.Resumable(fs, "skip the tests that finished in the --save file")
	cmdline.Group(fs, "Result")
	cmdline.Brief(cmd, "device", "loopback", "only", "print", "runs", "expect", "save")
	return cmd
}

// config checks the flags and names all mistakes at once.
func (f *flags) config(tool string, args []string, typed *pflag.FlagSet) (config, error) {
	c, wrong := config{Line: f.line, Accept: f.accept, Label: f.label}, slices.Clone(f.wrong)
	if len(args) == 0 || len(args) > 2 {
		return c, errors.New("want a plan and a host: gobw qualify nic HOST, or gobw qualify quick -d roce0 --loopback")
	}
	var err error
	c.Config = f.Config(&wrong, tool, args[1:])
	c.Device.Strict = true
	kinds := []string{leaveLine, leaveCounters, leaveAll}
	for _, kind := range f.leaveOut {
		wrong.If(!slices.Contains(kinds, kind), "--leave-out %q%s: want line, counters or all", kind,
			plain.Suggest(kind, kinds))
	}
	c.Resume, err = output.Previous(c.Output, qualify.Load)
	wrong.Note(err)
	wrong.If(f.runs < 0 || f.runs > 1000, "--runs %d: want 1 to 1000", f.runs)
	o := qualify.Options{
		Parse: parse, Typed: flagsOf, Bytes: plan.ParseBytes, Unread: slices.Contains(f.leaveOut, leaveAll),
	}
	if f.runs > 0 {
		o.Flags = []string{"--runs", strconv.Itoa(f.runs)}
	}
	c.Plan, err = qualify.LoadPlan(args[0], o)
	if err != nil && len(args) == 2 && slices.Contains(qualify.ShippedPlans(), args[1]) {
		err = fmt.Errorf("PLAN comes first: %s qualify %s %s", tool, args[1], args[0])
	}
	wrong.Note(err)
	if err := errors.Join(wrong...); err != nil {
		return c, err
	}
	if c.Resume != nil {
		if err := c.Output.CheckSame(c.Resume.Command, NewCommand(tool, output.Streams{}).Flags(), typed); err != nil {
			return c, err
		}
	}
	chosen, err := chooseTests(c.Plan, f.only)
	if err != nil {
		return c, err
	}
	return c, f.tests(&c, chosen)
}

// tests makes the tests ready to run, on the device and against the peer of the command line.
func (f *flags) tests(c *config, chosen []qualify.Test) error {
	for _, one := range chosen {
		t := planned{Test: one}
		t.leaveOut(f.leaveOut)
		for _, text := range f.expect {
			e, err := t.Parse(text, expect.Options{Dir: "."})
			if err != nil {
				_, misspelt := errors.AsType[*expect.Error](err)
				return fmt.Errorf("--expect: test %s: %w%s", t.Name, err,
					plain.When(!misspelt, "; leave it out with --only, or write the rule into the plan"))
			}
			t.Expect = append(t.Expect, e)
		}
		if t.Program() {
			if !slices.ContainsFunc(t.Expect, func(e *expect.Expectation) bool { return e.Judges(expect.ExitCode) }) {
				passes, err := t.Parse(expect.ExitCode+" == 0", expect.Options{})
				if err != nil {
					return err
				}
				t.Expect = append(t.Expect, passes)
			}
		} else {
			at := t.Run.(*test).setting()
			at.Command, at.Device, at.Peer = t.Words, c.Device, c.Peer
		}
		c.Tests = append(c.Tests, t)
	}
	return nil
}

// What --leave-out leaves out.
const (
	leaveLine     = "line"
	leaveCounters = "counters"
	leaveAll      = "all"
)

// leaveOut drops expectations of some kinds, and remembers them.
func (t *planned) leaveOut(kinds []string) {
	all := t.Expect
	t.Expect = nil
	for _, e := range all {
		if slices.Contains(kinds, leaveAll) || slices.Contains(kinds, leaveLine) && e.UsesLine() ||
			slices.Contains(kinds, leaveCounters) && e.OfCounter() {
			t.leftOut = append(t.leftOut, e.String())
		} else {
			t.Expect = append(t.Expect, e)
		}
	}
}

// chooseTests takes the tests of --only and those whose figures they refer to.
func chooseTests(p *qualify.Plan, only []string) ([]qualify.Test, error) {
	if len(only) == 0 {
		return p.Tests, nil
	}
	names := plain.Each(p.Tests, func(t qualify.Test) string { return t.Name })
	wanted := map[string]bool{}
	for _, name := range only {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("--only: the plan has no test %q%s; it has %s", name, plain.Suggest(name, names),
				strings.Join(names, ", "))
		}
		wanted[name] = true
	}
	for _, t := range slices.Backward(p.Tests) { // tests refer to earlier ones only
		if wanted[t.Name] {
			for _, e := range t.Expect {
				for _, other := range e.Tests() {
					wanted[other] = true
				}
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(p.Tests), func(t qualify.Test) bool { return !wanted[t.Name] }), nil
}
