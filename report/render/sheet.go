package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/internal/openmetrics"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/plot"

	"github.com/gobw/gobw/report"
)

// result is what every format is made of, whatever was measured.
type result struct {
	sheet
	json     any
	docs     []*report.Document // each has a section of the page
	suites   func() []suite
	families func() metrics
	pictures func() []Picture
}

// write writes the result in one of its formats.
func (r result) write(w io.Writer, format string) error {
	switch format {
	case "json":
		return writeJSON(w, r.json)
	case "junit":
		return writeJUnit(w, r.title, r.suites())
	case "openmetrics":
		return openmetrics.Write(w, r.families()...)
	case "html":
		return r.page(w)
	case "svg":
		return plot.WriteSVG(w, plain.Each(r.pictures(), func(p Picture) plot.Figure { return p.Figure })...)
	}
	return r.sheet.write(w, format)
}

// sheet is what people are shown of a result: what must be said first, tables, and lines below them.
type sheet struct {
	title    string
	labels   []string
	device   string // on what was measured
	tables   []table
	warnings []string
	closing  []string
	verdict  string // the last line of a terminal, the first of a page
	good     bool
}

// documentSheet is a document as people are shown it.
func documentSheet(d *report.Document) sheet {
	s := sheet{title: d.Description, labels: heading(d), device: d.Device(), tables: tables(d), warnings: d.Warnings}
	for i := range s.tables { // the heading says why
		s.tables[i].Notes = slices.DeleteFunc(s.tables[i].Notes, func(n string) bool { return d.Failure != "" && strings.HasPrefix(n, incomplete+d.Failure) })
	}
	return s
}

func (s sheet) write(w io.Writer, format string) error {
	out := &strings.Builder{}
	switch format {
	case "markdown":
		s.markdown(out)
	case "latex":
		s.latex(out)
	default:
		if _, quiet := w.(interface{ WithoutNotes() }); quiet {
			s.dropNotes()
		}
		s.terminal(out, columns(w))
	}
	return write(w, plain.Terminal(out.String()))
}

// dropNotes leaves figures and failures: notes that a row refers to stay, and what its marks mean.
func (s *sheet) dropNotes() {
	s.warnings = nil
	for i := range s.tables {
		s.tables[i].Notes = slices.DeleteFunc(s.tables[i].Notes, func(n string) bool {
			mark, _, found := strings.Cut(n, ": ")
			return !strings.HasPrefix(n, "[") && (!found || !slices.Contains(marks(), mark))
		})
		s.tables[i].Rows = slices.DeleteFunc(s.tables[i].Rows, func(row []string) bool { return s.tables[i].prose && row[0] == figure.Others })
	}
}

// terminal has titles above the tables, warnings and what is to be said of all below them.
func (s sheet) terminal(out *strings.Builder, most int) {
	head := s.labels
	if s.device != "" {
		first := plain.When(s.title != "", "%s: ", s.title) + s.device // the title says which of several results
		if len(head) > 0 {
			first += ": " + head[0]
			head = head[1:]
		}
		head = append([]string{first}, head...)
	}
	for _, l := range head {
		writeWrapped(out, l, most)
	}
	for _, t := range s.tables {
		if out.Len() > 0 {
			fmt.Fprintln(out)
		}
		t.terminal(out, most)
	}
	for _, n := range s.warnings {
		writeWrapped(out, "warning: "+n, most)
	}
	if len(s.closing) > 0 || s.verdict != "" {
		fmt.Fprintln(out)
	}
	for _, line := range s.closing {
		writeWrapped(out, line, most)
	}
	if s.verdict != "" {
		writeWrapped(out, s.verdict, most)
	}
}

// markdown is GitHub's. It opens with the verdict: a step summary shows its first lines.
func (s sheet) markdown(out *strings.Builder) {
	if head := s.verdict + s.title; head != "" {
		fmt.Fprintf(out, "## %s\n\n", escapeMarkdown(head))
	}
	for _, l := range s.labels {
		fmt.Fprintf(out, "**%s**\n\n", escapeMarkdown(l))
	}
	if s.device != "" {
		fmt.Fprintf(out, "%s\n\n", escapeMarkdown(s.device))
	}
	for _, t := range s.tables {
		t.markdown(out)
	}
	for _, n := range s.warnings {
		fmt.Fprintf(out, "- warning: %s\n", escapeMarkdown(n))
	}
	for _, line := range s.closing {
		fmt.Fprintf(out, "- %s\n", escapeMarkdown(line))
	}
}

// latex is tables in the style of the booktabs package.
func (s sheet) latex(out *strings.Builder) {
	out.WriteString("% needs \\usepackage{booktabs} and \\usepackage{graphicx}\n")
	said := s.labels
	if s.device != "" {
		said = append(said, s.device)
	}
	for _, t := range s.tables {
		if s.title != "" {
			t.Title = s.title + ": " + t.Title
		}
		t.latex(out, strings.Join(said, "; "))
	}
	for _, n := range s.warnings {
		fmt.Fprintf(out, "%% warning: %s\n", escapeLaTeX(plain.OneLine(n)))
	}
	for _, line := range s.closing {
		fmt.Fprintf(out, "\\noindent %s.\\par\n", escapeLaTeX(line))
	}
}

// writeWrapped writes text in lines of at most so many runes.
func writeWrapped(out *strings.Builder, text string, most int) {
	for _, line := range plain.Wrap(text, most) {
		fmt.Fprintln(out, line)
	}
}
