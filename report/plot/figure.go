package plot

import "io"

// Figure is a picture: a [Chart] or a [HeatMap].
type Figure interface {
	// Heading is the title, for alternative texts and lists.
	Heading() string
	size() (width, height float64)
	draw(c canvas)
}

// WriteSVG writes a stand-alone SVG on white, fit for a paper.
func WriteSVG(w io.Writer, f Figure) error {
	return writeSVG(w, f, lightColor)
}

// WriteInlineSVG writes an SVG element for an HTML page, whose colours are CSS variables: --ink, --muted, --grid, --paper
// and --series-1 to --series-8. See [Style].
func WriteInlineSVG(w io.Writer, f Figure) error {
	return writeSVG(w, f, variableColor)
}

// canvas is what figures draw on: units of 1/96 inch, the origin at the top left.
type canvas interface {
	line(points []point, s stroke)
	area(points []point, c color)
	marker(at point, shape int, c color, hint string)
	text(at point, s string, f font)
}

type point struct{ x, y float64 }

type stroke struct {
	color  color
	width  float64
	dashed dash
}

type dash uint8

const (
	solid dash = iota
	dashedLine
	dotted
)

type anchor uint8

const (
	start anchor = iota
	middle
	end
)

type font struct {
	size    float64
	bold    weight
	anchor  anchor
	upright turn
	color   color
	hint    string // tool tip
}

type weight uint8

const (
	regular weight = iota
	bold
)

type turn uint8

const (
	horizontal turn = iota
	vertical        // reads from the bottom to the top
)
