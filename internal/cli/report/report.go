// Package report is the command 'report': saved results in any format.
package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/cli/search"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/qualify"
	"github.com/gobw/gobw/report/render"
)

// flags are the flags of 'report' as they were typed.
type flags struct {
	output   output.Flags
	pictures string
}

// config is what to render.
type config struct {
	Files    []string
	Output   output.Config
	Pictures string // a directory; empty: none
}

// NewCommand makes 'report'.
func NewCommand(tool string, out output.Streams) *cobra.Command {
	flags := &flags{}
	names := plain.Each(render.Formats(), func(f render.Format) string { return fmt.Sprintf("  %-11s %s", f.Name, f.Description) })
	cmd := &cobra.Command{
		Use:   "report FILE...",
		Short: "Print saved results: tables, CSV, HTML, pictures",
		Long:  "Print saved results in other formats. With several files, each picture shows\nall of them. Only results of noncontig have pictures of their own: -1 is in the\nname of those of the first file.\n\nFormats:\n" + strings.Join(names, "\n"),
		Example: "  " + tool + " report result.json\n" +
			"  " + tool + " report monday.json tuesday.json --save week.html\n" +
			"  " + tool + " report result.json --pictures plots\n" +
			"  " + tool + " report result.json --format latex",
		Args: cobra.ArbitraryArgs,
		RunE: cmdline.Run(flags.config, func(_ context.Context, c config) error { return run(out, c) }),
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	flags.output.Bind(fs, render.DocumentFormats())
	fs.StringVar(&flags.pictures, "pictures", "", "write each picture into `DIR` (SVG)")
	return cmd
}

func (f *flags) config(args []string) (config, error) {
	c := config{Files: args, Pictures: f.pictures}
	var wrong cmdline.Faults
	wrong.If(len(args) == 0, "no file: name a saved result, such as the file of --save result.json")
	c.Output = f.output.Config(&wrong)
	return c, errors.Join(wrong...)
}

// run renders files.
func run(out output.Streams, c config) error {
	if err := c.Output.CheckWritable(); err != nil {
		return err
	}
	if len(c.Files) == 1 && c.Pictures == "" {
		if r, err := search.Load(c.Files[0]); err == nil && r != nil {
			return c.Output.Deliver(out, r.Write)
		}
		if saved, err := report.LoadAs[compare.Comparison](c.Files[0], compare.Schema); err == nil && saved != nil {
			if err := c.Output.Refuse(render.ComparisonFormats()); err != nil {
				return exit.With(exit.Usage, err)
			}
			return c.Output.Deliver(out, func(w io.Writer, format string) error { return render.Comparison(w, format, saved) })
		}
	}
	docs, lost, err := output.Load(c.Files)
	if err != nil {
		return err
	}
	lost.Note(out)
	if c.Pictures != "" {
		pictures := render.Pictures(docs)
		if len(pictures) == 0 {
			return exit.With(exit.Usage, render.NoPictureError{Docs: docs})
		}
		if err := output.WritePictures(out, c.Pictures, pictures); err != nil {
			return err
		}
	}
	var q *qualify.Qualification
	if len(c.Files) == 1 {
		q, _ = qualify.Load(c.Files[0]) // a file of results has been read already
	}
	return c.Output.Deliver(out, func(w io.Writer, format string) error {
		switch {
		case q == nil || !slices.Contains(render.QualificationFormats(), format) || format == "json":
			return render.Documents(w, format, docs)
		case format == "table":
			if err := render.Documents(w, format, q.Documents()); err != nil {
				return err
			}
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		return render.Qualification(w, format, q)
	})
}
