// Package operation is the commands that measure one operation: write, read, send, atomic.
package operation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
)

// NewCommand is one measurement: 'gobw write', 'golat send', ...
func NewCommand(tool string, op plan.Operation, kind plan.Kind, out output.Streams) *cobra.Command {
	flags := &flags{}
	what := map[plan.Kind]string{plan.Bandwidth: "bandwidth", plan.Latency: "latency"}[kind]
	cmd := &cobra.Command{
		Use:   string(op) + " [HOST]",
		Short: fmt.Sprintf("Measure the %s of %s", what, plan.RowOf(op).Text),
		Long: strings.Join(plain.WrapWith(fmt.Sprintf("Measure the %s of %s. HOST runs '%s serve'. With --loopback, "+
			"both ends run on this machine. "+
			"One-letter flags mean the same as in perftest.", what, plan.RowOf(op).Text, tool), cmdline.HelpWidth, ""), "\n"),
		Example: testExamples(tool, op, kind),
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := flags.config(tool, args)
			if err != nil {
				return exit.With(exit.Usage, err)
			}
			if c.before, err = output.Previous(c.Output, report.Load); err != nil {
				return err
			}
			if c.before != nil {
				if err := checkBefore(c, cmd.Flags(), op, kind); err != nil {
					return exit.With(exit.Usage, err)
				}
			}
			return c.Deliver(out, func() (*report.Document, error) { return sweep(cmd.Context(), out, c) })
		},
	}
	flags.bind(cmd.Flags(), op, kind)
	cmdline.Brief(cmd, "size", "all", "duration", "qp", "connection", "device", "loopback", "expect", "save")
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
		lines = append(lines, fmt.Sprintf("  %s %s alpha -a -q 4", tool, op),
			fmt.Sprintf("  %s %s alpha -s 64:1M --format csv", tool, op))
	default:
		lines = append(lines, fmt.Sprintf("  %s %s alpha -s 64 -n 100000", tool, op))
	}
	if op == plan.Send {
		lines = append(lines, fmt.Sprintf("  %s %s alpha -c UD -s 1K", tool, op))
	}
	return strings.Join(lines, "\n")
}

// command is the program's command for a line, with its flags: program, operation, flags.
func command(words []string) (*flags, *cobra.Command, error) {
	kind := map[string]plan.Kind{"gobw": plan.Bandwidth, "golat": plan.Latency}[words[0]]
	if len(words) < 2 || kind == "" || !slices.Contains(plan.Operations(), plan.Operation(words[1])) {
		return nil, nil, fmt.Errorf("%q: want a test, such as 'gobw write' or 'golat send'", strings.Join(words, " "))
	}
	f, cmd := &flags{}, &cobra.Command{Use: words[1]}
	(&cobra.Command{Use: words[0]}).AddCommand(cmd) // by whose name its errors call it
	cmd.SetGlobalNormalizationFunc(cmdline.NormalizeFlag)
	f.bind(cmd.Flags(), plan.Operation(words[1]), kind)
	return f, cmd, nil
}

// FlagsOf are the flags of a test's command line, with nothing set.
func FlagsOf(words []string) (*pflag.FlagSet, error) {
	_, cmd, err := command(words)
	if err != nil {
		return nil, err
	}
	return cmd.Flags(), nil
}

// Parse reads the command line of a test that another command runs. check sees the typed flags first.
func Parse(words []string, check func(typed *pflag.FlagSet) error) (Config, error) {
	f, cmd, err := command(words)
	if err != nil {
		return Config{}, err
	}
	if err := cmd.ParseFlags(words[2:]); err != nil {
		return Config{}, cmdline.FlagError(cmd, err)
	}
	if err := check(cmd.Flags()); err != nil {
		return Config{}, err
	}
	c, err := f.config(words[0], cmd.Flags().Args())
	c.Command = words
	return c, err
}
