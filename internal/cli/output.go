package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/gobw/gobw/internal/perftest"
	"github.com/gobw/gobw/report"
)

// formats are all ways to write a result: report's, and those added here.
func formats() []report.Format { return append(report.Formats(), perftest.Format()) }

func formatNames() []string {
	var names []string
	for _, f := range formats() {
		names = append(names, f.Name)
	}
	return names
}

func formatNamed(name string) (report.Format, error) {
	if f := perftest.Format(); f.Name == name {
		return f, nil
	}
	f, err := report.FormatNamed(name)
	if err != nil {
		err = fmt.Errorf("%w, %s", err, perftest.Format().Name)
	}
	return f, err
}

// checkWritable tells before a measurement what would keep its files from being written after it.
func checkWritable(paths ...string) error {
	var errs []error
	for _, p := range paths {
		if p != "" {
			errs = append(errs, report.CheckWritable(p))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return setupError{err}
	}
	return nil
}

// deliver prints the document, in no format not at all, and saves it.
func deliver(out Streams, c outputConfig, d *report.Document) error {
	if c.Format.All != nil {
		if err := c.Format.Render(out.Out, d); err != nil {
			return fmt.Errorf("print the result: %w", err)
		}
	}
	if c.Save == "" {
		return nil
	}
	if c.saveAs.Name == "json" {
		return report.Save(c.Save, d)
	}
	return report.WriteFile(c.Save, func(w io.Writer) error { return c.saveAs.Render(w, d) })
}
