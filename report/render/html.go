package render

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/plot"
)

//go:embed page.html
var pageSource string

// page is what the template shows.
type page struct {
	Title, Verdict string
	Good           bool
	Style          template.CSS
	Notices        []string
	Tables         []table
	Closing        []string
	Pictures       []template.HTML
	Sections       []section
}

// section is a document on the page.
type section struct {
	Name, Command, When string
	Warnings            []string
	Tables              []table
}

// page writes one page that needs no network: what was measured, on what, all tables, and all pictures as inline SVG.
// It follows the reader's light or dark theme and prints on white.
func (r result) page(w io.Writer) error {
	p := page{
		Title: title(r.title), Verdict: r.verdict, Good: r.good, Notices: slices.Clone(r.labels), Tables: r.tables, Closing: r.closing,
		Style: template.CSS(plot.Style()), //nolint:gosec // our own style sheet
	}
	for _, d := range r.docs {
		p.Sections = append(p.Sections, sectionOf(d, r.docs[0]))
		for _, h := range heading(d) {
			p.Notices = plain.AddNew(p.Notices, h)
		}
	}
	for _, pic := range r.pictures() {
		b := &strings.Builder{}
		if err := plot.WriteInlineSVG(b, pic.Figure); err != nil {
			return err
		}
		p.Pictures = append(p.Pictures, template.HTML(b.String())) //nolint:gosec // written by package plot, which escapes every text
	}
	t, err := template.New("page").Funcs(template.FuncMap{"class": class}).Parse(pageSource)
	if err != nil {
		return fmt.Errorf("html: %w", err)
	}
	b := &strings.Builder{}
	if err := t.Execute(b, p); err != nil {
		return fmt.Errorf("html: %w", err)
	}
	return write(w, plain.Terminal(b.String()))
}

// class is how a cell looks: what passed, what failed, figures.
func class(cell string, figure bool) string { //nolint:revive // figure: a fact, not a mode
	switch word, _, _ := strings.Cut(cell, " "); {
	case word == "pass":
		return "pass"
	case word == "FAIL", word == "ERROR":
		return "fail"
	case figure:
		return "n"
	}
	return ""
}

// kinds of tests in a document, each once.
func kinds(d *report.Document) string {
	var out []string
	for i := range d.Records {
		out = plain.AddNew(out, d.Records[i].Operation+" "+d.Records[i].Kind)
	}
	if d.Noncontig != nil {
		out = append(out, "non-contiguous transfers")
	}
	if len(out) == 0 {
		out = append(out, d.Tool)
	}
	return strings.Join(out, ", ")
}

func sectionOf(d, first *report.Document) section {
	out := section{Name: d.Name(), Command: strings.Join(d.Command, " "), Warnings: d.Warnings, Tables: append(tables(d), facts(d, first))}
	if !d.Started.IsZero() {
		out.When = d.Started.UTC().Format("2006-01-02 15:04:05 UTC")
		if s := d.Finished.Sub(d.Started).Seconds(); s > 0 {
			out.When += fmt.Sprintf(", %.1f s", s)
		}
	}
	return out
}

// facts lists what is known of each end; of a later document what differs from the first one's.
func facts(d, first *report.Document) table {
	ends := func(d *report.Document) []*report.Environment {
		if d.Server == nil {
			return []*report.Environment{&d.Client}
		}
		return []*report.Environment{&d.Client, d.Server}
	}
	here, there := ends(d), ends(first)
	t := table{Title: "Environment", Header: []string{"", "client", "server"}[:1+len(here)]}
	later := d != first && len(here) == len(there)
	t.Title += plain.When(later, ", where it differs from that of %s", first.Name())
	for i, f := range d.Client.Facts() {
		row, known, same := []string{f.Name}, false, later
		for k, end := range here {
			of := end.Facts()[i]
			row, known = append(row, of.Value), known || of.Known
			same = same && (f.Means == "anew" || of.Value == there[k].Facts()[i].Value)
		}
		if known && !same {
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}
