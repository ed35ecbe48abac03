package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/report"
)

// compareFlags are the flags of 'compare' as they were typed.
type compareFlags struct {
	failOn, format, save string
	figures              []string
	alpha, confidence    float64
	unlike               bool
}

// compareConfig is what to compare, and how.
type compareConfig struct {
	Old, New []string
	Gate     *report.Gate // nil: report only
	Format   string
	Save     string
	Options  report.CompareOptions
}

func newCompareCommand(tool string, out Streams) *cobra.Command {
	flags := &compareFlags{}
	cmd := &cobra.Command{
		Use:   "compare OLD NEW",
		Short: "Tell whether two results differ",
		Long: "Tell whether two results differ: the median of each figure with its 95 %\n" +
			"interval, the difference, and the p of a rank test (Mann-Whitney), which assumes\nno distribution.\n\n" +
			"OLD and NEW are files, directories of .json files, or several joined by commas.\n" +
			"Five runs or more on each side are needed to tell anything: --runs 10 is good.",
		Example: "  " + tool + " write alpha --runs 10 --save old.json\n" +
			"  " + tool + " write alpha --runs 10 --save new.json\n" +
			"  " + tool + " compare old.json new.json --fail-on 'worse>5%'",
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := flags.config(args)
			if err != nil {
				return usageError{err}
			}
			return runCompare(out, c)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&flags.failOn, "fail-on", "", "exit 1 on: worse, worse>5%, geomean>2%, too-few, missing")
	fs.StringSliceVar(&flags.figures, "figures", nil, "figures to compare: bw, msgrate, p50, p99.9 (bw; p50 and p99)")
	fs.Float64Var(&flags.alpha, "alpha", 0.01, "chance of calling equal figures different")
	fs.Float64Var(&flags.confidence, "confidence", 0.95, "share of intervals that hold the true median")
	fs.BoolVar(&flags.unlike, "unlike", false, "compare although device, CPU or link differ")
	fs.StringVar(&flags.format, "format", "table", "table, markdown, latex, json")
	fs.StringVar(&flags.save, "save", "", "write to this file instead of standard output")
	return cmd
}

func (f *compareFlags) config(args []string) (compareConfig, error) {
	c := compareConfig{Format: f.format, Save: f.save, Options: report.CompareOptions{
		Alpha: f.alpha, Confidence: f.confidence, Figures: f.figures, Unlike: f.unlike,
	}}
	var errs []error
	if len(args) == 2 {
		c.Old, c.New = strings.Split(args[0], ","), strings.Split(args[1], ",")
	} else {
		errs = append(errs, fmt.Errorf("%d results: want two, OLD and NEW", len(args)))
	}
	if f.failOn != "" {
		var err error
		c.Gate, err = report.ParseGate(f.failOn)
		errs = append(errs, prefixed("--fail-on", err))
	}
	if !(f.alpha > 0 && f.alpha < 1) {
		errs = append(errs, fmt.Errorf("--alpha %g: want more than 0 and less than 1", f.alpha))
	}
	if !(f.confidence > 0 && f.confidence < 1) {
		errs = append(errs, fmt.Errorf("--confidence %g: want more than 0 and less than 1", f.confidence))
	}
	known := []string{"table", "markdown", "latex", "json", "md", "tex"}
	if !slices.Contains(known, f.format) {
		errs = append(errs, fmt.Errorf("--format %q: want table, markdown, latex or json", f.format))
	}
	return c, errors.Join(errs...)
}

// runCompare compares, prints, and judges by the gate.
func runCompare(out Streams, c compareConfig) error {
	old, errOld := loadResults(c.Old)
	new, errNew := loadResults(c.New)
	if err := errors.Join(errOld, errNew); err != nil {
		return err
	}
	comparison, err := report.Compare(old, new, c.Options)
	if err != nil {
		return usageError{err}
	}
	if c.Save == "" {
		err = report.RenderComparison(out.Out, c.Format, comparison)
	} else {
		err = report.WriteFile(c.Save, func(w io.Writer) error { return report.RenderComparison(w, c.Format, comparison) })
	}
	if err != nil || c.Gate == nil {
		return err
	}
	var missed []error
	for _, reason := range c.Gate.Judge(comparison) {
		missed = append(missed, missedError{reason})
	}
	return errors.Join(missed...)
}
