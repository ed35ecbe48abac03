package report

import (
	"fmt"
	"io"
	"strings"
)

// LaTeX writes the document as tables in the style of the booktabs package: put \usepackage{booktabs} in the preamble.
func LaTeX(w io.Writer, d *Document) error {
	out := &strings.Builder{}
	out.WriteString("% needs \\usepackage{booktabs}\n")
	said := strings.Join(heading(d), "; ")
	if s := device(d); s != "" {
		if said != "" {
			said += "; "
		}
		said += s
	}
	for _, g := range grids(d) {
		writeLaTeX(out, g, said)
	}
	for _, n := range d.Warnings {
		fmt.Fprintf(out, "%% warning: %s\n", oneLine(n))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func writeLaTeX(out *strings.Builder, g grid, said string) {
	caption := escapeLaTeX(g.title)
	if said != "" {
		caption += " (" + escapeLaTeX(said) + ")"
	}
	out.WriteString("\\begin{table}\n\\centering\n")
	fmt.Fprintf(out, "\\caption{%s}\n", caption)
	out.WriteString("\\begin{tabular}{" + alignment(g, "l", "r") + "}\n\\toprule\n")
	line := func(cells []string) {
		escaped := make([]string, len(cells))
		for i, c := range cells {
			escaped[i] = escapeLaTeX(c)
		}
		fmt.Fprintf(out, "%s \\\\\n", strings.Join(escaped, " & "))
	}
	line(g.header)
	out.WriteString("\\midrule\n")
	for _, r := range g.rows {
		line(r)
	}
	out.WriteString("\\bottomrule\n\\end{tabular}\n")
	for i, n := range g.notes {
		fmt.Fprintf(out, "\n\\footnotesize{[%d] %s}\n", i+1, escapeLaTeX(n))
	}
	out.WriteString("\\end{table}\n")
}

// escapeLaTeX keeps text text.
func escapeLaTeX(s string) string {
	return strings.NewReplacer(
		`\`, `\textbackslash{}`, "{", `\{`, "}", `\}`, "$", `\$`, "&", `\&`, "%", `\%`, "#", `\#`, "_", `\_`,
		"~", `\textasciitilde{}`, "^", `\textasciicircum{}`, "<", `\textless{}`, ">", `\textgreater{}`, "|", `\textbar{}`,
		"…", "--", "±", `$\pm$`, "µ", `$\mu$`, "≈", `$\approx$`, "×", `$\times$`, "\n", " ",
	).Replace(s)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
