package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
)

// newTestCommand is one measurement: 'gobw write', 'golat send', ...
func newTestCommand(tool string, op control.Operation, kind control.Kind, out Streams) *cobra.Command {
	flags := &testFlags{inline: -1, qps: 1, postList: 1}
	what := map[control.Kind]string{control.Bandwidth: "bandwidth", control.Latency: "latency"}[kind]
	cmd := &cobra.Command{
		Use:   string(op) + " [HOST]",
		Short: fmt.Sprintf("Measure the %s of %s", what, operationText(op)),
		Long: fmt.Sprintf("Measure the %s of %s to the host that runs '%s serve',\n"+
			"or, with --loopback, within this one. One-letter flags mean what they mean in\nperftest.", what, operationText(op), tool),
		Example: testExamples(tool, op, kind),
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := flags.config(tool, op, kind, args)
			if err != nil {
				return usageError{err}
			}
			c.Args = commandLine(tool)
			return runTest(cmd.Context(), out, c)
		},
	}
	flags.bind(cmd.Flags(), op, kind)
	groupFlags(cmd, testGroups())
	return cmd
}

func operationText(op control.Operation) string {
	return map[control.Operation]string{
		control.Write: "RDMA WRITE", control.Read: "RDMA READ", control.Send: "SEND", control.Atomic: "atomics",
	}[op]
}

func testExamples(tool string, op control.Operation, kind control.Kind) string {
	lines := []string{
		fmt.Sprintf("  %s %s --loopback", tool, op),
		fmt.Sprintf("  %s %s alpha -D 10 --save result.json", tool, op),
	}
	switch {
	case op == control.Atomic:
		lines = append(lines, fmt.Sprintf("  %s %s alpha -A CMP_AND_SWAP --runs 10", tool, op))
	case kind == control.Bandwidth:
		lines = append(lines, fmt.Sprintf("  %s %s alpha -a -q 4", tool, op), fmt.Sprintf("  %s %s alpha --sizes 64:1M --format csv", tool, op))
	default:
		lines = append(lines, fmt.Sprintf("  %s %s alpha -s 64 -n 100000", tool, op))
	}
	if op == control.Send {
		lines = append(lines, fmt.Sprintf("  %s %s alpha -c UD -s 1K", tool, op))
	}
	return strings.Join(lines, "\n")
}

// runTest measures, prints and saves, and judges.
func runTest(ctx context.Context, out Streams, c testConfig) error {
	if err := checkWritable(c.Output.Save); err != nil {
		return err
	}
	doc, err := measure(ctx, out, measureConfig{
		Tool: c.Tool, Command: c.Args, Device: c.Device, Peer: c.Peer, CPU: c.CPU, Quiet: c.Output.Quiet,
		Plan: func(d control.Dialect, port verbs.PortInfo) (control.Plan, error) { return c.finishPlan(d, port), nil },
	})
	var usage usageError
	if doc == nil || errors.As(err, &usage) {
		return err
	}
	if len(doc.Records) == 0 { // nothing to print; a file is still written
		c.Output.Format = report.Format{}
	}
	var missed error
	if err == nil {
		if doc.Checks, err = judge(c.Expect, c.Limits, doc); err == nil {
			missed = verdict(doc.Checks)
		}
	}
	return errors.Join(err, deliver(out, c.Output, doc), missed)
}

// judge checks the expectations of --expect, -w and -y against every record.
func judge(expectations []*report.Expectation, l limitConfig, d *report.Document) ([]report.Check, error) {
	checks, err := checkExpectations(expectations, d)
	if err != nil {
		return nil, err
	}
	add := func(name string, actual, least float64, unit string, r *report.Record) {
		c := report.Check{
			Expression: fmt.Sprintf("%s >= %g %s", name, least, unit), Point: r.Point().String(),
			Actual: fmt.Sprintf("%.4g %s", actual, unit), Passed: actual >= least,
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

// verdict is an error that names each missed expectation, nil if there is none.
func verdict(checks []report.Check) error {
	var missed []error
	for _, c := range checks {
		if !c.Passed {
			text := fmt.Sprintf("missed: %s at %s: %s", c.Expression, c.Point, c.Actual)
			if c.Reason != "" {
				text += " (" + c.Reason + ")"
			}
			missed = append(missed, missedError{text})
		}
	}
	return errors.Join(missed...)
}
