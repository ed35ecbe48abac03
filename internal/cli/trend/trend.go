// Package trend is the command 'trend': many saved results over time.
package trend

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/plot"
	"github.com/gobw/gobw/report/render"
	"github.com/gobw/gobw/report/stats"
	"github.com/gobw/gobw/report/trend"
)

// flags are the flags of 'trend' as they were typed.
type flags struct {
	failOn, accept, since, margin         string
	format, save, pictures, pictureFormat string
	figures, split                        []string
	confidence, disturbed, scale          float64
	seed                                  uint64
}

// config is what to look at, and how.
type config struct {
	Files    []string
	Options  trend.Options
	Window   *trend.Window // nil: what is new is not judged
	Gate     *compare.Gate // nil: report only
	Format   string
	Save     string
	Pictures string // directory, or empty
	Draw     func(io.Writer, plot.Figure) error
	Ending   string
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
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := f.config(args)
			if err != nil {
				return exit.UsageError{Err: err}
			}
			return run(out, c)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.failOn, "fail-on", "", "exit 1 on: worse, worse>5%, geomean>2%, too-few, missing")
	fs.StringVar(&f.since, "since", "", "what is new: a number of results (7), a time (14d, 36h) or a date (2026-11-01) (with --fail-on: "+defaultSince+")")
	fs.StringVar(&f.accept, "accept", "", "let pass what cannot be told for these causes: too-few, unclear, disturbed, incomplete, missing")
	fs.StringSliceVar(&f.figures, "figures", nil, "figures to follow: bw, msgrate, p50, p99.9 (bw; p50 and p99)")
	fs.StringSliceVar(&f.split, "split", nil, "make series of their own by these, too: host, firmware, driver")
	fs.StringVar(&f.margin, "margin", "5%", "changes up to this count as the same")
	fs.Float64Var(&f.confidence, "confidence", stats.DefaultConfidence, "of changes, verdicts and intervals")
	fs.Float64Var(&f.disturbed, "disturbed", 0.5, "share of disturbed runs and results above which nothing is told")
	fs.Uint64Var(&f.seed, "seed", 1, "number from which the permutations are drawn")
	fs.StringVar(&f.format, "format", "", strings.Join(render.TrendFormats(), ", ")+" (table, or by the ending of --save)")
	fs.StringVar(&f.save, "save", "", "write to this file instead of standard output")
	fs.StringVar(&f.pictures, "pictures", "", "write a picture of each series into this directory")
	fs.StringVar(&f.pictureFormat, "picture-format", "svg", "svg or png")
	fs.Float64Var(&f.scale, "scale", 2, "pixels per unit of a PNG; 2 is sharp on any screen")
	return cmd
}

func (f *flags) config(args []string) (config, error) {
	c := config{Files: args, Save: f.save, Format: f.format, Pictures: f.pictures, Options: trend.Options{
		Figures: f.figures, Confidence: f.confidence, Split: f.split, Seed: f.seed, DisturbedShare: f.disturbed,
	}}
	var wrong cmdline.Faults
	var err error
	if len(args) == 0 {
		wrong.Note(errors.New("no result: name a directory of results, or files that --save or qualify --json wrote"))
	}
	c.Options.Margin, err = cmdline.ParsePercent(f.margin)
	if err == nil && !(c.Options.Margin > 0 && c.Options.Margin < 1) {
		err = fmt.Errorf("%s: want more than 0%% and less than 100%%", f.margin)
	}
	wrong.Note(cmdline.Prefixed("--margin", err))
	if !(f.confidence >= 0.5 && f.confidence <= 0.999) {
		wrong.Note(fmt.Errorf("--confidence %g: want 0.5 to 0.999", f.confidence))
	}
	if !(f.disturbed > 0 && f.disturbed <= 1) {
		wrong.Note(fmt.Errorf("--disturbed %g: want more than 0, at most 1", f.disturbed))
	}
	since := f.since
	if f.failOn != "" {
		c.Gate, err = compare.ParseGate(f.failOn)
		wrong.Note(cmdline.Prefixed("--fail-on", err))
		if since == "" {
			since = defaultSince
		}
	}
	if since != "" {
		w, err := trend.ParseWindow(since)
		wrong.Note(cmdline.Prefixed("--since", err))
		c.Window = &w
	}
	c.Options.Accept, err = stats.ParseAccepted(f.accept)
	wrong.Note(cmdline.Prefixed("--accept", err))
	if f.accept != "" && f.failOn == "" {
		wrong.Note(errors.New("--accept is for a gate: give --fail-on, too"))
	}
	wrong.Note(f.output(&c))
	return c, errors.Join(wrong...)
}

// output checks what becomes of the trend.
func (f *flags) output(c *config) error {
	endings := map[string]string{".txt": "table", ".md": "markdown", ".tex": "latex", ".html": "html", ".json": "json"}
	if c.Format == "" {
		c.Format = "table"
		if f.save != "" {
			var known bool
			if c.Format, known = endings[filepath.Ext(f.save)]; !known {
				return fmt.Errorf("--save %s: no format ends so; want .txt, .md, .tex, .html or .json, or give --format", f.save)
			}
		}
	}
	if !slices.Contains(render.TrendFormats(), c.Format) {
		return fmt.Errorf("--format %q: want %s", c.Format, strings.Join(render.TrendFormats(), ", "))
	}
	c.Ending = "." + f.pictureFormat
	switch f.pictureFormat {
	case "svg":
		c.Draw = plot.WriteSVG
	case "png":
		c.Draw = func(w io.Writer, p plot.Figure) error { return plot.WritePNG(w, p, f.scale) }
	default:
		return fmt.Errorf("--picture-format %q: want svg or png", f.pictureFormat)
	}
	if !(f.scale >= 0.25 && f.scale <= 10) {
		return fmt.Errorf("--scale %g: want 0.25 to 10", f.scale)
	}
	return nil
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
	if c.Pictures != "" {
		if err := writePictures(out, c, t); err != nil {
			return err
		}
	}
	write := func(w io.Writer) error { return render.Trend(w, c.Format, t, since) }
	if c.Save == "" {
		err = write(out.Out)
	} else {
		err = report.WriteFile(c.Save, write)
	}
	if err != nil || c.Gate == nil {
		return err
	}
	missed := lost.Missed(c.Options.Accept)
	for _, reason := range c.Gate.Judge(since, c.Options.Accept) {
		missed = append(missed, exit.MissedError{What: reason})
	}
	return errors.Join(missed...)
}

// writePictures writes each picture into a file of its own and names the files on standard error.
func writePictures(out output.Streams, c config, t *trend.Trend) error {
	if err := os.MkdirAll(c.Pictures, 0o755); err != nil {
		return exit.SetupError{Err: err}
	}
	for _, p := range render.TrendPictures(t, len(t.Series)) {
		path := filepath.Join(c.Pictures, p.Name+c.Ending)
		if err := report.WriteFile(path, func(w io.Writer) error { return c.Draw(w, p.Figure) }); err != nil {
			return err
		}
		fmt.Fprintln(out.Err, path)
	}
	return nil
}
