package render

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/plot"
	"github.com/gobw/gobw/report/qualify"
	"github.com/gobw/gobw/report/trend"
)

// result is what every format is made of, for every kind of result. For people it has labels, tables, and lines below
// the tables.
type result struct {
	Title    string
	Labels   []string
	Device   string // on what was measured
	Tables   []table
	Warnings []string
	Heading  string // of the closing lines
	Closing  []string
	Verdict  string // the last line of a terminal, the first of a page
	Good     bool
	json     any
	docs     []*report.Document // each has a section of the page

	qualification *qualify.Qualification // nil: of another kind
	trend         *trend.Trend
}

// documentSheet is a document as people are shown it.
func documentSheet(d *report.Document) result {
	r := result{Title: d.Description, Labels: heading(d), Device: d.Device(), Tables: tables(d), Warnings: d.Warnings}
	if d.Fabric != nil {
		m := hostMatrix{d.Fabric}
		r.Labels, r.Closing = append(r.Labels, m.line(d.Checks)), m.closing(d)
	}
	if d.Noncontig != nil && len(d.Noncontig.Summary) > 0 {
		r.Heading, r.Closing = "in words", d.Noncontig.Summary
	}
	for i := range r.Tables { // the heading says why
		r.Tables[i].Notes = slices.DeleteFunc(r.Tables[i].Notes,
			func(n string) bool { return d.Failure != "" && strings.HasPrefix(n, incomplete+d.Failure) })
	}
	return r
}

// pictures are those of a trend, or of the documents.
func (r result) pictures() []plot.Figure {
	if r.trend != nil {
		return trendPictures(r.trend)
	}
	return Pictures(r.docs)
}

// write writes the result in one of its formats.
func (r result) write(w io.Writer, format string) error {
	out := &strings.Builder{}
	switch format {
	case "json":
		return writeJSON(w, r.json)
	case "junit":
		suites := plain.Each(r.docs, suiteOf)
		if r.qualification != nil {
			suites = qualificationSuites(r.qualification)
		}
		return writeJUnit(w, r.Title, suites)
	case "openmetrics":
		file := ""
		if f, is := w.(interface{ FileName() string }); is {
			file = f.FileName()
		}
		m := metricsOf(r.docs, file)
		if r.qualification != nil {
			m.qualification(r.qualification, file)
		}
		m.write(out)
		return write(w, out.String())
	case "html":
		return r.page(w)
	case "svg":
		pictures := r.pictures()
		if len(pictures) == 0 {
			return NoPictureError{r.docs}
		}
		return plot.WriteSVG(w, pictures...)
	case "markdown":
		if err := r.markdown(out); err != nil {
			return err
		}
	case "latex":
		if err := r.latex(out); err != nil {
			return err
		}
	default:
		if _, quiet := w.(interface{ WithoutNotes() }); quiet {
			r.dropNotes()
		}
		r.terminal(out, columns(w))
	}
	return write(w, plain.Terminal(out.String()))
}

// dropNotes drops warnings and notes. Failures stay, and so do the notes that a row or a mark refers to.
func (r *result) dropNotes() {
	r.Warnings = nil
	r.Closing = slices.DeleteFunc(r.Closing, func(line string) bool { return strings.HasPrefix(line, figure.Others+": ") })
	for i := range r.Tables {
		r.Tables[i].Notes = slices.DeleteFunc(r.Tables[i].Notes, func(n string) bool {
			mark, _, found := strings.Cut(n, ": ")
			return !strings.HasPrefix(n, "[") && (!found || utf8.RuneCountInString(mark) > 1)
		})
	}
}

// terminal writes labels, tables, warnings, closing lines and the verdict.
func (r result) terminal(out *strings.Builder, most int) {
	head := r.Labels
	if r.Device != "" {
		first := plain.When(r.Title != "", "%s: ", r.Title) + r.Device // the title says which of several results
		if len(head) > 0 && !strings.HasPrefix(head[0], "INCOMPLETE: ") {
			first += ": " + head[0]
			head = head[1:]
		}
		head = append([]string{first}, head...)
	}
	for _, l := range head {
		writeWrapped(out, l, most)
	}
	for _, t := range r.Tables {
		if out.Len() > 0 {
			fmt.Fprintln(out)
		}
		t.terminal(out, most)
	}
	for _, n := range r.Warnings {
		writeWrapped(out, "warning: "+n, most)
	}
	if len(r.Closing) > 0 || r.Verdict != "" {
		fmt.Fprintln(out)
	}
	if r.Heading != "" {
		fmt.Fprintln(out, r.Heading)
	}
	for _, line := range r.Closing {
		writeWrapped(out, line, most)
	}
	if r.Verdict != "" {
		writeWrapped(out, r.Verdict, most)
	}
}

// writeWrapped writes text in lines of at most so many runes.
func writeWrapped(out *strings.Builder, text string, most int) {
	lines := []string{text}
	if !strings.HasPrefix(text, " ") { // a command to paste stays whole
		lines = plain.Wrap(text, most)
	}
	for _, line := range lines {
		fmt.Fprintln(out, line)
	}
}
