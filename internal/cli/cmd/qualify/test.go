package qualify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/cmd/noncontig"
	"github.com/gobw/gobw/internal/cli/cmd/operation"
	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/qualify"
)

// test is the parsed command line of a test: of one operation, or of a grid.
type test struct {
	operation operation.Config
	grid      *noncontig.Config
}

// Kind implements [qualify.Run].
func (t *test) Kind() (kind, transport string) {
	if t.grid != nil {
		return string(plan.Bandwidth), t.grid.Transport.String()
	}
	return string(t.operation.Plan.Kind), t.operation.Plan.Transport.String()
}

// Strategies implements [qualify.Run].
func (t *test) Strategies() (names []string) {
	if t.grid != nil {
		names = noncontig.Names(t.grid.Shapes)
	}
	return names
}

// parse reads the command line of a test in a plan. Where it runs is left to the command line of qualify.
func parse(words []string, read qualify.ReadFile) (qualify.Run, error) {
	loopback := func(typed *pflag.FlagSet) error { // stands for any place
		if err := cmp.Or(cmdline.SingleDash(typed, words), misplaced(typed)); err != nil {
			return err
		}
		return typed.Set("loopback", "true")
	}
	if len(words) > 1 && words[0] == "gobw" && words[1] == "noncontig" {
		f, cmd := grid(read)
		if err := cmd.ParseFlags(words[2:]); err != nil {
			return nil, cmdline.FlagError(cmd, err)
		}
		if err := loopback(cmd.Flags()); err != nil {
			return nil, err
		}
		c, err := f.Config(words[0], nil)
		return &test{grid: &c}, err
	}
	commands := plain.Each(plan.Operations(), func(op plan.Operation) string { return string(op) })
	if words[0] == "gobw" {
		commands = append(commands, "noncontig")
	}
	if word := append(words, "")[1]; !slices.Contains(commands, word) {
		return nil, fmt.Errorf("%s has no test %q%s; it has %s", words[0], word, plain.Suggest(word, commands),
			strings.Join(commands, ", "))
	}
	c, err := operation.Parse(words, loopback)
	return &test{operation: c}, err
}

// grid is the command of noncontig with its flags.
func grid(read qualify.ReadFile) (*noncontig.Flags, *cobra.Command) {
	f, cmd := &noncontig.Flags{ReadFile: read}, &cobra.Command{Use: "noncontig"}
	cmd.SetGlobalNormalizationFunc(cmdline.NormalizeFlag)
	f.Bind(cmd.Flags())
	return f, cmd
}

// flagsOf are the flags of a test's command line.
func flagsOf(words []string) (list []qualify.Flag, err error) {
	var fs *pflag.FlagSet
	if len(words) > 1 && words[0] == "gobw" && words[1] == "noncontig" {
		_, cmd := grid(nil)
		fs = cmd.Flags()
	} else if fs, err = operation.FlagsOf(words); err != nil {
		return nil, err
	}
	err = fs.ParseAll(words[2:], func(f *pflag.Flag, value string) error {
		list = append(list, qualify.Flag{Name: f.Name, Value: value})
		return nil
	})
	if err == nil && fs.NArg() > 0 {
		err = fmt.Errorf("unexpected %q", fs.Arg(0))
	}
	return list, err
}

// misplaced are the flags and words of a test that belong to qualify's own command line, or to the plan's keys.
func misplaced(typed *pflag.FlagSet) error {
	var place pflag.FlagSet
	(&opendevice.Flags{}).Bind(&place)
	(&measure.PeerFlags{}).Bind(&place)
	var wrong cmdline.Faults
	typed.Visit(func(f *pflag.Flag) {
		among := func(names ...string) bool { return slices.Contains(names, f.Name) }
		wrong.If(place.Lookup(f.Name) != nil, "--%s: give it to qualify, not in the plan", f.Name)
		wrong.If(among("format", "save", "quiet", "resume"),
			"--%s cannot be in a plan: qualify writes the results (--save)", f.Name)
		wrong.If(among("expect", "accept"), "--%s: in a plan, use the key expect", f.Name)
	})
	if rest := typed.Args(); len(rest) > 0 {
		wrong.Add("unexpected %q: give the peer to qualify, not in the plan", rest[0])
	}
	return errors.Join(wrong...)
}

// setting is where the test runs, and as what it is recorded.
func (t *test) setting() *measure.Config {
	if t.grid != nil {
		return &t.grid.Config
	}
	return &t.operation.Config
}

// measure runs the test as its own command would, and prints nothing.
//
//nolint:revive // quiet is the user's flag
func (t *test) measure(ctx context.Context, out output.Streams, quiet bool) (*report.Document, error) {
	if t.grid != nil {
		t.grid.Output.Quiet = quiet || !out.ErrTerminal
		return noncontig.Measure(ctx, out, *t.grid)
	}
	t.operation.Output.Quiet = quiet
	return measure.Run(ctx, out, t.operation.Config)
}
