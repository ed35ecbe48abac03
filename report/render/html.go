package render

import (
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/plot"
)

// section is a document on the page.
type section struct {
	result
	Name, Command, When string
}

// page writes one page with all tables and all pictures as inline SVG. It loads nothing, follows the reader's light or
// dark theme, and prints on white.
func (r result) page(w io.Writer) error {
	p := struct {
		result
		Style    template.CSS
		Words    []string // of the title
		Answer   []string // in words, before all else
		Pictures []template.HTML
		Sections []section
	}{result: r, Style: template.CSS(plot.Style())} //nolint:gosec // our own style sheet
	// a command is typed as it is
	if p.Words = strings.Fields(r.Title); len(p.Words) > 0 && p.Words[0] != "gobw" && p.Words[0] != "golat" {
		p.Title = title(r.Title)
		p.Words[0] = title(p.Words[0])
	}
	p.Labels = slices.Clone(r.Labels)
	for i, d := range r.docs {
		of := sectionOf(d)
		if d.Noncontig != nil {
			p.Answer, of.Closing = append(p.Answer, d.Noncontig.Summary...), nil
		}
		if i == 0 || d.Device() != r.docs[i-1].Device() {
			of.Tables = append(of.Tables, facts(d))
		}
		p.Sections = append(p.Sections, of)
		for _, l := range of.Labels {
			p.Labels = plain.AddNew(p.Labels, l)
		}
	}
	for _, f := range r.pictures() {
		b := &strings.Builder{}
		if err := plot.WriteInlineSVG(b, f); err != nil {
			return err
		}
		//nolint:gosec // written by package plot, which escapes every text
		p.Pictures = append(p.Pictures, template.HTML(b.String()))
	}
	b := &strings.Builder{}
	t := template.Must(template.New("page.html").Funcs(template.FuncMap{"class": class}).ParseFS(sources, "page.html"))
	if err := t.Execute(b, p); err != nil {
		return fmt.Errorf("html: %w", err)
	}
	return write(w, plain.Terminal(b.String()))
}

// class is the style of a cell: passed, failed, or a figure.
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

func sectionOf(d *report.Document) section {
	out := section{result: documentSheet(d), Name: d.Name(), Command: plain.JoinWords(d.Command)}
	if !d.Started.IsZero() {
		out.When = d.Started.UTC().Format("2006-01-02 15:04:05 UTC")
		if s := d.Finished.Sub(d.Started).Seconds(); s > 0 {
			out.When += fmt.Sprintf(", %.1f s", s)
		}
	}
	return out
}

// facts lists what is known of each end.
func facts(d *report.Document) table {
	ends := []*report.Environment{&d.Client}
	if d.Server != nil {
		ends = append(ends, d.Server)
	}
	t := table{Title: "Environment", Header: []string{"", "client", "server"}[:1+len(ends)]}
	for i, f := range d.Client.Facts() {
		row, known := []string{f.Name}, false
		for _, end := range ends {
			of := end.Facts()[i]
			row, known = append(row, of.Value), known || of.Known
		}
		if known {
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}
