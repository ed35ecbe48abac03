package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
)

// sheet is what people are shown of a result: what must be said first, tables, and lines below them.
type sheet struct {
	title    string
	labels   []string
	device   string // on what was measured
	grids    []grid
	warnings []string
	closing  []string
}

// documentSheet is a document as people are shown it.
func documentSheet(d *report.Document) sheet {
	return sheet{title: d.Description, labels: heading(d), device: d.Device(), grids: grids(d), warnings: d.Warnings}
}

func (s sheet) write(w io.Writer, format string) error {
	out := &strings.Builder{}
	var err error
	switch format {
	case "markdown":
		s.markdown(out)
	case "latex":
		s.latex(out)
	default:
		err = s.table(out, columns(w))
	}
	if err != nil {
		return err
	}
	return write(w, plain.Terminal(out.String()))
}

// table is for a terminal: titles above the tables, warnings by number below them.
func (s sheet) table(out *strings.Builder, most int) error {
	head := s.labels
	if s.device != "" && len(head) > 0 {
		head = append([]string{s.device + ": " + head[0]}, head[1:]...)
	} else if s.device != "" {
		head = []string{s.device}
	}
	for _, l := range head {
		writeWrapped(out, l, most)
	}
	for _, g := range s.grids {
		if out.Len() > 0 {
			fmt.Fprintln(out)
		}
		if err := writeGrid(out, g, most); err != nil {
			return err
		}
	}
	for _, n := range s.warnings {
		writeWrapped(out, "warning: "+n, most)
	}
	if len(s.closing) > 0 {
		fmt.Fprintln(out)
	}
	for _, line := range s.closing {
		writeWrapped(out, line, most)
	}
	return nil
}

// markdown is GitHub's.
func (s sheet) markdown(out *strings.Builder) {
	if s.title != "" {
		fmt.Fprintf(out, "## %s\n\n", escapeMarkdown(s.title))
	}
	for _, l := range s.labels {
		fmt.Fprintf(out, "**%s**\n\n", escapeMarkdown(l))
	}
	if s.device != "" {
		fmt.Fprintf(out, "%s\n\n", escapeMarkdown(s.device))
	}
	for _, g := range s.grids {
		writeMarkdown(out, g)
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
	out.WriteString(laTeXPackages)
	said := s.labels
	if s.device != "" {
		said = append(said, s.device)
	}
	for _, g := range s.grids {
		if s.title != "" {
			g.title = s.title + ": " + g.title
		}
		writeLaTeX(out, g, strings.Join(said, "; "))
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
