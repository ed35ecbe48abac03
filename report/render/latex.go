package render

import (
	"fmt"
	"regexp"
	"strings"
)

// latex writes the table as a float that is made to fit the line. Its label is the words of its title.
func (t table) latex(out *strings.Builder, said string) {
	caption := t.Title
	if said != "" {
		caption += " (" + said + ")"
	}
	label := strings.FieldsFunc(strings.ToLower(t.Title), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	fmt.Fprintf(out, "\\begin{table}[htbp]\n\\centering\n\\setlength{\\belowcaptionskip}{4pt}\n\\caption{%s}\n\\label{tab:%s}\n",
		escapeLaTeX(caption), strings.Join(label, "-"))
	out.WriteString("\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%\n")
	out.WriteString("\\begin{tabular}{" + t.alignment("l", "r") + "}\n\\toprule\n")
	row := func(cells []string) {
		for i, c := range cells {
			if i > 0 {
				out.WriteString(" & ")
			}
			c = strings.ReplaceAll(escapeLaTeX(between.ReplaceAllString(c, "$1–$2")), "–", "--")
			if c == "-" {
				c = "--"
			}
			out.WriteString(c)
		}
		out.WriteString(" \\\\\n")
	}
	row(t.Header)
	out.WriteString("\\midrule\n")
	for _, r := range t.Rows {
		row(r)
	}
	out.WriteString("\\bottomrule\n\\end{tabular}}\n")
	if len(t.Notes) > 0 {
		out.WriteString("\\par\\medskip\n")
	}
	for _, n := range t.Notes {
		fmt.Fprintf(out, "{\\footnotesize\\raggedright %s\\par}\n", escapeLaTeX(n))
	}
	out.WriteString("\\end{table}\n")
}

// between is what an interval of numbers has in its middle.
var between = regexp.MustCompile(`(\d)…(\d)`)

// escapeLaTeX keeps text text.
func escapeLaTeX(s string) string {
	return strings.NewReplacer(
		`\`, `\textbackslash{}`, "{", `\{`, "}", `\}`, "$", `\$`, "&", `\&`, "%", `\%`, "#", `\#`, "_", `\_`,
		"~", `\textasciitilde{}`, "^", `\textasciicircum{}`, "<", `\textless{}`, ">", `\textgreater{}`, "|", `\textbar{}`,
		"--", `-{}-`, // a flag's, which would become a dash
		"…", `\ldots{}`, "\r", " ", "\v", " ", "\f", " ", "\u0085", " ", "±", `$\pm$`, "µ", `$\mu$`, "≈", `$\approx$`, "≥", `$\geq$`, "×", `$\times$`, "\n", " ",
	).Replace(s)
}
