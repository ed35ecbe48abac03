package render

import (
	"fmt"
	"strings"
)

func (t table) markdown(out *strings.Builder) {
	if t.Title != "" {
		fmt.Fprintf(out, "### %s\n\n", escapeMarkdown(t.Title))
	}
	line := func(cells []string) {
		for _, c := range cells {
			fmt.Fprintf(out, "| %s ", escapeMarkdown(c))
		}
		out.WriteString("|\n")
	}
	line(t.Header)
	out.WriteString(t.alignment("| --- ", "| ---: ") + "|\n")
	for _, r := range t.Rows {
		line(r)
	}
	out.WriteString("\n")
	for _, n := range t.Notes {
		fmt.Fprintf(out, "%s  \n", escapeMarkdown(n))
	}
	if len(t.Notes) > 0 {
		out.WriteString("\n")
	}
}

// alignment marks the columns: texts to the left, figures to the right.
func (t table) alignment(left, right string) string {
	var out strings.Builder
	for _, figures := range t.Figures() {
		out.WriteString(map[bool]string{false: left, true: right}[figures])
	}
	return out.String()
}

// escapeMarkdown keeps text text: pipes, emphasis, code, links and HTML lose their meaning, line ends become spaces.
func escapeMarkdown(s string) string {
	return strings.NewReplacer(
		`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "<", "&lt;", ">", "&gt;", "&", "&amp;", "[", `\[`, "]", `\]`,
		"\r\n", " ", "\n", " ", "\r", " ",
	).Replace(s)
}
