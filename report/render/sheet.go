package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/gobw/gobw/report/plain"
)

// sheet is what a comparison and a trend show to people: what must be said first, tables, and lines below them.
type sheet struct {
	labels  []string
	grids   []grid
	closing []string
}

func (s sheet) write(w io.Writer, format string) error {
	out := &strings.Builder{}
	switch format {
	case "markdown", "md":
		for _, l := range s.labels {
			fmt.Fprintf(out, "**%s**\n\n", escapeMarkdown(l))
		}
		for _, g := range s.grids {
			writeMarkdown(out, g)
		}
		for _, line := range s.closing {
			fmt.Fprintf(out, "- %s\n", escapeMarkdown(line))
		}
	case "latex", "tex":
		out.WriteString(laTeXPackages)
		for _, g := range s.grids {
			writeLaTeX(out, g, strings.Join(s.labels, "; "))
		}
		for _, line := range s.closing {
			fmt.Fprintf(out, "\\noindent %s.\\par\n", escapeLaTeX(line))
		}
	default:
		for _, l := range s.labels {
			writeWrapped(out, l, columns(w))
		}
		for i, g := range s.grids {
			if i > 0 || len(s.labels) > 0 {
				fmt.Fprintln(out)
			}
			if err := writeGrid(out, g, columns(w)); err != nil {
				return err
			}
		}
		fmt.Fprintln(out)
		for _, line := range s.closing {
			writeWrapped(out, line, columns(w))
		}
	}
	return write(w, plain.Terminal(out.String()))
}

// writeWrapped writes text in lines of at most so many runes.
func writeWrapped(out *strings.Builder, text string, most int) {
	for _, line := range plain.Wrap(text, most) {
		fmt.Fprintln(out, line)
	}
}
