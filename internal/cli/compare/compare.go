// Package compare is the command 'compare': two sets of saved results.
package compare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/gate"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/fabric"
	"github.com/gobw/gobw/report/render"
	"github.com/gobw/gobw/report/stats"
)

// flags are the flags of 'compare' as they were typed.
type flags struct {
	gate             gate.Flags
	by, format, save string
	figures          []string
	unlike           bool
}

// config is what to compare, and how.
type config struct {
	Old, New []string // without New: Old compared by a field with itself
	Gate     gate.Config
	Format   string
	Save     string
	Options  compare.Options
}

// NewCommand makes 'compare'.
func NewCommand(tool string, out output.Streams) *cobra.Command {
	flags := &flags{gate: gate.Flags{WithoutGate: []stats.Cause{stats.Disturbed, stats.Incomplete}}}
	cmd := &cobra.Command{
		Use:   "compare OLD NEW",
		Short: "Tell whether two results differ",
		Long: "Tell whether two results differ: better, worse, same, or cannot tell. Same is a\n" +
			"claim: the interval of the change lies within the margin. The change is the\n" +
			"Hodges-Lehmann estimate with its rank interval, which assume no distribution.\n\n" +
			"OLD and NEW are files, directories of .json files, or several joined by commas.\n" +
			"One alone is compared with itself across a field: --by qps.\n" +
			"Two documents of 'fabric' are compared host by host and link by link.\n" +
			"Four runs or more on each side are needed to tell anything: --runs 10 is good.\n\n" +
			"A gate (--fail-on) fails where it cannot tell, unless the cause is accepted.",
		Example: "  " + tool + " write alpha --runs 10 --save old.json\n" +
			"  " + tool + " write alpha --runs 10 --save new.json\n" +
			"  " + tool + " compare old.json new.json --fail-on 'worse>5%'\n" +
			"  " + tool + " compare sweep.json --by qps",
		Args: cobra.ArbitraryArgs,
		RunE: cmdline.Run(flags.config, func(_ context.Context, c config) error { return run(out, c) }),
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	flags.gate.Bind(fs, "worse, worse>5%, geomean>2%, too-few, missing", "too-few, unclear, disturbed, incomplete, missing, not-finite")
	flags.gate.BindDisturbed(fs)
	fs.StringSliceVar(&flags.figures, "figures", nil, "figures to compare: bw, msgrate, p50, p99.9 (bw; p50 and p99)")
	fs.StringVar(&flags.by, "by", "", "compare across this one field, which may differ: qps, tx_depth, device")
	fs.BoolVar(&flags.unlike, "unlike", false, "compare although device, CPU or link differ")
	fs.StringVar(&flags.format, "format", "", strings.Join(render.ComparisonFormats(), ", ")+" (table, or by the ending of --save)")
	fs.StringVar(&flags.save, "save", "", "write to this file instead of standard output")
	return cmd
}

func (f *flags) config(args []string) (config, error) {
	c := config{Save: f.save, Options: compare.Options{
		Confidence: f.gate.Confidence, Figures: f.figures, Unlike: f.unlike, By: f.by, DisturbedShare: f.gate.Disturbed,
	}}
	var wrong cmdline.Faults
	switch {
	case len(args) == 2:
		c.Old, c.New = strings.Split(args[0], ","), strings.Split(args[1], ",")
	case len(args) == 1 && f.by != "":
		c.Old = strings.Split(args[0], ",")
	default:
		wrong.Note(fmt.Errorf("%d results: want two, OLD and NEW, or one and --by", len(args)))
	}
	g, err := f.gate.Config()
	wrong.Note(err)
	c.Gate, c.Options.Margin, c.Options.Accept = g, g.Margin, g.Accept
	c.Format, err = output.FormatAmong(render.ComparisonFormats(), f.format, f.save)
	if ending := strings.ToLower(filepath.Ext(f.save)); slices.Contains([]string{".html", ".htm", ".svg", ".png", ".pdf"}, ending) {
		err = fmt.Errorf("--save %s: a comparison is no page and no picture: --format is one of %s; 'report OLD NEW --save %s' lays both over one another",
			f.save, strings.Join(render.ComparisonFormats(), ", "), f.save)
	}
	wrong.Note(err)
	return c, errors.Join(wrong...)
}

// run compares, prints, and judges by the gate.
func run(out output.Streams, c config) error {
	comparisons, lost, err := compared(c)
	if err != nil {
		return err
	}
	lost.Note(out)
	write := func(w io.Writer) error {
		for _, one := range comparisons {
			if one.Hosts > 0 && c.Format != "json" {
				one = fabric.Brief(one)
			}
			if err := render.Comparison(w, c.Format, one); err != nil {
				return err
			}
		}
		return nil
	}
	if err := output.Write(out, c.Save, write); err != nil {
		return err
	}
	return c.Gate.Judge(lost, comparisons...)
}

// compared compares the two sides, or within one side each value of a field with the first.
func compared(c config) ([]*compare.Comparison, output.Lost, error) {
	if fabrics, err := fabrics(c); len(fabrics) > 0 || err != nil {
		return fabrics, nil, err
	}
	old, lost, err := output.Load(c.Old)
	sides := [][]*report.Document{old}
	if len(c.New) > 0 {
		now, more, errNew := output.Load(c.New)
		sides, lost, err = append(sides, now), append(lost, more...), errors.Join(err, errNew)
	}
	if err != nil {
		return nil, nil, err
	}
	if len(sides) == 1 {
		if sides, err = compare.Split(old, c.Options.By); err != nil {
			return nil, nil, exit.UsageError{Err: err}
		}
	}
	var out []*compare.Comparison
	for _, side := range sides[1:] {
		one, err := compare.Documents(sides[0], side, c.Options)
		if err != nil {
			return nil, nil, exit.UsageError{Err: err}
		}
		out = append(out, one)
	}
	return out, lost, nil
}

// fabrics compares two documents of 'gobw fabric'; nothing where the files are other results.
func fabrics(c config) ([]*compare.Comparison, error) {
	files := slices.Concat(c.Old, c.New)
	var docs []*fabric.Document
	for _, path := range files {
		d, err := readFabric(path)
		if err != nil {
			return nil, exit.UsageError{Err: err}
		}
		if d != nil {
			docs = append(docs, d)
		}
	}
	switch {
	case len(docs) == 0:
		return nil, nil
	case len(docs) != 2 || len(files) != 2:
		return nil, exit.UsageError{Err: errors.New("documents of 'gobw fabric' are compared one with one: gobw compare OLD NEW")}
	case len(c.Options.Figures) > 0:
		return nil, exit.UsageError{Err: errors.New("--figures: a document of 'gobw fabric' has one figure")}
	}
	one, err := fabric.Compare(docs[0], docs[1], c.Options)
	if err != nil {
		return nil, exit.UsageError{Err: err}
	}
	return []*compare.Comparison{one}, nil
}

// readFabric reads a document of 'gobw fabric'; nil: the file is something else, which others will read or refuse.
func readFabric(path string) (*fabric.Document, error) {
	b, err := report.ReadFile(path, report.MostBytes)
	if err != nil || !fabric.Is(b) {
		return nil, nil //nolint:nilerr,nilnil // whoever reads results says it better
	}
	d, err := fabric.Read(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}
