package plot

import (
	"fmt"
	"strings"
)

// color is a role and how opaque it is; the writer knows what it looks like.
type color struct {
	role  role
	alpha float64 // 0…1
}

type role uint8

const (
	ink role = iota
	muted
	grid
	paper
	series1 // and so on
)

// colors is how many colours series and categories have: the third is for what is wrong, the last, grey, for what
// others are set against.
const colors = 5

func seriesColor(i int) color { return color{series1 + role(i%colors), 1} }

// appearance of a role: its CSS variable, and its value on white and on dark.
type appearance struct{ variable, light, dark string }

// appearances by role.
var appearances = []appearance{
	{"--ink", "#1b1f24", "#e6e9ee"},
	{"--muted", "#59636e", "#9aa5b1"},
	{"--grid", "#dfe3e8", "#323a44"},
	{"--paper", "#ffffff", "#14181d"},
	{"--series-1", "#1f6fb4", "#6ab0f3"},
	{"--series-2", "#d1570b", "#ff9f4a"},
	{"--series-3", "#b5338a", "#f07ac8"},
	{"--series-4", "#2b8a3e", "#69c77d"},
	{"--series-5", "#55606b", "#aab4bf"},
}

func lightColor(c color) string    { return appearances[c.role].light }
func variableColor(c color) string { return "var(" + appearances[c.role].variable + ")" }

// Style is the CSS that inline figures need: the variables, light by default, dark where the reader wants it, light
// again in print. The root attribute data-theme="light" or "dark" decides over the reader's system.
func Style() string {
	light, dark := &strings.Builder{}, &strings.Builder{}
	for _, a := range appearances {
		fmt.Fprintf(light, "%s:%s;", a.variable, a.light)
		fmt.Fprintf(dark, "%s:%s;", a.variable, a.dark)
	}
	return ":root{color-scheme:light;" + light.String() + "}\n" +
		"@media (prefers-color-scheme:dark){:root:not([data-theme=light]){color-scheme:dark;" + dark.String() + "}}\n" +
		":root[data-theme=dark]{color-scheme:dark;" + dark.String() + "}\n" +
		"@media print{:root,:root[data-theme=dark],:root:not([data-theme=light]){color-scheme:light;" +
		light.String() + "}}\n"
}
