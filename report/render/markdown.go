package render

import (
	"fmt"
	"strings"
)

func writeMarkdown(out *strings.Builder, g grid) {
	if g.title != "" {
		fmt.Fprintf(out, "### %s\n\n", escapeMarkdown(g.title))
	}
	line := func(cells []string) {
		for _, c := range cells {
			fmt.Fprintf(out, "| %s ", escapeMarkdown(c))
		}
		out.WriteString("|\n")
	}
	line(g.header)
	out.WriteString(alignment(g, "| --- ", "| ---: ") + "|\n")
	for _, r := range g.rows {
		line(r)
	}
	out.WriteString("\n")
	for i, n := range g.notes {
		fmt.Fprintf(out, "%s%s  \n", g.number(i), escapeMarkdown(n))
	}
	if len(g.notes) > 0 {
		out.WriteString("\n")
	}
}

// alignment marks the columns of a table: texts to the left, figures to the right.
func alignment(g grid, left, right string) string {
	out := &strings.Builder{}
	for i := range g.header {
		if rightAligned(g, i) {
			out.WriteString(right)
		} else {
			out.WriteString(left)
		}
	}
	return out.String()
}

// rightAligned tells whether a column holds figures.
func rightAligned(g grid, i int) bool {
	for _, r := range g.rows {
		if !isFigure(r[i]) {
			return false
		}
	}
	return true
}

// escapeMarkdown keeps text text: pipes, emphasis, code, links and HTML lose their meaning, line ends become spaces.
func escapeMarkdown(s string) string {
	return strings.NewReplacer(
		`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "<", "&lt;", ">", "&gt;", "&", "&amp;", "[", `\[`, "]", `\]`,
		"\r\n", " ", "\n", " ", "\r", " ",
	).Replace(s)
}
