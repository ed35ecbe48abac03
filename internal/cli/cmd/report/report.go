// Package report is the command 'report': saved results in any format.
package report

import (
	"cmp"
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

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/cli/cmd/search"
	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/qualify"
	"github.com/gobw/gobw/report/render"
)

// config is what to render.
type config struct {
	Files  []string
	Grades bool
	Output output.Config
}

//go:embed help.txt
var help string

// NewCommand makes 'report'.
func NewCommand(tool string, out output.Streams) *cobra.Command {
	var flags output.Flags
	var grades bool
	names := plain.Each(render.Formats(),
		func(f render.Format) string { return fmt.Sprintf("  %-11s %s", f.Name, f.Description) })
	cmd := cmdline.Command(tool, help)
	cmd.Long += "\n\nFormats:\n" + strings.Join(names, "\n")
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = cmdline.Run(func(args []string) (config, error) {
		c := config{Files: output.Files(args...), Grades: grades}
		var wrong cmdline.Faults
		wrong.If(len(args) == 0, "no file: name a saved result, such as the file of --save result.json")
		wrong.If(grades && (cmd.Flags().Changed("save") || cmd.Flags().Changed("format")),
			"--grades prints CSV: leave --save and --format out, and add > grades.csv")
		c.Output = flags.Config(&wrong)
		return c, errors.Join(wrong...)
	}, func(ctx context.Context, c config) error {
		return cmdline.Interruptible(ctx, func() error { return run(out, c) })
	})
	fs := cmd.Flags()
	fs.SortFlags = false
	flags.Bind(fs, render.DocumentFormats())
	fs.BoolVar(&grades, "grades", false,
		"print CSV, a line for each result of qualify: its --label, the verdict, the reason")
	return cmd
}

// run renders files.
func run(out output.Streams, c config) error {
	if err := c.Output.CheckWritable(); err != nil {
		return err
	}
	if c.Grades {
		return grades(out.Out, c.Files)
	}
	if len(c.Files) == 1 {
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

// grades writes a line for each file, and for each .json file of a directory. An unfinished result whose finished one
// is beside it has none.
func grades(w io.Writer, paths []string) error {
	var all []render.Grade
	var errs []error
	for _, path := range paths {
		files, directory, err := output.ResultFiles(path)
		if _, missing := os.Stat(path); err == nil && errors.Is(missing, fs.ErrNotExist) {
			err = &report.FileError{File: path, Err: errors.New("no such file")}
		}
		errs = append(errs, err)
		files = slices.DeleteFunc(slices.Clone(files), func(file string) bool {
			whole, partial := strings.CutSuffix(file, ".partial.json")
			return directory && partial && slices.Contains(files, whole+".json")
		})
		all = append(all, plain.Each(files, grade)...)
	}
	if err := errors.Join(errs...); err != nil {
		return exit.With(exit.Usage, err)
	}
	return render.Grades(w, all)
}

// grade is the line of a file. A file that cannot be read has one, too.
func grade(file string) render.Grade {
	g := render.Grade{Verdict: string(qualify.Broken)}
	q, err := qualify.Load(file)
	switch {
	case err != nil:
		g.Reason = err.Error()
	case q == nil:
		g.Reason = "not a result of qualify"
	default:
		g = render.GradeOf(q)
	}
	g.Name = cmp.Or(g.Name, strings.TrimSuffix(filepath.Base(file), ".json"))
	return g
}
