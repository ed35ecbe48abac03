package render

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// Format is a way to write a result.
type Format struct {
	Name        string // as in --format
	Description string
	Endings     []string // of files
}

// Formats are all ways; a kind of result has some of them.
func Formats() []Format {
	return []Format{
		{"table", "tables for a terminal", []string{".txt"}},
		{"csv", "a line per record; read the columns by their names", []string{".csv"}},
		{"json", "the whole result, which 'report', 'compare' and --resume read", []string{".json"}},
		{"markdown", "tables for a README or an issue", []string{".md"}},
		{"latex", "tables for a paper (booktabs)", []string{".tex"}},
		{"junit", "JUnit XML: a test case per expectation, or per record", []string{".xml"}},
		{"openmetrics", "gauges for Prometheus and node_exporter's textfile collector", []string{".prom", ".om"}},
		{"html", "one self-contained page with pictures", []string{".html"}},
		{"svg", "the pictures, one below the other", []string{".svg"}},
	}
}

// Endings are those of files in some formats.
func Endings(formats []string) []string {
	var out []string
	for _, f := range Formats() {
		if slices.Contains(formats, f.Name) {
			out = append(out, f.Endings...)
		}
	}
	return out
}

// FormatNamed finds one of some formats by its name, or by the ending of its files.
func FormatNamed(formats []string, name string) (string, error) {
	for _, f := range Formats() {
		if slices.Contains(formats, f.Name) && (f.Name == name || slices.Contains(f.Endings, "."+name)) {
			return f.Name, nil
		}
	}
	return "", fmt.Errorf("no format %q%s", name, plain.Choices(name, formats))
}

// FormatOfFile finds one of some formats by a file's name; without an ending it is JSON.
func FormatOfFile(formats []string, path string) (string, error) {
	if path == "-" {
		return "", errors.New("standard output has --format")
	}
	ending := strings.ToLower(cmp.Or(filepath.Ext(path), ".json"))
	for _, f := range Formats() {
		if slices.Contains(formats, f.Name) && slices.Contains(f.Endings, ending) {
			return f.Name, nil
		}
	}
	err := fmt.Errorf("no format of this result ends in %q; there are %s", ending, strings.Join(Endings(formats), ", "))
	if slices.Contains([]string{".png", ".pdf"}, ending) && slices.Contains(formats, "svg") {
		err = fmt.Errorf("pictures are SVG: save x.svg, then 'rsvg-convert x.svg -f %s -o %s'", ending[1:], path)
	}
	return "", err
}

// DocumentFormats are the formats of documents.
func DocumentFormats() []string {
	return plain.Each(Formats(), func(f Format) string { return f.Name })
}

// Documents writes documents: overlaid in pictures, one after the other elsewhere.
func Documents(w io.Writer, format string, docs []*report.Document) error {
	switch format {
	case "csv":
		return documentsCSV(w, docs)
	case "json":
		return documentsJSON(w, docs)
	case "table", "markdown", "latex":
		for i, d := range docs {
			if i > 0 {
				if err := write(w, "\n"); err != nil {
					return err
				}
			}
			if err := documentSheet(d).write(w, format); err != nil {
				return err
			}
		}
		return nil
	}
	r := result{Title: "gobw", docs: docs}
	if format == "html" {
		r.Title = plain.Plural(len(docs), "result")
		if len(docs) == 1 {
			r.Title = cmp.Or(docs[0].Description, plain.JoinWords(docs[0].Command), docs[0].Name())
		}
		r.Verdict, r.Good = checked(docs)
	}
	return r.write(w, format)
}

// checked is the verdict on all expectations; nothing where there were none.
func checked(docs []*report.Document) (verdict string, good bool) {
	var words []stats.Word
	for _, d := range docs {
		for _, c := range d.Checks {
			words = append(words, c.Word)
		}
	}
	if len(words) == 0 {
		return "", true
	}
	met, word := len(slices.DeleteFunc(slices.Clone(words), func(w stats.Word) bool { return w != stats.Pass })),
		stats.Gravest(words...)
	return fmt.Sprintf("%s: %d of %s met.", strings.ToUpper(string(word)), met, plain.Plural(len(words), "expectation")),
		word == stats.Pass
}

// heading lines of a document for people: what must be said before any number.
func heading(d *report.Document) []string {
	var out []string
	if d.Label != "" {
		out = append(out, d.Label)
	}
	if s := d.Server; s != nil && s.Fabric != d.Client.Fabric {
		out = append(out, "emulated network of the server: "+cmp.Or(s.Fabric, "good"))
	}
	if !d.Complete {
		out = append(out, "INCOMPLETE: "+cmp.Or(d.Failure, "interrupted"))
	}
	return out
}
