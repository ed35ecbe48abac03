// Package search is the command 'search': the best settings of a test, sizes that fall off, combinations that are slow.
package search

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/cmd/ab"
	"github.com/gobw/gobw/internal/cli/cmd/operation"
	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/measure"
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
	config
	testTime time.Duration
	fix      []string
	output   output.Flags
	wrong    cmdline.Faults
}

// config is what to look for.
type config struct {
	Tool, Question string
	Words          []string // of the test
	Test           operation.Config
	Args           []string // the command line, for the document
	By             string
	Sizes          [2]int // of dips: the smallest and the largest
	Limit          time.Duration
	Points         int
	Only           []string
	Fix            map[string]string
	Beside         []string // tests to run beside, or none
	Seed           uint64   // 0: any
	Output         output.Config
	FailOnFinding  bool
	neighbours     []ab.Neighbour // of Beside
	typed          *pflag.FlagSet // of the test
}

// help has a text for the command and for each question.
//
//go:embed *.txt
var help embed.FS

func command(tool, name string) *cobra.Command {
	text, _ := help.ReadFile(name + ".txt") // it is built in
	return cmdline.Command(tool, string(text))
}

// NewCommand makes 'search'.
func NewCommand(tool string, kind plan.Kind, out output.Streams) *cobra.Command {
	root := command(tool, "search")
	root.RunE = func(c *cobra.Command, args []string) error {
		asked := strings.Join(args, " ")
		none := cmp.Or(plain.When(asked != "", "%q is no question of %s", asked, tool), "a question is missing")
		return exit.With(exit.Usage,
			fmt.Errorf("%s; there are %s: %s best 'write HOST'%s", none,
				strings.Join(plain.Each(c.Commands(), (*cobra.Command).Name), ", "), c.CommandPath(),
				plain.When(strings.HasPrefix(asked, anomalies), "; for this one: gobw search anomalies HOST")))
	}
	const group = "questions"
	root.AddGroup(&cobra.Group{ID: group, Title: "Questions:"})
	for _, question := range []string{best, dips, anomalies} {
		if kind == plan.Bandwidth || question != anomalies {
			c := newQuestion(tool, question, kind, out)
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	return root
}

func newQuestion(tool, question string, kind plan.Kind, out output.Streams) *cobra.Command {
	f, cmd := &commandFlags{config: config{By: byRate}}, command(tool, question)
	cmd.Args = cmdline.ArgumentCount(1, 1, "one test, in quotes")
	cmd.RunE = cmdline.Run(
		func(args []string) (config, error) { return f.validated(tool, question, kind, args[0]) },
		func(ctx context.Context, c config) error { return run(ctx, out, c) },
	)
	fs := cmd.Flags()
	fs.SortFlags = false
	length := map[string]string{anomalies: "10m"}[question]
	cmdline.Parsed(fs, &f.wrong, &f.Limit, "time", "", length, "end after this `TIME`: 30m", plan.ParseTime)
	fs.IntVar(&f.Points, "points", 0, "end after `N` tests; 0: no limit")
	cmdline.Parsed(fs, &f.wrong, &f.testTime, "test-time", "", "100ms", "measure each test for `TIME`", plan.ParseTime)
	switch question {
	case dips:
		cmdline.Parsed(fs, &f.wrong, &f.Sizes, "size", "s", "2:8M", "smallest and largest size: `FROM:TO`", parseSizes)
	default:
		fs.StringSliceVar(&f.Only, "only", nil, "try only these `SETTINGS`: tx-depth,inline")
		fs.StringArrayVar(&f.fix, "fix", nil, "keep this `SETTING`: inline=0; may be repeated")
	}
	if question == anomalies {
		fs.StringArrayVar(&f.Beside, "beside", nil, "also try each test while this `TEST` runs; may be repeated")
	}
	if question == best && kind == plan.Bandwidth {
		fs.StringVar(&f.By, "by", byRate,
			"search for `GOAL`: rate (most messages a second), cpu (least CPU time per message)")
	}
	cmdline.Parsed(fs, &f.wrong, &f.Seed, "seed", "",
		"", "repeat the random choices of an earlier search: it printed its `SEED`", parseSeed)
	f.output.Bind(fs, formats())
	f.output.Resumable(fs, "continue the search in the --save file")
	if question != best {
		fs.BoolVar(&f.FailOnFinding, "fail-on-finding", false, "exit 1 if something is found (7: the time was too short)")
	}
	return cmd
}

// validated checks the flags and names all mistakes at once.
func (f *commandFlags) validated(tool, question string, kind plan.Kind, line string) (config, error) {
	c, wrong := f.config, slices.Clone(f.wrong)
	c.Tool, c.Question, c.Args, c.Fix = tool, question, measure.CommandLine(tool), map[string]string{}
	wrong.If(c.By != byRate && c.By != byCPU, "--by %q: want rate or cpu%s", c.By,
		plain.When(c.By == byLatency, "; for latency: golat search best 'send HOST'"))
	if kind == plan.Latency {
		c.By = byLatency
	}
	wrong.Note(c.parseTest(line))
	wrong.If(question == dips && c.Test.Plan.Operation == plan.Atomic, "atomics have one size: 8 bytes")
	length := f.testTime
	wrong.If(length > 0 && length < 10*time.Millisecond || length > mostTestTime, "--test-time %v: want 10ms to %v",
		length, mostTestTime)
	p := &c.Test.Plan
	p.Iterations, p.Duration, p.WarmupSteady, p.Warmup, p.Runs = 0, length, false, 0, 1
	p.NoPeak, p.CPU = c.By != byRate, c.By == byCPU
	wrong.If(c.Points < 0, "--points %d: want 0 or more", c.Points)
	names := plain.Each(settings(), func(s setting) string { return s.Name })
	for _, name := range c.Only {
		wrong.If(!slices.Contains(names, name), "--only %s: no such setting%s", name, plain.Choices(name, names))
	}
	for _, text := range f.fix {
		name, value, given := strings.Cut(text, "=")
		wrong.If(!given, "--fix %q: want SETTING=VALUE", text)
		wrong.If(!slices.Contains(names, name), "--fix %s: no such setting%s", text, plain.Choices(name, names))
		c.Fix[name] = value
	}
	for _, s := range settings() {
		_, fixed := c.Fix[s.Name]
		only, typed := slices.Contains(c.Only, s.Name), c.typed != nil && c.typed.Changed(s.flagName())
		wrong.If(only && fixed || typed && (only || fixed),
			"%s: name it once: in the test or --fix, which keep it, or in --only, which tries it", s.Name)
	}
	for _, line := range c.Beside {
		n, err := ab.ParseNeighbour(tool, line)
		wrong.Note(cmdline.Prefixed("--beside", err))
		c.neighbours = append(c.neighbours, n)
	}
	c.Output = f.output.Config(&wrong)
	return c, errors.Join(wrong...)
}

// parseSizes reads the smallest and the largest size of dips.
func parseSizes(text string) ([2]int, error) {
	ends, err := plan.ParseSizes(strings.Replace(text, ":", ",", 1))
	if err != nil || len(ends) != 2 || ends[0] >= ends[1] {
		return [2]int{}, fmt.Errorf("%q: want from and to, as in 2:8M", text)
	}
	return [2]int(ends), nil
}

func parseSeed(text string) (uint64, error) {
	seed, err := strconv.ParseUint(text, 10, 63)
	if err != nil || seed == 0 {
		err = fmt.Errorf("%q: want a whole number, 1 or more", text)
	}
	return seed, err
}

// parseTest reads the test. Of anomalies, what is no operation is a host.
func (c *config) parseTest(line string) error {
	words, err := plain.SplitWords(line)
	if err != nil {
		return err
	}
	if len(words) > 0 && (words[0] == "gobw" || words[0] == "golat") {
		if words[0] != c.Tool && c.Question == anomalies {
			return fmt.Errorf("%q: anomalies searches bandwidth tests only: give HOST, or a test of gobw", line)
		}
		if words[0] != c.Tool {
			return fmt.Errorf("%q: use '%s search'", line, words[0])
		}
		words = words[1:]
	}
	isTest := len(words) > 0 && slices.Contains(plan.Operations(), plan.Operation(words[0]))
	if !isTest && c.Question == anomalies {
		words = slices.Insert(words, 0, string(plan.Write))
	} else if !isTest {
		return fmt.Errorf("%q%s: want a test, such as 'write HOST -s 4K' or 'send --loopback'", line,
			plain.Suggest(append(words, "")[0], plan.Operations()))
	}
	c.Words = slices.Insert(words, 0, c.Tool)
	c.Test, err = operation.Parse(c.Words, func(typed *pflag.FlagSet) error {
		c.typed = typed
		for _, name := range []string{
			"save", "format", "expect", "accept", "quiet", "resume", "all", "runs", "iters", "duration", "warmup",
		} {
			if typed.Changed(name) {
				return fmt.Errorf("%q: leave out --%s: the search sets it", line, name)
			}
		}
		if c.Question == dips && typed.Changed("size") {
			return fmt.Errorf("%q: leave out --size (-s) in the test, and give the range after it: -s 2:64K", line)
		}
		if c.Question == dips && typed.Changed("mix") {
			return fmt.Errorf("%q: leave out --mix: dips measures one size at a time", line)
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
