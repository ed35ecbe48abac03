package qualify

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/noncontig"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/cli/operation"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/expect"
	"github.com/gobw/gobw/report/plain"
)

// parsedRun is the command line of a test in a plan.
type parsedRun struct {
	Test *operation.Config
	grid *noncontig.Config
}

// place says where the test runs, which the plan leaves to the command line of qualify.
func (r *parsedRun) place(d opendevice.Config, p measure.PeerConfig, cpu bench.CPUChoice) {
	if r.grid != nil {
		r.grid.Device, r.grid.Peer, r.grid.CPU = d, p, cpu
		return
	}
	r.Test.Device, r.Test.Peer, r.Test.CPU = d, p, cpu
}

// measure runs the test as its own command would, and prints nothing.
func (r *parsedRun) measure(ctx context.Context, out output.Streams, quiet bool) (*report.Document, error) { //nolint:revive // quiet is the user's flag
	if r.grid != nil {
		c := *r.grid
		c.Quiet = quiet || !out.ErrTerminal
		return noncontig.Measure(ctx, out, c)
	}
	c := *r.Test
	return measure.Run(ctx, out, measure.Config{
		Tool: c.Tool, Command: c.Args, Device: c.Device, Peer: c.Peer, CPU: c.CPU, Quiet: quiet,
		Plan: c.Plan,
	})
}

// args is the command line, as one would type it.
func (r *parsedRun) args() []string {
	if r.grid != nil {
		return r.grid.Args
	}
	return r.Test.Args
}

// regression expects of a test that it be no worse than the same one in a file, by a share such as 10%.
func (r *parsedRun) regression(file, within, name string) (*expect.Expectation, error) {
	figure := "bw"
	if r.Test != nil && r.Test.Plan.Kind == plan.Latency {
		figure = "p50"
	}
	if _, err := os.Stat(file); err != nil {
		return nil, fmt.Errorf("--baseline: %w", err)
	}
	quote := "'"
	if strings.Contains(file, quote) {
		quote = `"`
	}
	e, err := expect.Parse(fmt.Sprintf("%s within %s of %s%s%s", figure, within, quote, file, quote), expect.Options{Dir: ".", Test: name})
	return e, cmdline.Prefixed("--baseline and --within", err)
}

// checkRun finds what is wrong with a command line of a plan, and tells kind and transport of its test and, for a grid,
// the names of its strategies.
func checkRun(words []string) (kind, transport string, names []string, errs []error) {
	run, errs := ParseRun(words, TestLength{})
	switch {
	case run.Test != nil:
		return string(run.Test.Plan.Kind), run.Test.Plan.Transport.String(), nil, errs
	case run.grid != nil:
		for _, shape := range run.grid.Shapes {
			for _, s := range plan.Strategies(shape) {
				names = plain.AddNew(names, s.Name)
			}
		}
		return string(plan.Bandwidth), run.grid.Transport.String(), names, errs
	}
	return "", "", nil, errs
}

// ParseRun reads the command line of a test in a plan and stretches the test.
func ParseRun(words []string, length TestLength) (parsedRun, []error) {
	commands := plain.Each(plan.Operations(), func(op plan.Operation) string { return string(op) })
	kind := plan.Latency
	if words[0] == "gobw" {
		commands = append(commands, "noncontig")
		kind = plan.Bandwidth
	}
	if len(words) < 2 || !slices.Contains(commands, words[1]) {
		word := ""
		if len(words) > 1 {
			word = words[1]
		}
		return parsedRun{}, []error{fmt.Errorf("%s has no test %q%s (it has %s)", words[0], word, cmdline.DidYouMean(word, commands), strings.Join(commands, ", "))}
	}
	cmd := &cobra.Command{Use: words[1]}
	cmd.SetGlobalNormalizationFunc(cmdline.NormalizeFlag)
	test, grid := &operation.Flags{Inline: -1, Qps: 1, PostList: 1}, &noncontig.Flags{}
	if words[1] == "noncontig" {
		grid.Bind(cmd.Flags())
	} else {
		test.Bind(cmd.Flags(), plan.Operation(words[1]), kind)
	}
	if err := cmd.ParseFlags(words[2:]); err != nil {
		return parsedRun{}, []error{cmdline.FlagError(cmd, err)}
	}
	if errs := misplaced(cmd.Flags()); len(errs) > 0 {
		return parsedRun{}, errs
	}
	var r parsedRun
	config := func() (err error) {
		if words[1] == "noncontig" {
			grid.Peer.Loopback = true // replaced by place
			var c noncontig.Config
			c, err = grid.Config(words[0], nil)
			r.grid = &c
			return err
		}
		test.Peer.Loopback = true
		var c operation.Config
		c, err = test.Config(words[0], plan.Operation(words[1]), kind, nil)
		r.Test = &c
		return err
	}
	err := config()
	if err == nil && !length.asPlanned() {
		if err = length.stretch(cmd.Flags(), r); err == nil {
			err = config()
		}
		words = typed(words[:2], cmd.Flags())
	}
	if err != nil {
		return parsedRun{}, []error{err}
	}
	if r.grid != nil {
		r.grid.Args = words
	} else {
		r.Test.Args = words
	}
	return r, nil
}

// misplaced are the flags and words of a test that belong to qualify's own command line, or to the plan's keys.
func misplaced(typed *pflag.FlagSet) []error {
	var device, peer pflag.FlagSet
	(&opendevice.Flags{}).Bind(&device)
	(&measure.PeerFlags{}).Bind(&peer)
	var wrong cmdline.Faults
	typed.Visit(func(f *pflag.Flag) {
		among := func(names ...string) bool { return slices.Contains(names, f.Name) }
		wrong.If(device.Lookup(f.Name) != nil || peer.Lookup(f.Name) != nil, "--%s belongs to the command line of qualify, not to the plan", f.Name)
		wrong.If(among("format", "save", "openmetrics", "quiet", "resume"),
			"--%s has no place in a plan: qualify writes the results (--json, --junit, --html)", f.Name)
		wrong.If(among("expect", "accept", "limit-bw", "limit-msgrate"), "--%s: the plan says what it expects under the key expect", f.Name)
	})
	if rest := typed.Args(); len(rest) > 0 {
		wrong.Add("unexpected %q: the peer belongs to the command line of qualify", rest[0])
	}
	return wrong
}
