// Package trend is the command 'trend': many saved results over time.
package trend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/gate"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/render"
	"github.com/gobw/gobw/report/trend"
)

// flags are the flags of 'trend' as they were typed.
type flags struct {
	gate                gate.Flags
	since, format, save string
	pictures            output.PictureFlags
	figures, split      []string
	seed                uint64
}

// config is what to look at, and how.
type config struct {
	Files    []string
	Options  trend.Options
	Window   *trend.Window // nil: what is new is not judged
	Gate     gate.Config
	Format   string
	Save     string
	Pictures output.Pictures
}

const defaultSince = "7"

// NewCommand makes 'trend'.
func NewCommand(tool string, out output.Streams) *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use:   "trend DIR|FILE...",
		Short: "Tell when figures changed over many results",
		Long: "Tell when figures changed over many results, as of nightly tests: one series for\n" +
			"each plan, set-up and figure, in the order in which the results were measured.\n" +
			"Changes are found by E-divisive with a permutation test; a state has three\n" +
			"results or more, so that a single outlier is none.\n\n" +
			"A gate (--fail-on) sets the state in force now against the one before --since,\n" +
			"and fails where it cannot tell, unless the cause is accepted. Four results on\n" +
			"each side are needed to tell anything. A directory stands for its .json files.",
		Example: "  " + tool + " trend nightly/\n" +
			"  " + tool + " trend nightly/ --fail-on 'worse>5%' --since 7\n" +
			"  " + tool + " trend nightly/ --since 14d --save trend.html\n" +
			"  " + tool + " trend nightly/ --figures p99 --pictures plots --picture-format png",
		Args: cobra.ArbitraryArgs,
		RunE: cmdline.Run(f.config, func(_ context.Context, c config) error { return run(out, c) }),
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	f.gate.Bind(fs, "worse, worse>5%, geomean>2%, too-few, missing", "too-few, unclear, disturbed, incomplete, missing")
	f.gate.BindDisturbed(fs)
	fs.StringVar(&f.since, "since", "", "what is new: a number of results (7), a time (14d, 36h) or a date (2026-11-01) (with --fail-on: "+defaultSince+")")
	fs.StringSliceVar(&f.figures, "figures", nil, "figures to follow: bw, msgrate, p50, p99.9 (bw; p50 and p99)")
	fs.StringSliceVar(&f.split, "split", nil, "make series of their own by these, too: host, firmware, driver")
	fs.Uint64Var(&f.seed, "seed", 1, "number from which the permutations are drawn")
	fs.StringVar(&f.format, "format", "", strings.Join(render.TrendFormats(), ", ")+" (table, or by the ending of --save)")
	fs.StringVar(&f.save, "save", "", "write to this file instead of standard output")
	f.pictures.Bind(fs, "write a picture of each series into this directory")
	return cmd
}

func (f *flags) config(args []string) (config, error) {
	c := config{Files: args, Save: f.save, Options: trend.Options{
		Figures: f.figures, Confidence: f.gate.Confidence, Split: f.split, Seed: f.seed, DisturbedShare: f.gate.Disturbed,
	}}
	var wrong cmdline.Faults
	wrong.If(len(args) == 0, "no result: name a directory of results, or files that --save or qualify --json wrote")
	g, err := f.gate.Config()
	wrong.Note(err)
	c.Gate, c.Options.Margin, c.Options.Accept = g, g.Margin, g.Accept
	if v := f.gate.Confidence; v > 0 && v < 1 && !(v >= 0.5 && v <= 0.999) {
		wrong.Note(fmt.Errorf("--confidence %g: want 0.5 to 0.999", v))
	}
	since := f.since
	if f.gate.FailOn != "" {
		since = cmp.Or(since, defaultSince)
	}
	if since != "" {
		w, err := trend.ParseWindow(since)
		wrong.Note(cmdline.Prefixed("--since", err))
		c.Window = &w
	}
	c.Format, err = output.FormatAmong(render.TrendFormats(), f.format, f.save)
	wrong.Note(err)
	c.Pictures, err = f.pictures.Config()
	wrong.Note(err)
	return c, errors.Join(wrong...)
}

// run finds the changes, prints, and judges by the gate.
func run(out output.Streams, c config) error {
	docs, lost, err := output.Load(c.Files)
	if err != nil {
		return err
	}
	lost.Note(out)
	t, err := trend.Documents(docs, c.Options)
	if err != nil {
		return exit.UsageError{Err: err}
	}
	for _, e := range lost {
		t.LeftOut = append(t.LeftOut, e.Error())
	}
	var since *compare.Comparison
	if c.Window != nil {
		since = t.Since(*c.Window)
	}
	if c.Pictures.Directory != "" {
		if err := c.Pictures.Write(out, render.TrendPictures(t, len(t.Series))); err != nil {
			return err
		}
	}
	if err := output.Write(out, c.Save, func(w io.Writer) error { return render.Trend(w, c.Format, t, since) }); err != nil {
		return err
	}
	return c.Gate.Judge(lost, since)
}
