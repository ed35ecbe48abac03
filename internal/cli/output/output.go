// Package output is where results go: streams, formats, files, progress.
package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/perftestcli"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/render"
)

// Formats are all ways to write a result: report's, and those added here.
func Formats() []render.Format { return append(render.Formats(), perftestcli.Format()) }

// FormatNames are their names.
func FormatNames() []string {
	return plain.Each(Formats(), func(f render.Format) string { return f.Name })
}

// FormatNamed finds a format, or an error that lists them.
func FormatNamed(name string) (render.Format, error) {
	if f := perftestcli.Format(); f.Name == name {
		return f, nil
	}
	f, err := render.FormatNamed(name)
	if err != nil {
		err = fmt.Errorf("%w, %s", err, perftestcli.Format().Name)
	}
	return f, err
}

// CheckWritable tells before a measurement what would keep its files from being written after it.
func CheckWritable(paths ...string) error {
	var errs []error
	for i, p := range paths {
		if p == "" {
			continue
		}
		if slices.Contains(paths[:i], p) && !strings.HasPrefix(p, "/dev/") {
			errs = append(errs, fmt.Errorf("%s: two results would be written there: give each a file", p))
		}
		errs = append(errs, report.CheckWritable(p))
	}
	if err := errors.Join(errs...); err != nil {
		return exit.SetupError{Err: err}
	}
	return nil
}

// Write writes into a file, or with no name to standard output.
func Write(out Streams, file string, write func(io.Writer) error) error {
	if file == "" {
		return write(out.Out)
	}
	return report.WriteFile(file, write)
}

// JSON prints what is no result as JSON for people and programs.
func JSON(out Streams, v any) error {
	e := json.NewEncoder(out.Out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// Deliver prints the document, in no format not at all, and saves it.
func Deliver(out Streams, c Config, d *report.Document) error {
	if c.Format.All != nil {
		if err := c.Format.Render(out.Out, d); err != nil {
			return fmt.Errorf("print the result: %w", err)
		}
	}
	if c.OpenMetrics != "" {
		if err := report.WriteFile(c.OpenMetrics, func(w io.Writer) error { return render.OpenMetrics(w, []*report.Document{d}) }); err != nil {
			return err
		}
	}
	if c.Save == "" {
		return nil
	}
	if c.Checkpoints() {
		return report.Save(c.Save, d)
	}
	return report.WriteFile(c.Save, func(w io.Writer) error { return c.saveAs.Render(w, d) })
}
