// Package report is the command 'report': saved results in any format.
package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/qualify"
	"github.com/gobw/gobw/report/render"
)

// flags are the flags of 'report' as they were typed.
type flags struct {
	format, save string
	pictures     output.PictureFlags
}

// config is what to render.
type config struct {
	Files    []string
	Format   render.Format
	Save     string // empty: standard output
	Pictures output.Pictures
}

// NewCommand makes 'report'.
func NewCommand(tool string, out output.Streams) *cobra.Command {
	flags := &flags{}
	names := plain.Each(output.Formats(), func(f render.Format) string { return fmt.Sprintf("  %-9s %s", f.Name, f.Description) })
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
		RunE: cmdline.Run(flags.config, func(_ context.Context, c config) error { return run(out, c) }),
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&flags.format, "format", "", strings.Join(output.FormatNames(), ", ")+" (table, or by the ending of --save)")
	fs.StringVar(&flags.save, "save", "", "write to this file instead of standard output")
	flags.pictures.Bind(fs, "write each picture into this directory")
	return cmd
}

func (f *flags) config(args []string) (config, error) {
	c := config{Files: args, Save: f.save}
	var wrong cmdline.Faults
	wrong.If(len(args) == 0, "no file: name one that --save or qualify --json wrote")
	var err error
	switch {
	case f.format != "":
		c.Format, err = output.FormatNamed(f.format)
		wrong.Note(cmdline.Prefixed("--format", err))
	case f.save != "":
		c.Format, err = output.FormatOfFile(f.save)
		wrong.Note(cmdline.Prefixed("--save "+f.save, err))
	case !f.pictures.Asked():
		c.Format, err = output.FormatNamed("table")
		wrong.Note(err)
	}
	c.Pictures, err = f.pictures.Config()
	wrong.Note(err)
	return c, errors.Join(wrong...)
}

// run renders files.
func run(out output.Streams, c config) error {
	docs, lost, err := output.Load(c.Files)
	if err != nil {
		return err
	}
	lost.Note(out)
	if c.Pictures.Directory != "" {
		pictures := render.Pictures(docs)
		if len(pictures) == 0 {
			return exit.UsageError{Err: errors.New("these results give no picture: a curve needs two sizes or more, a histogram --save from golat or a bandwidth test")}
		}
		if err := c.Pictures.Write(out, pictures); err != nil {
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
	return output.Write(out, c.Save, render)
}

// verdictsOf renders a single qualification with its verdicts, in the formats that have a place for them.
func verdictsOf(c config) func(io.Writer) error {
	render := map[string]func(io.Writer, *qualify.Qualification) error{
		"table": render.QualificationTable, "markdown": render.QualificationMarkdown, "junit": render.QualificationJUnit, "html": render.QualificationHTML,
		"openmetrics": render.QualificationOpenMetrics,
	}[c.Format.Name]
	if render == nil || len(c.Files) != 1 {
		return nil
	}
	q, err := qualify.Load(c.Files[0])
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
