// Package search is the command 'search': the best settings of a test, sizes that fall off, combinations that are slow.
package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/operation"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report/plain"
)

// Questions.
const (
	best      = "best"
	dips      = "dips"
	anomalies = "anomalies"
)

// What best goes by.
const (
	byRate    = "rate"
	byLatency = "latency"
	byCPU     = "cpu"
)

// mostTestTime is the longest test: a search makes hundreds.
const mostTestTime = 15 * time.Second

// commandFlags are the flags as they were typed.
type commandFlags struct {
	by, sizes, limit, testTime, seed string
	points                           int
	only                             []string
	fix                              []string
	failOnFinding                    bool
	output                           output.Flags
}

// config is what to look for.
type config struct {
	Tool, Question string
	Words          []string // of the test
	Test           operation.Config
	Args           []string // the command line, for the document
	By             string
	Low, High      int // sizes of dips
	Limit          time.Duration
	Points         int
	Only           []string
	Fix            map[string]string
	Seed           uint64
	Output         output.Config
	FailOnFinding  bool
	typed          *pflag.FlagSet // of the test
}

// NewCommand makes 'search'.
func NewCommand(tool string, kind plan.Kind, out output.Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "search",
		Short: "Find the best settings, or slow sizes" + plain.When(kind == plan.Bandwidth, ", or slow combinations"),
		Long: "Run hundreds of short tests to answer a question. When the search finds\n" +
			"something, it measures this again, in pairs. Put the test and its flags in\nquotes.",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.UsageError{Err: fmt.Errorf("%q is no question of %s; there are %s: %s best 'write HOST'%s", args[0], tool, strings.Join(plain.Each(c.Commands(), (*cobra.Command).Name), ", "), c.CommandPath(),
					plain.When(args[0] == anomalies, "; for this one: gobw search anomalies HOST"))}
			}
			return c.Help()
		},
		Example: "  " + tool + " search best '" + map[plan.Kind]string{plan.Bandwidth: "write alpha -s 4K", plan.Latency: "send alpha"}[kind] + "'",
	}
	const group = "questions"
	root.AddGroup(&cobra.Group{ID: group, Title: "Questions:"})
	root.AddCommand(newQuestion(tool, best, "Find the fastest settings; within 2 %, prefer small values", kind, out))
	root.AddCommand(newQuestion(tool, dips, "Find sizes that are slower than their neighbours", kind, out))
	if kind == plan.Bandwidth {
		root.AddCommand(newQuestion(tool, anomalies, "Find settings that are slow only together", kind, out))
	}
	for _, c := range root.Commands() {
		c.GroupID = group
	}
	return root
}

func newQuestion(tool, question, short string, kind plan.Kind, out output.Streams) *cobra.Command {
	f := &commandFlags{}
	cmd := &cobra.Command{
		Use: question + " 'TEST'", Short: short,
		Long: short + ".\n\nThe test is a command line of " + tool + " in quotes, as in 'write alpha -s 4K' or\n'write --loopback'.\n" +
			map[string]string{
				best:      "The search does not change settings that the test names.",
				dips:      "The search runs the test with many sizes.",
				anomalies: "In place of TEST, the name of a host is enough.",
			}[question],
		Args: cmdline.ArgumentCount(1, 1, "one test, in quotes"),
		RunE: cmdline.Run(
			func(args []string) (config, error) { return f.config(tool, question, kind, args[0]) },
			func(ctx context.Context, c config) error { return run(ctx, out, c) },
		),
	}
	cmd.Example = map[string]string{
		best:      "  " + tool + " search best 'write alpha -s 4K'\n  " + tool + " search best 'write --loopback' --only qp,tx-depth",
		dips:      "  " + tool + " search dips 'read alpha' --size 2:8M",
		anomalies: "  " + tool + " search anomalies alpha --time 30m --save nic.json\n  " + tool + " search anomalies 'write --loopback' --time 2m --fix connection=RC",
	}[question]
	fs := cmd.Flags()
	fs.SortFlags = false
	length := map[string]string{anomalies: "10m"}[question]
	fs.StringVar(&f.limit, "time", length, "end after this `TIME`: 30m")
	fs.IntVar(&f.points, "points", 0, "end after `N` tests")
	fs.StringVar(&f.testTime, "test-time", "100ms", "measure each test for `TIME`")
	switch question {
	case dips:
		fs.StringVarP(&f.sizes, "size", "s", "2:8M", "smallest and largest `SIZE`")
	default:
		fs.StringSliceVar(&f.only, "only", nil, "try only these `SETTINGS`: qp,tx-depth")
		fs.StringArrayVar(&f.fix, "fix", nil, "keep this `SETTING`: qp=4; may be repeated")
	}
	if question == best && kind == plan.Bandwidth {
		fs.StringVar(&f.by, "by", byRate, "search for `GOAL`: rate (most messages a second), cpu (least CPU time per message)")
	}
	fs.StringVar(&f.seed, "seed", "", "draw the random points of this `SEED` again: 7")
	f.output.Bind(fs, formats())
	f.output.Resumable(fs, "continue the search in the --save file")
	if question != best {
		fs.BoolVar(&f.failOnFinding, "fail-on-finding", false, "exit 1 if something is found (7: the time was too short)")
	}
	return cmd
}

// config checks the flags and names all mistakes at once.
func (f *commandFlags) config(tool, question string, kind plan.Kind, line string) (config, error) {
	c := config{
		Tool: tool, Question: question, Args: measure.CommandLine(tool), By: cmp.Or(f.by, byRate), Points: f.points, Only: f.only, Seed: rand.Uint64() >> 1,
		FailOnFinding: f.failOnFinding, Fix: map[string]string{},
	}
	if kind == plan.Latency {
		c.By = byLatency
	}
	var wrong cmdline.Faults
	wrong.Note(c.parseTest(line))
	wrong.If(goals()[c.By].value == nil, "--by %q: want rate or cpu", f.by)
	var err error
	if f.sizes != "" {
		low, high, both := strings.Cut(f.sizes, ":")
		c.Low, err = plan.ParseSize(low)
		if err == nil {
			c.High, err = plan.ParseSize(high)
		}
		wrong.If(err != nil || !both || c.Low >= c.High, "--size (-s) %q: want from and to, as in 2:8M", f.sizes)
		wrong.If(c.Test.Plan.Operation == plan.Atomic, "atomics have one size: 8 bytes")
	}
	if f.limit != "" {
		c.Limit, err = plan.ParseSeconds(f.limit)
		wrong.If(err != nil || c.Limit <= 0, "--time %q: want a time in s, m or h, such as 90s or 30m", f.limit)
	}
	length, err := plan.ParseSeconds(f.testTime)
	wrong.If(err != nil || length < 10*time.Millisecond || length > mostTestTime, "--test-time %q: want 10ms to %v", f.testTime, mostTestTime)
	c.Test.Plan.Iterations, c.Test.Plan.Duration, c.Test.Plan.Margin = 0, length, length/10
	c.Test.Plan.WarmupSteady, c.Test.Plan.Warmup, c.Test.Plan.Runs, c.Test.Plan.NoPeak, c.Test.Plan.CPU = false, 0, 1, true, c.By == byCPU
	wrong.If(f.points < 0, "--points %d: want 1 or more", f.points)
	names := plain.Each(settings(), func(s setting) string { return s.Name })
	for _, name := range f.only {
		wrong.If(!slices.Contains(names, name), "--only %s: no such setting%s; there are %s", name, plain.Suggest(name, names), strings.Join(names, ", "))
	}
	for _, text := range f.fix {
		name, value, given := strings.Cut(text, "=")
		wrong.If(!given || !slices.Contains(names, name), "--fix %q: want SETTING=VALUE; settings are %s", text, strings.Join(names, ", "))
		c.Fix[name] = value
	}
	if f.seed != "" {
		c.Seed, err = strconv.ParseUint(f.seed, 10, 63)
		wrong.If(err != nil, "--seed %q: want a whole number", f.seed)
	}
	c.Output, err = f.output.Config()
	wrong.Note(err)
	return c, errors.Join(wrong...)
}

// parseTest reads the test. Of anomalies, what is no operation is a host.
func (c *config) parseTest(line string) error {
	words, err := plain.SplitWords(line)
	if err != nil {
		return err
	}
	if len(words) > 0 && (words[0] == "gobw" || words[0] == "golat") {
		if words[0] != c.Tool {
			return fmt.Errorf("%q: use '%s search'", line, words[0])
		}
		words = words[1:]
	}
	isTest := len(words) > 0 && slices.Contains(plan.Operations(), plan.Operation(words[0]))
	if !isTest && c.Question == anomalies {
		words = slices.Insert(words, 0, string(plan.Write))
	} else if !isTest {
		return fmt.Errorf("%q%s: want a test, such as 'write HOST -s 4K' or 'send --loopback'", line, plain.Suggest(append(words, "")[0], plan.Operations()))
	}
	c.Words = slices.Insert(words, 0, c.Tool)
	c.Test, err = operation.Parse(c.Words, func(typed *pflag.FlagSet) error {
		c.typed = typed
		for _, name := range []string{"save", "format", "expect", "accept", "quiet", "resume", "all", "runs", "iters", "duration", "warmup"} {
			if typed.Changed(name) {
				return fmt.Errorf("%q: leave out --%s: the search sets it", line, name)
			}
		}
		return nil
	})
	if err == nil && len(c.Test.Plan.Sizes) > 1 {
		err = fmt.Errorf("%q: want one --size (-s) here", line)
	}
	return err
}

// errTimeUp ends a search when --time is over.
var errTimeUp = errors.New("the time is up")
