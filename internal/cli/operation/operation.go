// Package operation is the commands that measure one operation: write, read, send, atomic.
package operation

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/expect"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/render"
	"github.com/gobw/gobw/report/stats"
)

// NewCommand is one measurement: 'gobw write', 'golat send', ...
func NewCommand(tool string, op plan.Operation, kind plan.Kind, out output.Streams) *cobra.Command {
	flags := &Flags{Inline: -1, Qps: 1, PostList: 1}
	what := map[plan.Kind]string{plan.Bandwidth: "bandwidth", plan.Latency: "latency"}[kind]
	cmd := &cobra.Command{
		Use:   string(op) + " [HOST]",
		Short: fmt.Sprintf("Measure the %s of %s", what, plan.RowOf(op).Text),
		Long: strings.Join(plain.WrapWith(fmt.Sprintf("Measure the %s of %s to the host that runs '%s serve', or, with --loopback, within this one. "+
			"One-letter flags mean what they mean in perftest.", what, plan.RowOf(op).Text, tool), cmdline.HelpWidth, ""), "\n"),
		Example: testExamples(tool, op, kind),
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := flags.Config(tool, op, kind, args)
			if err != nil {
				return exit.UsageError{Err: err}
			}
			c.Args = measure.CommandLine(tool)
			if flags.resume {
				if c.before, err = before(cmd.Flags(), op, kind, c.Output.Save); err != nil {
					return exit.UsageError{Err: err}
				}
			}
			return run(cmd.Context(), out, c)
		},
	}
	flags.Bind(cmd.Flags(), op, kind)
	cmdline.GroupFlags(cmd, groups())
	return cmd
}

func testExamples(tool string, op plan.Operation, kind plan.Kind) string {
	lines := []string{
		fmt.Sprintf("  %s %s --loopback", tool, op),
		fmt.Sprintf("  %s %s alpha -D 10 --save result.json", tool, op),
	}
	switch {
	case plan.RowOf(op).Counter:
		lines = append(lines, fmt.Sprintf("  %s %s alpha -A CMP_AND_SWAP --runs 10", tool, op))
	case kind == plan.Bandwidth:
		lines = append(lines, fmt.Sprintf("  %s %s alpha -a -q 4", tool, op), fmt.Sprintf("  %s %s alpha --sizes 64:1M --format csv", tool, op))
	default:
		lines = append(lines, fmt.Sprintf("  %s %s alpha -s 64 -n 100000", tool, op))
	}
	if op == plan.Send {
		lines = append(lines, fmt.Sprintf("  %s %s alpha -c UD -s 1K", tool, op))
	}
	return strings.Join(lines, "\n")
}

// run measures, prints and saves, and judges.
func run(ctx context.Context, out output.Streams, c Config) error {
	if err := output.CheckWritable(c.Output.Save, c.Output.OpenMetrics); err != nil {
		return err
	}
	config := measure.Config{
		Tool: c.Tool, Command: c.Args, Device: c.Device, Peer: c.Peer, CPU: c.CPU, Quiet: c.Output.Quiet,
		Plan: c.Plan,
	}
	var doc *report.Document
	var err error
	if c.Threads.auto {
		doc, err = measureThreads(ctx, out, config, c.Threads)
	} else {
		doc, err = sweep(ctx, out, config, c)
	}
	var usage exit.UsageError
	if doc == nil || errors.As(err, &usage) {
		return err
	}
	if len(doc.Records) == 0 { // nothing to print; a file is still written
		c.Output.Format = render.Format{}
	}
	var missed error
	if err == nil {
		if doc.Checks, err = Judge(c.Expect, c.Accept, c.Limits, doc); err == nil {
			missed = Verdict(doc.Checks)
		}
	}
	return errors.Join(err, output.Deliver(out, c.Output, doc), missed)
}

// Judge checks the expectations of --expect, -w and -y against every record.
func Judge(expectations []*expect.Expectation, accept stats.Accepted, l limitConfig, d *report.Document) ([]report.Check, error) {
	checks, err := checkExpectations(expectations, accept, d)
	if err != nil {
		return nil, err
	}
	add := func(name string, actual, least float64, unit string, r *report.Record) {
		c := report.Check{
			Expression: fmt.Sprintf("%s >= %g %s", name, least, unit), Point: r.Point().String(),
			Actual: fmt.Sprintf("%.4g %s", actual, unit), Passed: actual >= least && !math.IsInf(actual, 0),
		}
		checks = append(checks, c)
	}
	for i := range d.Records {
		r := &d.Records[i]
		if l.BitsPerS > 0 {
			add("bandwidth", r.Bandwidth.AverageBitsPerS/1e9, l.BitsPerS/1e9, "Gb/s", r)
		}
		if l.MessagesPerS > 0 {
			add("rate", r.MessagesPerS/1e6, l.MessagesPerS/1e6, "M messages/s", r)
		}
	}
	return checks, nil
}

// Verdict is an error that names each missed expectation, nil if there is none.
func Verdict(checks []report.Check) error {
	var missed []error
	for _, c := range checks {
		if !c.Passed {
			text := fmt.Sprintf("missed: %s at %s: %s", c.Expression, c.Point, c.Actual)
			text += plain.When(c.Reason != "", " (%s)", c.Reason)
			missed = append(missed, exit.MissedError{What: text})
		}
	}
	return errors.Join(missed...)
}
