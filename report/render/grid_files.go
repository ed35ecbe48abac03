package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/noncontig"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/plot"
)

// File is one file of a saved result.
type File struct {
	Name  string
	About string // what is in it
	Write func(io.Writer) error
}

// GridFiles are the files that a non-contiguous experiment is saved in, beside its document: the tables in each format, the pictures,
// and the page for a paper with its one picture.
func GridFiles(d *report.Document) []File {
	var out []File
	add := func(name, about string, write func(io.Writer) error) { out = append(out, File{name, about, write}) }
	text := func(name, about string, write func(io.Writer, *report.Document) error) {
		add(name, about, func(w io.Writer) error { return write(w, d) })
	}
	text("result.txt", "the grid as text", documentAs("table"))
	text("result.md", "as Markdown", documentAs("markdown"))
	text("result.tex", "as LaTeX", documentAs("latex"))
	add("result.csv", "as CSV", func(w io.Writer) error { return documentsCSV(w, []*report.Document{d}) })
	add("result.html", "a page with tables and pictures", func(w io.Writer) error { return documentsHTML(w, []*report.Document{d}) })
	pictures := Pictures([]*report.Document{d})
	var main *Picture
	for i := range pictures {
		p := &pictures[i]
		add(p.Name+".svg", "", func(w io.Writer) error { return plot.WriteSVG(w, p.Figure) })
		add(p.Name+".png", p.Figure.Heading(), func(w io.Writer) error { return plot.WritePNG(w, p.Figure, 1.5) })
		if h, is := p.Figure.(*plot.HeatMap); is && (main == nil || cellsOf(h) > cellsOf(main.Figure.(*plot.HeatMap))) {
			main = p
		}
	}
	if main != nil {
		add(main.Name+".pdf", "the picture of summary.tex", func(w io.Writer) error {
			bare := *main.Figure.(*plot.HeatMap) // the page's caption says the rest
			bare.Title, bare.Subtitle, bare.Note = "", "", ""
			return plot.WritePDF(w, &bare)
		})
	}
	add("summary.tex", "one page for a paper: a heat map, the crossovers, the outcome", func(w io.Writer) error { return gridSummary(w, d, main) })
	return out
}

func cellsOf(h *plot.HeatMap) int { return len(h.Rows) * len(h.Columns) }

// GridWords writes what a grid says in words, for a terminal.
func GridWords(w io.Writer, d *report.Document) error {
	words := *d
	n := *d.Noncontig
	n.Cells = nil
	words.Noncontig = &n
	return documentSheet(&words).write(w, "table")
}

// mostCrossovers is how many a page holds beside its picture.
const mostCrossovers = 16

// gridSummary writes one page: the picture, the crossovers and the outcome, which refer to one another by their labels.
func gridSummary(w io.Writer, d *report.Document, main *Picture) error {
	n := experiment{d.Noncontig}
	said := escapeLaTeX(n.subtitle(d))
	out := &strings.Builder{}
	out.WriteString(laTeXPackages)
	fmt.Fprintf(out, "%% \\input{summary.tex} in the directory of its picture\n")
	var see []string
	if main != nil {
		h := main.Figure.(*plot.HeatMap)
		label := "fig:" + labelText(main.Name)
		see = append(see, "Figure~\\ref{"+label+"} shows the speed-ups")
		fmt.Fprintf(out, "\\begin{figure}[htbp]\n\\centering\n\\includegraphics[width=\\linewidth,height=0.4\\textheight,keepaspectratio]{%s.pdf}\n", main.Name)
		fmt.Fprintf(out, "\\caption{%s (%s). %s}\n\\label{%s}\n\\end{figure}\n", escapeLaTeX(h.Title), said, escapeLaTeX(h.Note), label)
	}
	if g := n.crossoverGrid(); len(g.rows) > 0 {
		see = append(see, "Table~\\ref{"+labelOf(g.title, 0)+"} the crossovers")
		writeLaTeX(out, g, n.subtitle(d))
	}
	out.WriteString("\\paragraph{Outcome}\n")
	for _, s := range n.Summary {
		fmt.Fprintf(out, "%s.\n", escapeLaTeX(title(oneLine(s))))
	}
	if len(see) > 0 {
		fmt.Fprintf(out, "%s.\n", strings.Join(see, ", and "))
	}
	return write(w, plain.Terminal(out.String()))
}

// crossoverGrid is a row for each series of block sizes.
func (n experiment) crossoverGrid() grid {
	g := grid{title: "Crossovers of the device's way and the copy", header: []string{"shape", "message", "stride", "crossover", "between"}, keys: 3}
	for i, x := range n.Crossovers {
		if i == mostCrossovers {
			g.notes = append(g.notes, fmt.Sprintf("and %d more in result.tex", len(n.Crossovers)-i))
			break
		}
		at, between := "-", "-"
		if x.Clear {
			at, between = plain.Bytes(x.BlockBytes), plain.Bytes(x.Low)+" and "+plain.Bytes(x.High)
		} else if why, _, found := strings.Cut(x.Words, ":"); found { // the outcome says it in full
			at = why
		}
		g.rows = append(g.rows, []string{noncontig.ShapeName(x.Shape), strings.TrimSuffix(x.What(), " messages"), x.Stride, at, between})
	}
	return g
}
