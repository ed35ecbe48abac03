// Package compare is the command 'compare': two sets of saved results, or many over time.
package compare

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/gate"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/expect"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/render"
	"github.com/gobw/gobw/report/stats"
	"github.com/gobw/gobw/report/trend"
)

// flags are the flags of 'compare'. read has those whose values are parsed at once.
type flags struct {
	read   config
	gate   gate.Flags
	output output.Flags
	wrong  cmdline.Faults
}

// config is what to compare, and how.
type config struct {
	Old, New []string  // New empty: Old is split by a field, or compared over time
	Since    time.Time // results from then on are new; zero: they are not judged
	usual    bool      // Since is the default
	Accepted trend.Acceptance
	Gate     gate.Config
	Output   output.Config
	Options  compare.Options
}

// overTime tells a series of results from two sides.
func (c config) overTime() bool { return len(c.New) == 0 && c.Options.By == "" }

// defaultSince is --since where new results are judged.
const defaultSince = "7d"

// now is the time from which --since counts back.
var now = time.Now //nolint:gochecknoglobals // tests set it

//go:embed help.txt
var help string

// NewCommand makes 'compare'.
func NewCommand(tool string, out output.Streams) *cobra.Command {
	f := &flags{}
	cmd := cmdline.Command(tool, help)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = cmdline.Run(f.config, func(ctx context.Context, c config) error {
		return cmdline.Interruptible(ctx, func() error { return run(out, c) })
	})
	fs, o := cmd.Flags(), &f.read.Options
	fs.SortFlags = false
	f.gate.Bind(fs, "'worse<5%', 'p99 worse<10%'")
	fs.StringSliceVar(&o.Figures, "figure", nil,
		"compare these `FIGURES`: bw, msgrate, p50, p99.9 (default: bw; in latency tests p50 and p99)")
	fs.StringVar(&o.By, "by", "", "compare the values of this `SETTING`: qps, tx_depth, cache")
	fs.BoolVar(&o.Unlike, "unlike", false, "compare although device, CPU or link differ")
	fs.Float64Var(&o.Confidence, "confidence", stats.DefaultConfidence, "`CONFIDENCE` of verdicts and intervals")
	cmdline.Parsed(fs, &f.wrong, &f.read.Since, "since", "", "",
		"with DIR: only changes since `TIME`: 14d or 36h before now, or a date (default with --expect: "+defaultSince+")",
		func(text string) (time.Time, error) {
			return trend.ParseWindow(text, now())
		})
	cmdline.Parsed(fs, &f.wrong, &f.read.Accepted, "accept-since", "", "",
		"with DIR: results since `DATE` are as they should be, with a reason: '2026-11-01 new firmware'; "+
			"a line in DIR/accepted does the same",
		func(text string) (trend.Acceptance, error) {
			return trend.ParseAcceptance(text, "--accept-since", now())
		})
	f.output.Bind(fs, render.TrendFormats())
	return cmd
}

// config checks the flags and names all mistakes at once.
func (f *flags) config(args []string) (config, error) {
	c, wrong := f.read, slices.Clone(f.wrong)
	switch {
	case len(args) == 2:
		c.Old, c.New = output.Files(args[0]), output.Files(args[1])
	default:
		c.Old = output.Files(args...)
		wrong.If(len(args) == 0, "no results: give OLD and NEW, or a directory of results")
		wrong.If(len(args) > 2 && len(args) < 6,
			"%d results: join those of a side, as in a.json,b.json c.json; for changes over time give their directory",
			len(args))
	}
	c.Gate = f.gate.Config(&wrong, expect.Options{Comparison: true}, nil)
	c.Options.Margin, c.Options.Accept = expect.Margin(c.Gate.Expect), c.Gate.Accept
	for _, name := range expect.Figures(c.Gate.Expect) {
		c.Options.Figures = plain.AddNew(c.Options.Figures, name)
	}
	wrong.If(!(c.Options.Confidence >= 0.5 && c.Options.Confidence <= 0.999), "--confidence %g: want 0.5 to 0.999",
		c.Options.Confidence)
	wrong.If(c.overTime() && c.Options.Unlike, "--unlike needs two results: in a directory each set-up has its own series")
	wrong.If(!c.overTime() && !c.Since.IsZero(), "--since needs a directory of results: compare DIR --since TIME")
	wrong.If(!c.overTime() && !c.Accepted.Since.IsZero(),
		"--accept-since needs a directory of results: compare DIR --accept-since DATE")
	if c.Since.IsZero() && (f.gate.Given() || !c.Accepted.Since.IsZero()) {
		c.usual = c.overTime()
		c.Since, _ = trend.ParseWindow(defaultSince, now())
	}
	before := len(wrong)
	c.Output = f.output.Config(&wrong)
	if other := c.Output.Refuse(render.ComparisonFormats()); !c.overTime() && other != nil {
		if len(wrong) == before { // html and svg, which changes over time have
			other = fmt.Errorf("%w; 'gobw report OLD NEW --save FILE.html' draws both", other)
		}
		wrong = append(wrong[:before], other)
	}
	return c, errors.Join(wrong...)
}

// run compares, prints, and judges.
func run(out output.Streams, c config) error {
	if err := c.Output.CheckWritable(); err != nil {
		return err
	}
	old, lost, err := output.Load(c.Old)
	if c.overTime() && errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, errors.New("give OLD and NEW, or a directory of results"))
	}
	var now []*report.Document
	if len(c.New) > 0 {
		var more output.Lost
		var errNew error
		now, more, errNew = output.Load(c.New)
		lost, err = append(lost, more...), errors.Join(err, errNew)
	}
	if err != nil {
		return err
	}
	lost.Note(out)
	if c.usual && !c.Output.Quiet {
		fmt.Fprintf(out.Err, "--expect judges what is new since %s: --since %s is the default\n",
			c.Since.UTC().Format(time.DateOnly), defaultSince)
	}
	var judged []*compare.Comparison
	var write func(w io.Writer, format string) error
	switch {
	case c.overTime():
		judged, write, err = overTime(c, old, lost)
	case len(c.New) > 0:
		judged, write, err = against(c, old, [][]*report.Document{now})
	default:
		var sides [][]*report.Document
		if sides, err = compare.Split(old, c.Options.By); err == nil {
			judged, write, err = against(c, sides[0], sides[1:])
		}
	}
	if err != nil {
		return exit.With(exit.Usage, c.asTyped(err))
	}
	var checks []report.Check
	for _, one := range judged {
		one.Checks = expect.JudgeComparison(one, c.Gate.Expect, c.Gate.Accept)
		checks = append(checks, one.Checks...)
	}
	if err := c.Output.Deliver(out, write); err != nil || len(c.Gate.Expect) == 0 {
		return err
	}
	return errors.Join(append(lost.Undecided(), gate.Verdict(checks))...)
}

// asTyped puts the files that were typed into the commands that an error offers.
func (c config) asTyped(err error) error {
	const offer = "'gobw compare "
	old, now := strings.Join(c.Old, ","), strings.Join(c.New, ",")
	both := strings.TrimSuffix(old+","+now, ",")
	text := strings.NewReplacer("'compare OLD,NEW", offer+both, "'compare OLD NEW", offer+old+" "+now,
		"'compare FILE,OTHER", offer+both+",OTHER").Replace(err.Error())
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}

// against compares each side with the old one. A side that differs in other fields than --by is left out and named;
// with an expectation it is an error.
func against(c config, old []*report.Document, sides [][]*report.Document) (out []*compare.Comparison,
	write func(w io.Writer, format string) error, err error,
) {
	var apart []*compare.NotAloneError
	for _, side := range sides {
		one, err := compare.Documents(old, side, c.Options)
		if e, is := errors.AsType[*compare.NotAloneError](err); is && len(c.Gate.Expect) == 0 {
			if last := len(apart) - 1; last >= 0 && slices.Equal(apart[last].Differences, e.Differences) {
				apart[last].New += ", " + e.New
			} else {
				apart = append(apart, e)
			}
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if len(one.Points) == 0 && len(c.Gate.Expect) == 0 {
			return nil, nil, fmt.Errorf("nothing to compare: %s", strings.Join(one.LeftOut, "; "))
		}
		out = append(out, one)
	}
	if len(out) == 0 {
		return nil, nil, apart[0]
	}
	for _, e := range apart {
		out[len(out)-1].LeftOut = append(out[len(out)-1].LeftOut, e.Error())
	}
	return out, func(w io.Writer, format string) error {
		for _, one := range out {
			if err := render.Comparison(w, format, one); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// overTime finds when figures changed, and compares new results with those before.
func overTime(c config, docs []*report.Document, lost output.Lost) (judged []*compare.Comparison,
	write func(w io.Writer, format string) error, err error,
) {
	if len(docs) == 1 && c.Since.IsZero() { // a window is judged from the first night on: cannot tell
		return nil, nil, errors.New("one result: give OLD and NEW, a directory of several results, or --by SETTING")
	}
	t, err := trend.Documents(docs, c.Options)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range lost {
		t.LeftOut = append(t.LeftOut, e.Error())
	}
	if t.Accepted, err = accepted(c); err != nil {
		return nil, nil, err
	}
	var since *compare.Comparison
	if !c.Since.IsZero() {
		since = t.Since(c.Since)
		judged = append(judged, since)
	}
	return judged, func(w io.Writer, format string) error { return render.Trend(w, format, t, since) }, nil
}

// acceptedFile is the name of the file beside results that says which of them were accepted, and why.
const acceptedFile = "accepted"

// accepted is the newest acceptance of the flag and the files beside the results.
func accepted(c config) (trend.Acceptance, error) {
	newest := c.Accepted
	for _, path := range c.Old {
		name := filepath.Join(path, acceptedFile)
		if output.IsSpecial(name) {
			continue
		}
		file, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			continue
		}
		if err != nil {
			return trend.Acceptance{}, err
		}
		one, err := trend.ReadAcceptances(file, name, now())
		if err := errors.Join(err, file.Close()); err != nil {
			return trend.Acceptance{}, err
		}
		newest = one.Newer(newest)
	}
	return newest, nil
}
