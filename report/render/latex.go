package render

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/gobw/gobw/report/plain"
)

const laTeXPackages = "% needs \\usepackage{booktabs} and \\usepackage{graphicx}\n"

func writeLaTeX(out *strings.Builder, g grid, said string) {
	if g.prose {
		fmt.Fprintf(out, "\\paragraph{%s}\n", escapeLaTeX(g.title))
		for _, r := range g.rows {
			fmt.Fprintf(out, "%s.\n", escapeLaTeX(sentence(r)))
		}
		out.WriteString("\n")
		return
	}
	caption := escapeLaTeX(g.title)
	caption += plain.When(said != "", " (%s)", escapeLaTeX(said))
	parts := []grid{g}
	if g.header[len(g.header)-1] != reasonHeader {
		parts = g.parts(80) // as wide is readable when it is made to fit a page
	}
	for i, p := range parts {
		title := caption
		if i > 0 {
			title = caption + ", continued"
		}
		fmt.Fprintf(out, "\\begin{table}[htbp]\n\\centering\n\\setlength{\\belowcaptionskip}{4pt}\n\\caption{%s}\n\\label{%s}\n", title, labelOf(g.title, i))
		out.WriteString("\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%\n")
		out.WriteString("\\begin{tabular}{" + alignment(p, "l", "r") + "}\n\\toprule\n")
		writeLaTeXRow(out, p.header)
		out.WriteString("\\midrule\n")
		for _, r := range p.rows {
			writeLaTeXRow(out, r)
		}
		out.WriteString("\\bottomrule\n\\end{tabular}}\n")
		if i == len(parts)-1 && len(g.notes) > 0 {
			out.WriteString("\\par\\medskip\n")
			for i, n := range g.notes {
				fmt.Fprintf(out, "{\\footnotesize\\raggedright %s%s\\par}\n", g.number(i), escapeLaTeX(n))
			}
		}
		out.WriteString("\\end{table}\n")
	}
}

// labelOf is what \ref calls a table, from its title; later parts have a number.
func labelOf(title string, part int) string {
	label := "tab:" + labelText(title)
	label += plain.When(part > 0, "-%d", part+1)
	return label
}

func labelText(s string) string {
	words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	return strings.Join(words[:min(len(words), 12)], "-")
}

// between is what an interval of numbers has in its middle.
var between = regexp.MustCompile(`(\d)…(\d)`)

// writeLaTeXRow writes a row or the header.
func writeLaTeXRow(out *strings.Builder, cells []string) {
	written := make([]string, len(cells))
	for i, c := range cells {
		written[i] = strings.ReplaceAll(escapeLaTeX(between.ReplaceAllString(c, "$1–$2")), "–", "--")
		if c == "-" {
			written[i] = "--"
		}
	}
	fmt.Fprintf(out, "%s \\\\\n", strings.Join(written, " & "))
}

// escapeLaTeX keeps text text.
func escapeLaTeX(s string) string {
	return strings.NewReplacer(
		`\`, `\textbackslash{}`, "{", `\{`, "}", `\}`, "$", `\$`, "&", `\&`, "%", `\%`, "#", `\#`, "_", `\_`,
		"~", `\textasciitilde{}`, "^", `\textasciicircum{}`, "<", `\textless{}`, ">", `\textgreater{}`, "|", `\textbar{}`,
		"--", `-{}-`, // a flag's, which would become a dash
		"…", `\ldots{}`, "\r", " ", "\v", " ", "\f", " ", "\u0085", " ", "±", `$\pm$`, "µ", `$\mu$`, "≈", `$\approx$`, "×", `$\times$`, "\n", " ",
	).Replace(s)
}
