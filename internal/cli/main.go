package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/report"
)

// Main runs one command line and returns the exit status. args[0] is the program's name: gobw, golat, or one of
// perftest's.
func Main(args []string, out Streams) (code int) {
	ctx, stop := withSignals(context.Background())
	defer stop()
	tool := toolName(args[0])
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(out.Err, "%s: internal fault: %v\n%s\nPlease report this with the command line.\n", tool, p, debug.Stack())
			code = exitFailed
		}
	}()
	if status, taken := asPerftest(ctx, args, out); taken {
		return status
	}
	return run(ctx, tool, args[1:], out)
}

// run executes a command line of our own programs.
func run(ctx context.Context, tool string, args []string, out Streams) int {
	root := newRoot(tool, out)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && isCobraUsage(err) {
		err = usageError{err}
	}
	if cause := context.Cause(ctx); err != nil && cause != nil && errors.Is(err, context.Canceled) {
		err = cause
	}
	complain(out.Err, tool, err)
	return exitCode(err)
}

// toolName is "golat" or "gobw", whatever the file is called.
func toolName(arg0 string) string {
	name := arg0[strings.LastIndexByte(arg0, '/')+1:]
	if strings.Contains(name, "golat") {
		return "golat"
	}
	return "gobw"
}

// lastResort is how long a command may take to end after a signal before the same signal ends it outright.
const lastResort = 15 * time.Second

// withSignals returns a context that the first SIGINT or SIGTERM ends, with the signal as the cause; a second one kills
// the process as if nobody listened, and so does the first one itself when the command does not end for lastResort.
func withSignals(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			cancel(signalError{s})
			select {
			case <-done:
			case <-time.After(lastResort):
				_ = syscall.Kill(os.Getpid(), s.(syscall.Signal)) //nolint:errcheck,forcetypeassert // os/signal delivers nothing else
			}
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}

// Command groups of the help.
const (
	groupTests   = "tests"
	groupResults = "results"
	groupSystem  = "system"
)

// newRoot builds the tree of commands of gobw or golat.
func newRoot(tool string, out Streams) *cobra.Command {
	kind, what := control.Bandwidth, "bandwidth and message rate"
	if tool == "golat" {
		kind, what = control.Latency, "latency"
	}
	root := &cobra.Command{
		Use:   tool,
		Short: "Measure RDMA " + what,
		Long: "Measure RDMA " + what + " between two hosts, or within one.\n\n" +
			"Start '" + tool + " serve' on one host, and a test with that host's name on the\n" +
			"other. With --loopback one command runs both ends. Where there is no RDMA\n" +
			"device the embedded software device roce0 is used; its numbers are this\n" +
			"machine's, not a NIC's.",
		Example: "  " + tool + " write --loopback\n" +
			"  " + tool + " serve                  # on host alpha\n" +
			"  " + tool + " send alpha -s 4K -D 5  # on host beta",
		SilenceUsage: true, SilenceErrors: true, DisableAutoGenTag: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	root.SetOut(out.Out)
	root.SetErr(out.Err)
	root.SetFlagErrorFunc(flagError)
	root.SetGlobalNormalizationFunc(normalizeFlag)
	root.AddGroup(
		&cobra.Group{ID: groupTests, Title: "Tests:"},
		&cobra.Group{ID: groupResults, Title: "Results:"},
		&cobra.Group{ID: groupSystem, Title: "System:"},
	)
	for _, op := range []control.Operation{control.Write, control.Read, control.Send, control.Atomic} {
		root.AddCommand(grouped(groupTests, newTestCommand(tool, op, kind, out)))
	}
	root.AddCommand(grouped(groupTests, newServeCommand(tool, out)))
	root.AddCommand(
		grouped(groupSystem, newDevicesCommand(tool, out)),
		grouped(groupSystem, newDoctorCommand(tool, out)),
		grouped(groupSystem, newInstallLinksCommand(tool, out)),
		grouped(groupSystem, newVersionCommand(tool, out)),
	)
	addExperiments(root, tool, out)
	addResults(root, tool, out)
	root.SetHelpCommandGroupID(groupSystem)
	root.SetCompletionCommandGroupID(groupSystem)
	refuseUnknownWords(root)
	root.SetHelpTemplate(helpTemplate)
	root.SetUsageTemplate(usageTemplate(root.UsageTemplate()))
	return root
}

func grouped(id string, c *cobra.Command) *cobra.Command {
	c.GroupID = id
	return c
}

// isCobraUsage tells the errors that cobra makes itself.
func isCobraUsage(err error) bool {
	for _, s := range []string{"unknown command", "unknown flag", "unknown shorthand", "accepts ", "requires at least", "invalid argument", "flag needs an argument"} {
		if strings.HasPrefix(err.Error(), s) {
			return true
		}
	}
	return false
}

// flagError words a refused flag, with the nearest right one.
func flagError(c *cobra.Command, err error) error {
	text := err.Error()
	if name, found := strings.CutPrefix(text, "unknown flag: --"); found {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if near := report.Nearest(name, names); near != "" {
			text += fmt.Sprintf("; did you mean --%s?", near)
		}
	} else if strings.HasPrefix(text, "unknown shorthand flag: ") {
		text += fmt.Sprintf("; '%s --help' lists all", c.CommandPath())
	} else if m := regexp.MustCompile(`^invalid argument (".*") for "(.*)" flag: (.*)$`).FindStringSubmatch(text); m != nil {
		text = fmt.Sprintf("%s %s: %s", m[2], m[1], badNumber(m[3]))
	}
	return usageError{errors.New(text)}
}

// badNumber says what a flag wants, in place of the Go function that refused its value.
func badNumber(reason string) string {
	switch {
	case strings.HasPrefix(reason, "strconv.ParseFloat"):
		return "want a number, such as 2.5"
	case strings.HasPrefix(reason, "strconv.ParseUint"):
		return "want a whole number, 0 or more"
	case strings.HasPrefix(reason, "strconv.ParseInt"):
		return "want a whole number"
	case strings.HasPrefix(reason, "strconv.ParseBool"):
		return "want true or false, or the flag alone"
	}
	return reason
}

// noArguments refuses words that are no flags, and argumentCount a wrong number of them.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%q: '%s' takes flags only; '%s --help' lists them", args[0], cmd.CommandPath(), cmd.CommandPath())}
	}
	return nil
}

func argumentCount(low, high int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < low || len(args) > high {
			return usageError{fmt.Errorf("%d words after '%s': want %s", len(args), cmd.CommandPath(), what)}
		}
		return nil
	}
}

// refuseUnknownWords has cobra's own commands fail where they would print their help: a typing error is none's success.
func refuseUnknownWords(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Run = nil
			c.RunE = func(c *cobra.Command, args []string) error {
				topic, rest, err := root.Find(args)
				if err != nil || len(rest) > 0 {
					return usageError{fmt.Errorf("%q is no command: '%s --help' lists all", strings.Join(args, " "), root.Name())}
				}
				return topic.Help()
			}
		case "completion":
			c.Args = cobra.ArbitraryArgs
			c.RunE = func(c *cobra.Command, args []string) error {
				if len(args) > 0 {
					return usageError{fmt.Errorf("no completion for %q: there are bash, fish, powershell and zsh", args[0])}
				}
				return c.Help()
			}
		}
	}
}
