package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/cmd/ab"
	"github.com/gobw/gobw/internal/cli/cmd/compare"
	"github.com/gobw/gobw/internal/cli/cmd/devices"
	"github.com/gobw/gobw/internal/cli/cmd/doctor"
	"github.com/gobw/gobw/internal/cli/cmd/fabric"
	"github.com/gobw/gobw/internal/cli/cmd/noncontig"
	"github.com/gobw/gobw/internal/cli/cmd/operation"
	"github.com/gobw/gobw/internal/cli/cmd/qualify"
	"github.com/gobw/gobw/internal/cli/cmd/report"
	runprogram "github.com/gobw/gobw/internal/cli/cmd/run"
	"github.com/gobw/gobw/internal/cli/cmd/search"
	"github.com/gobw/gobw/internal/cli/cmd/serve"
	"github.com/gobw/gobw/internal/cli/cmd/setup"
	"github.com/gobw/gobw/internal/cli/cmd/version"
	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/perftest/flags"
	perftest "github.com/gobw/gobw/internal/perftest/run"
	"github.com/gobw/gobw/internal/plan"
)

// Main runs one command line and returns the exit status. args[0] is the program's name: gobw, golat, or one of
// perftest's.
func Main(args []string, out output.Streams) (code int) {
	// a fault that nobody recovers ends with SIGABRT: Go's own status is 2, which means a wrong command line
	debug.SetTraceback("crash")
	out, console := out.WithConsole()
	tool := toolName(args[0])
	ctx, stop := supervise(tool, out.Err, func(err error) {
		console.Close(time.Second)
		os.Exit(exitStatus(args[0], err)) //nolint:forbidigo // a thread may be where nothing else reaches it
	})
	defer stop()
	defer func() { console.Close(map[bool]time.Duration{false: lastResort, true: time.Second}[ctx.Err() != nil]) }()
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(out.Err, "%s: internal fault: %v\n%s\nPlease report this with the command line.\n", tool,
				p, debug.Stack())
			code = exitStatus(args[0], exit.Error{Code: exit.Failed})
		}
	}()
	if status, taken := perftest.AsTool(ctx, args, out); taken {
		return status
	}
	return run(ctx, tool, args[1:], out)
}

// exitStatus is the exit status for an error, of a program of that name. perftest's have one for all but signals.
func exitStatus(arg0 string, err error) int {
	_, named := flags.ToolNamed(arg0)
	if status := exit.Code(err); !named || status > 128 {
		return status
	}
	return perftest.PerftestFailed
}

// run executes a command line of our own programs.
func run(ctx context.Context, tool string, args []string, out output.Streams) int {
	root := newRoot(tool, out)
	root.SetArgs(args)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		unquote(root)
	}
	command, err := root.ExecuteContextC(ctx)
	err = cmdline.Explain(root, command, args, err)
	if cause := context.Cause(ctx); err != nil && cause != nil && errors.Is(err, context.Canceled) {
		err = cause
	}
	exit.Complain(out.Err, tool, err)
	return exit.Code(err)
}

// unquote takes the back quotes out of the texts of flags: help finds the name of the value by them, completion shows
// them.
func unquote(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) { _, f.Usage = pflag.UnquoteUsage(f) })
	for _, below := range c.Commands() {
		unquote(below)
	}
}

// toolName is "golat" or "gobw", whatever the file is called.
func toolName(arg0 string) string {
	name := arg0[strings.LastIndexByte(arg0, '/')+1:]
	if strings.Contains(name, "golat") {
		return "golat"
	}
	return "gobw"
}

// Command groups of the help.
const (
	groupTests   = "tests"
	groupResults = "results"
	groupSystem  = "system"
)

// newRoot builds the tree of commands of gobw or golat.
func newRoot(tool string, out output.Streams) *cobra.Command {
	kind, what, other := plan.Bandwidth, "bandwidth and message rate", "golat measures latency"
	if tool == "golat" {
		kind, what, other = plan.Latency, "latency", "gobw measures bandwidth"
	}
	root := &cobra.Command{
		Use:   tool,
		Short: "Measure RDMA " + what + "; " + other,
		Long: "Measure RDMA " + what + " between two hosts, or within one;\n" + other + ".\n\n" +
			"Start '" + tool + " serve' on one host, and a test with that host's name on the\n" +
			"other. With --loopback one command runs both ends. Without an RDMA device, tests\n" +
			"use the software device roce0. Its figures are those of software, not of a NIC.",
		Example: "  " + tool + " write --loopback\n" +
			"  " + tool + " serve                  # on host alpha\n" +
			"  " + tool + " send alpha -s 4K -D 5  # on host beta",
		SilenceUsage: true, SilenceErrors: true, DisableAutoGenTag: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			if cmd.DisableFlagParsing { // cobra's own, which completes a word that is empty yet
				return nil
			}
			return exit.With(exit.Usage, cmdline.RefuseEmpty(cmd.Flags(), args))
		},
	}
	root.SetOut(out.Out)
	root.SetErr(out.Err)
	root.SetFlagErrorFunc(cmdline.FlagError)
	root.SetGlobalNormalizationFunc(cmdline.NormalizeFlag)
	root.AddGroup(
		&cobra.Group{ID: groupTests, Title: "Tests:"},
		&cobra.Group{ID: groupResults, Title: "Results:"},
		&cobra.Group{ID: groupSystem, Title: "System:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	for _, op := range plan.Operations() {
		add(groupTests, operation.NewCommand(tool, op, kind, out))
	}
	add(groupTests, serve.NewCommand(tool, out), fabric.NewCommand(tool, kind, out), ab.NewCommand(tool, out),
		search.NewCommand(tool, kind, out))
	add(groupSystem, devices.NewCommand(tool, out), doctor.NewCommand(tool, out), version.NewCommand(tool, out))
	add(groupResults, report.NewCommand(tool, out), compare.NewCommand(tool, out))
	switch tool {
	case "gobw":
		add(groupTests, noncontig.NewCommand(tool, out))
		add(groupSystem, runprogram.NewCommand(tool, out))
		add(groupResults, qualify.NewCommand(tool, out))
	case "golat":
		add(groupTests, setup.NewCommand(tool, out), setup.NewConnectCommand(tool, out))
	}
	root.SetHelpCommandGroupID(groupSystem)
	root.SetCompletionCommandGroupID(groupSystem)
	cmdline.RefuseUnknownWords(root)
	root.SetHelpTemplate(cmdline.HelpTemplate)
	cmdline.SetHelp(root)
	return root
}
