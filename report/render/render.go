package render

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
)

// documentWriter writes one document in one format. It holds no state, reads no clock, and returns write errors.
type documentWriter func(w io.Writer, d *report.Document) error

// Format is a way to write documents.
type Format struct {
	Name        string // as in --format
	Description string
	Extension   string // of a file, with the dot
	// All writes several documents together: overlaid in pictures, one after the other elsewhere.
	All func(w io.Writer, docs []*report.Document) error
}

// Render writes one document.
func (f Format) Render(w io.Writer, d *report.Document) error { return f.All(w, []*report.Document{d}) }

// Formats are all formats but pictures, for which see [Pictures].
func Formats() []Format {
	return []Format{
		{Name: "table", Description: "tables for a terminal", Extension: ".txt", All: each(documentAs("table"), "\n")},
		{Name: "csv", Description: "a line per record, stable columns", Extension: ".csv", All: documentsCSV},
		{Name: "json", Description: "the document itself", Extension: ".json", All: documentsJSON},
		{Name: "jsonl", Description: "a JSON object per record, one on each line", Extension: ".jsonl", All: each(documentJSONLines, "")},
		{Name: "markdown", Description: "tables for a README or an issue", Extension: ".md", All: each(documentAs("markdown"), "\n")},
		{Name: "latex", Description: "tables for a paper (booktabs)", Extension: ".tex", All: each(documentAs("latex"), "\n")},
		{Name: "junit", Description: "JUnit XML: a test case per expectation, or per record", Extension: ".xml", All: documentsJUnit},
		{Name: "openmetrics", Description: "gauges for Prometheus and node_exporter's textfile collector", Extension: ".prom", All: OpenMetrics},
		{Name: "html", Description: "one self-contained page with pictures", Extension: ".html", All: documentsHTML},
	}
}

// FormatNamed finds a format by name.
func FormatNamed(name string) (Format, error) {
	var names []string
	for _, f := range Formats() {
		if f.Name == name || (name == "md" && f.Name == "markdown") || (name == "tex" && f.Name == "latex") {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return Format{}, fmt.Errorf("no format %q%s; there are %s", name, plain.Suggest(name, names), strings.Join(names, ", "))
}

// each makes a renderer of one document one of several, with something between them.
func each(r documentWriter, between string) func(io.Writer, []*report.Document) error {
	return func(w io.Writer, docs []*report.Document) error {
		for i, d := range docs {
			if i > 0 {
				if _, err := io.WriteString(w, between); err != nil {
					return err
				}
			}
			if err := r(w, d); err != nil {
				return err
			}
		}
		return nil
	}
}

// heading lines of a document for people: what must be said before any number.
func heading(d *report.Document) []string {
	var out []string
	if d.Label != "" {
		out = append(out, d.Label)
	}
	if s := d.Server; s != nil && s.Fabric != d.Client.Fabric {
		out = append(out, "the server's emulated network: "+cmp.Or(s.Fabric, "good"))
	}
	if !d.Complete {
		reason := d.Failure
		if reason == "" {
			reason = "interrupted"
		}
		out = append(out, "INCOMPLETE: "+reason)
	}
	return out
}
