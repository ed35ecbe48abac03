package render

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/plot"
	"github.com/gobw/gobw/report/stats"
)

//go:embed page.html
var pageSource string

// page is what the template shows.
type page struct {
	Title     string
	Style     template.CSS
	Notices   []string
	Verdict   *pageVerdict
	Verdicts  []pageTable // of a qualification
	Pictures  []template.HTML
	Documents []pageDocument
}

type pageVerdict struct {
	Text string
	Good bool
}

type pageDocument struct {
	Name     string
	Anchor   string
	Command  string
	When     string
	Tables   []pageTable
	Warnings []string
	Columns  []string
	Facts    []fact
	Unlike   string // the document whose environment the facts differ from
}

type pageTable struct {
	Title  string
	Header []pageCell
	Rows   [][]pageCell
	Notes  []string
}

type pageCell struct {
	Text   string
	Number bool
	Mark   string // "pass", "fail"
}

// fact is a row of the environment table.
type fact struct {
	Name   string
	Values []string
	anew   bool // measured each time
}

// documentsHTML writes one page that needs no network: what was measured, on what, all tables, and all pictures as inline SVG.
// It follows the reader's light or dark theme and prints on white.
func documentsHTML(w io.Writer, docs []*report.Document) error {
	p, err := newPage(docs)
	if err != nil {
		return err
	}
	return p.write(w)
}

func (p *page) write(w io.Writer) error {
	t, err := template.New("page").Parse(pageSource)
	if err != nil {
		return fmt.Errorf("html: %w", err)
	}
	b := &strings.Builder{}
	if err := t.Execute(b, p); err != nil {
		return fmt.Errorf("html: %w", err)
	}
	return write(w, plain.Terminal(b.String()))
}

func newPage(docs []*report.Document) (*page, error) {
	p := &page{Style: template.CSS(plot.Style())} //nolint:gosec // our own style sheet
	passed, failed := 0, 0
	for i, d := range docs {
		p.Documents = append(p.Documents, pageOf(d, i))
		for _, h := range heading(d) {
			p.Notices = plain.AddNew(p.Notices, h)
		}
		for _, c := range d.Checks {
			if c.Word == stats.Pass {
				passed++
			} else {
				failed++
			}
		}
	}
	tellOnce(p.Documents)
	switch {
	case failed > 0:
		p.Verdict = &pageVerdict{Text: fmt.Sprintf("%d of the expectations missed, %d met.", failed, passed)}
	case passed > 0:
		p.Verdict = &pageVerdict{Text: fmt.Sprintf("All %d expectations met.", passed), Good: true}
	}
	switch len(docs) {
	case 0:
		p.Title = "No results"
	case 1:
		p.Title = strings.Join(kinds(docs[0]), ", ") + " on " + docs[0].Device()
		if docs[0].Description != "" {
			p.Title = docs[0].Description
		}
	default:
		p.Title = fmt.Sprintf("%d results", len(docs))
	}
	p.Title = title(p.Title)
	return p, p.draw(Pictures(docs))
}

// add puts tables on top of the page.
func (p *page) add(tables []grid) {
	for _, g := range tables {
		p.Verdicts = append(p.Verdicts, pageTableOf(g))
	}
}

// draw adds pictures to the page.
func (p *page) draw(pictures []Picture) error {
	for _, pic := range pictures {
		b := &strings.Builder{}
		if err := plot.WriteInlineSVG(b, pic.Figure); err != nil {
			return err
		}
		p.Pictures = append(p.Pictures, template.HTML(b.String())) //nolint:gosec // written by package plot, which escapes every text
	}
	return nil
}

// kinds of tests in a document, each once.
func kinds(d *report.Document) []string {
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
	return out
}

func pageOf(d *report.Document, index int) pageDocument {
	out := pageDocument{
		Name: d.Name(), Anchor: "result-" + strconv.Itoa(index+1), Command: strings.Join(d.Command, " "), Warnings: d.Warnings,
	}
	if !d.Started.IsZero() {
		out.When = d.Started.UTC().Format("2006-01-02 15:04:05 UTC")
		if s := d.Finished.Sub(d.Started).Seconds(); s > 0 {
			out.When += fmt.Sprintf(", %.1f s", s)
		}
	}
	for _, g := range grids(d) {
		out.Tables = append(out.Tables, pageTableOf(g))
	}
	envs := []*report.Environment{&d.Client}
	out.Columns = []string{"client"}
	if d.Server != nil {
		envs = append(envs, d.Server)
		out.Columns = append(out.Columns, "server")
	}
	out.Facts = facts(envs)
	return out
}

// tellOnce leaves of the later documents' environments what differs from the first one's.
func tellOnce(docs []pageDocument) {
	for i := range docs {
		d, first := &docs[i], &docs[0]
		if i == 0 || len(d.Columns) != len(first.Columns) {
			continue
		}
		d.Unlike = first.Name
		d.Facts = slices.DeleteFunc(d.Facts, func(f fact) bool {
			same := func(g fact) bool { return g.Name == f.Name && slices.Equal(g.Values, f.Values) }
			return f.anew || slices.ContainsFunc(first.Facts, same)
		})
	}
}

func pageTableOf(g grid) pageTable {
	t := pageTable{Title: g.title}
	for i, n := range g.notes {
		t.Notes = append(t.Notes, g.number(i)+n)
	}
	for i, h := range g.header {
		t.Header = append(t.Header, pageCell{Text: h, Number: rightAligned(g, i)}) // asks every row
	}
	for _, r := range g.rows {
		var cells []pageCell
		for i, c := range r {
			cell := pageCell{Text: c, Number: t.Header[i].Number}
			switch c {
			case "pass":
				cell.Mark = "pass"
			case "FAIL", "ERROR":
				cell.Mark = "fail"
			}
			cells = append(cells, cell)
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// facts lists what is known of each end; a row of which nothing is known anywhere is left out.
func facts(envs []*report.Environment) []fact {
	var out []fact
	for i, f := range envs[0].Facts() {
		row, known := fact{Name: f.Name, anew: f.Means == "anew"}, false
		for _, e := range envs {
			of := e.Facts()[i]
			known = known || of.Known
			row.Values = append(row.Values, of.Value)
		}
		if known {
			out = append(out, row)
		}
	}
	return out
}
