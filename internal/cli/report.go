package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plot"
)

// reportFlags are the flags of 'report' as they were typed.
type reportFlags struct {
	format, save, pictures, pictureFormat string
	scale                                 float64
}

// reportConfig is what to render.
type reportConfig struct {
	Files    []string
	Format   report.Format
	Save     string // empty: standard output
	Pictures string // directory, or empty
	Draw     func(io.Writer, plot.Figure) error
	Ending   string
}

func newReportCommand(tool string, out Streams) *cobra.Command {
	flags := &reportFlags{}
	var names []string
	for _, f := range formats() {
		names = append(names, fmt.Sprintf("  %-9s %s", f.Name, f.Description))
	}
	cmd := &cobra.Command{
		Use:   "report FILE...",
		Short: "Render saved results: tables, CSV, HTML, pictures",
		Long: "Render saved results. Several files are laid over one another in pictures, and\n" +
			"follow one another elsewhere; a directory stands for its .json files.\n\nFormats:\n" + strings.Join(names, "\n"),
		Example: "  " + tool + " report result.json\n" +
			"  " + tool + " report monday.json tuesday.json --save week.html\n" +
			"  " + tool + " report result.json --pictures plots --picture-format png\n" +
			"  " + tool + " report result.json --format latex",
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := flags.config(args)
			if err != nil {
				return usageError{err}
			}
			return runReport(out, c)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&flags.format, "format", "", strings.Join(formatNames(), ", ")+" (table, or by the ending of --save)")
	fs.StringVar(&flags.save, "save", "", "write to this file instead of standard output")
	fs.StringVar(&flags.pictures, "pictures", "", "write each picture into this directory")
	fs.StringVar(&flags.pictureFormat, "picture-format", "svg", "svg or png")
	fs.Float64Var(&flags.scale, "scale", 2, "pixels per unit of a PNG; 2 is sharp on any screen")
	return cmd
}

func (f *reportFlags) config(args []string) (reportConfig, error) {
	c := reportConfig{Files: args, Save: f.save, Pictures: f.pictures}
	var errs []error
	if len(args) == 0 {
		errs = append(errs, errors.New("no file: name one that --save or qualify --json wrote"))
	}
	var err error
	switch {
	case f.format != "":
		c.Format, err = formatNamed(f.format)
		errs = append(errs, prefixed("--format", err))
	case f.save != "":
		c.Format, err = formatOfFile(f.save)
		errs = append(errs, prefixed("--save "+f.save, err))
	case f.pictures == "":
		c.Format, err = formatNamed("table")
		errs = append(errs, err)
	}
	c.Ending = "." + f.pictureFormat
	switch f.pictureFormat {
	case "svg":
		c.Draw = plot.WriteSVG
	case "png":
		c.Draw = func(w io.Writer, p plot.Figure) error { return plot.WritePNG(w, p, f.scale) }
	default:
		errs = append(errs, fmt.Errorf("--picture-format %q: want svg or png", f.pictureFormat))
	}
	if !(f.scale >= 0.25 && f.scale <= 10) {
		errs = append(errs, fmt.Errorf("--scale %g: want 0.25 to 10", f.scale))
	}
	return c, errors.Join(errs...)
}

// runReport renders files.
func runReport(out Streams, c reportConfig) error {
	docs, err := loadResults(c.Files)
	if err != nil {
		return err
	}
	if c.Pictures != "" {
		if err := writePictures(out, c, docs); err != nil {
			return err
		}
	}
	if c.Format.All == nil {
		return nil
	}
	render := func(w io.Writer) error { return c.Format.All(w, docs) }
	if verdicts := verdictsOf(c); verdicts != nil {
		render = verdicts
	}
	if c.Save == "" {
		return render(out.Out)
	}
	return report.WriteFile(c.Save, render)
}

// verdictsOf renders a single qualification with its verdicts, in the formats that have a place for them.
func verdictsOf(c reportConfig) func(io.Writer) error {
	render := map[string]func(io.Writer, *report.Qualification) error{
		"table": report.QualificationTable, "junit": report.QualificationJUnit, "html": report.QualificationHTML,
	}[c.Format.Name]
	if render == nil || len(c.Files) != 1 {
		return nil
	}
	q, err := report.LoadQualification(c.Files[0])
	if err != nil || q == nil {
		return nil // a file of results, which has been read already
	}
	if c.Format.Name == "table" {
		return func(w io.Writer) error {
			for _, d := range q.Documents() {
				if _, err := fmt.Fprintf(w, "%s: ", d.Description); err != nil {
					return err
				}
				if err := c.Format.Render(w, d); err != nil {
					return err
				}
				if _, err := fmt.Fprintln(w); err != nil {
					return err
				}
			}
			return render(w, q)
		}
	}
	return func(w io.Writer) error { return render(w, q) }
}

// writePictures writes each picture into a file of its own and names the files on standard error.
func writePictures(out Streams, c reportConfig, docs []*report.Document) error {
	pictures := report.Pictures(docs)
	if len(pictures) == 0 {
		return usageError{errors.New("these results give no picture: a curve needs two sizes or more, a histogram --save from golat or a bandwidth test")}
	}
	if err := os.MkdirAll(c.Pictures, 0o755); err != nil {
		return setupError{err}
	}
	for _, p := range pictures {
		path := filepath.Join(c.Pictures, p.Name+c.Ending)
		if err := report.WriteFile(path, func(w io.Writer) error { return c.Draw(w, p.Figure) }); err != nil {
			return err
		}
		fmt.Fprintln(out.Err, path)
	}
	return nil
}
