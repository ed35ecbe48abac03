// Package ab is the command 'ab': two tests measured back to back, in pairs, and judged by their ratios.
package ab

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/gate"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/report/expect"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/render"
	"github.com/gobw/gobw/report/stats"
)

// usable are the figures that the help names.
const usable = "bw, msgrate, min, p50, p99"

// flags are the flags of 'ab' as they were typed.
type flags struct {
	typed          config // what stands there as it was typed
	gate           gate.Flags
	figure, beside string
	output         output.Flags
}

// config is what to measure, and how to judge.
type config struct {
	A, B       side
	Figure     figure.Figure
	Pairs      int
	Gate       gate.Config
	Confidence float64
	Output     output.Config
}

//go:embed help.txt
var help string

// NewCommand makes 'ab'.
func NewCommand(tool string, out output.Streams) *cobra.Command {
	f := &flags{}
	cmd := cmdline.Command(tool, help)
	cmd.Args = cmdline.ArgumentCount(1, 2, "two command lines, each in quotes")
	cmd.RunE = cmdline.Run(
		func(args []string) (config, error) { return f.config(tool, args) },
		func(ctx context.Context, c config) error { return run(ctx, out, c) },
	)
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.beside, "beside", "", "measure A alone, and A while this `TEST` runs")
	fs.IntVar(&f.typed.Pairs, "pairs", 21, "measure `N` pairs")
	fs.StringVar(&f.figure, "figure", "", "judge `FIGURE`: "+usable+" (default: bw, with golat p50)")
	f.gate.Bind(fs, "'worse<5%' (B against A)")
	fs.Float64Var(&f.typed.Confidence, "confidence", stats.DefaultConfidence, "`CONFIDENCE` of verdicts and intervals")
	f.output.Bind(fs, render.ComparisonFormats())
	return cmd
}

// config checks the flags and names all mistakes at once.
func (f *flags) config(tool string, args []string) (config, error) {
	c := f.typed
	if len(args) == 2 && !strings.Contains(args[0]+args[1], " ") {
		return c, fmt.Errorf("put each test in quotes: %s ab 'write HOST' 'write HOST -q 4'", tool)
	}
	var wrong cmdline.Faults
	var err error
	c.A, err = parseSide(tool, args[0])
	wrong.Note(cmdline.Prefixed("A", err))
	switch {
	case f.beside != "":
		wrong.If(len(args) == 2, "two commands and --beside: give one command, and the other with --beside")
		var neighbour Neighbour
		neighbour, err = ParseNeighbour(tool, f.beside)
		c.B = c.A
		c.B.beside, c.B.line = &neighbour, c.A.line+" beside "+f.beside
		wrong.Note(cmdline.Prefixed("--beside", err))
	case len(args) == 2:
		c.B, err = parseSide(tool, args[1])
		wrong.Note(cmdline.Prefixed("B", err))
	default:
		wrong.Add("one command: give a second, or --beside 'COMMAND B'")
	}
	wrong.If(c.A.latency != c.B.latency && wrong == nil,
		"one command measures bandwidth and the other latency: they have no figure to compare")
	c.Gate = f.gate.Config(&wrong, expect.Options{Comparison: true}, nil)
	// a fallback to the software device must not pass, nor be compared with a NIC
	if f.gate.Given() || c.A.stock || c.B.stock {
		c.A.beStrict()
		c.B.beStrict()
	}
	usual := map[bool]string{false: "bw", true: "p50"}[c.A.latency]
	name := cmp.Or(f.figure, append(expect.Figures(c.Gate.Expect), usual)[0])
	var known bool
	c.Figure, known = figure.Named(name)
	wrong.If(!known, "--figure: no figure %q%s; use one of %s", name, plain.Suggest(name, figure.Words()), usable)
	wrong.If(known && c.Figure.Direction == stats.Neither,
		"--figure %s: no value of it is better than another; use one of %s", name, usable)
	wrong.Range("--pairs", c.Pairs, 1, 1001)
	wrong.If(!(c.Confidence >= 0.5 && c.Confidence <= 0.999), "--confidence %g: want 0.5 to 0.999", c.Confidence)
	c.Output = f.output.Config(&wrong)
	return c, errors.Join(wrong...)
}

// run measures, prints the result, and judges it by the gate. If a test fails, the command prints the pairs before it,
// and then fails.
func run(ctx context.Context, out output.Streams, c config) error {
	if err := c.Output.CheckWritable(); err != nil {
		return err
	}
	keeper := c.Output.Keeper(out)
	kept := func(soFar measurement) {
		soFar.ended = "killed" // if this is what is left
		keeper.Keep(func(w io.Writer) error { return render.Comparison(w, "json", soFar.comparison(c)) })
	}
	m, failed := rounds(out, c, kept, func(arm int) (outcome, error) {
		if arm == armB {
			return c.B.run(ctx, c.Figure)
		}
		return c.A.run(ctx, c.Figure)
	})
	if failed != nil && len(m.a) == 0 {
		return failed
	}
	whole := m.comparison(c)
	judged := *whole
	judged.Points = judged.Points[:1] // the A/A control is already in the verdict: gate only B against A
	whole.Checks = expect.JudgeComparison(&judged, c.Gate.Expect, c.Gate.Accept)
	err := c.Output.DeliverPart(out, failed == nil, nil,
		func(w io.Writer, format string) error { return render.Comparison(w, format, whole) })
	if err = errors.Join(failed, err); err != nil {
		return err
	}
	return gate.Verdict(whole.Checks)
}
