package render

import (
	"embed"
	"regexp"
	"strings"
	"text/template"
)

// sources are the templates of the formats that are text: the sheets of Markdown and LaTeX, the page of HTML.
//
//go:embed sheet.md sheet.tex page.html
var sources embed.FS

// fill writes the result by the template of a sheet.
func (r result) fill(out *strings.Builder, sheet string, functions template.FuncMap) error {
	return template.Must(template.New(sheet).Funcs(functions).ParseFS(sources, sheet)).Execute(out, r)
}

// markdown is GitHub's. It opens with the verdict: a step summary shows its first lines.
func (r result) markdown(out *strings.Builder) error {
	return r.fill(out, "sheet.md", template.FuncMap{"text": escapeMarkdown})
}

// latex is tables in the style of the booktabs package, as floats that are made to fit the line.
func (r result) latex(out *strings.Builder) error {
	return r.fill(out, "sheet.tex", template.FuncMap{"text": escapeLaTeX, "cell": cellOfLaTeX, "label": labelOfLaTeX})
}

// Said is what the caption of a table tells beside its title.
func (r result) Said() string {
	said := r.Labels
	if r.Device != "" {
		said = append(said, r.Device)
	}
	return strings.Join(said, "; ")
}

// escapeMarkdown keeps text text: pipes, emphasis, code, links, bare addresses, names of people and HTML lose
// their meaning, line ends become spaces.
func escapeMarkdown(s string) string {
	return strings.NewReplacer(
		`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "<", "&lt;", ">", "&gt;", "&", "&amp;", "[", `\[`, "]", `\]`,
		"@", "@<!-- -->", "://", ":<!-- -->//", "www.", "www<!-- -->.", "WWW.", "WWW<!-- -->.",
		"\r\n", " ", "\n", " ", "\r", " ",
	).Replace(s)
}

// between is what an interval of numbers has in its middle.
var between = regexp.MustCompile(`(\d)…(\d)`)

// cellOfLaTeX has dashes between numbers, and in place of what is missing.
func cellOfLaTeX(cell string) string {
	if cell == "-" {
		return "--"
	}
	return strings.ReplaceAll(escapeLaTeX(between.ReplaceAllString(cell, "$1–$2")), "–", "--")
}

// labelOfLaTeX is the words of a title.
func labelOfLaTeX(title string) string {
	return strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(title), "-"), "-")
}

// escapeLaTeX keeps text text.
func escapeLaTeX(s string) string {
	return strings.NewReplacer(
		`\`, `\textbackslash{}`, "{", `\{`, "}", `\}`, "$", `\$`, "&", `\&`, "%", `\%`, "#", `\#`, "_", `\_`,
		"~", `\textasciitilde{}`, "^", `\textasciicircum{}`, "<", `\textless{}`, ">", `\textgreater{}`, "|", `\textbar{}`,
		"--", `-{}-`, // a flag's, which would become a dash
		"…", `\ldots{}`, "\r", " ", "\v", " ", "\f", " ", "\u0085", " ", "±", `$\pm$`, "µ", `$\mu$`, "≈", `$\approx$`, "≥",
		`$\geq$`, "×", `$\times$`, "\n", " ",
	).Replace(s)
}
