package plot

import (
	"fmt"
	"io"
	"strings"
)

// Figure is a picture: a [Chart] or a [HeatMap].
type Figure interface {
	// Heading is the title, for alternative texts and lists.
	Heading() string
	size() (width, height float64)
	draw(c *svg)
}

// WriteSVG writes a stand-alone SVG on white, fit for a paper: the figures, one below the other.
func WriteSVG(w io.Writer, figures ...Figure) error {
	if len(figures) == 1 {
		return writeSVG(w, figures[0], lightColor)
	}
	width, height, parts := 0.0, 0.0, &strings.Builder{}
	for _, f := range figures {
		fmt.Fprintf(parts, `<g transform="translate(0 %s)">`+"\n", short(height))
		if err := writeSVG(parts, f, lightColor); err != nil {
			return err
		}
		parts.WriteString("</g>\n")
		w, h := f.size()
		width, height = max(width, w), height+h
	}
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]s %[2]s" width="%[1]s" height="%[2]s">`+"\n%[3]s</svg>\n", short(width), short(height), parts)
	return err
}

// WriteInlineSVG writes an SVG element for an HTML page, whose colours are CSS variables: --ink, --muted, --grid, --paper
// and --series-1 to --series-8. See [Style].
func WriteInlineSVG(w io.Writer, f Figure) error {
	return writeSVG(w, f, variableColor)
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
	bold    bool
	anchor  anchor
	upright bool // reads from the bottom to the top
	color   color
	hint    string // tool tip
}

// textWidth estimates the width of text: the mean advance of the Go font's letters, figures and signs.
func textWidth(s string, size float64) float64 {
	sum := 0.0
	for _, r := range s {
		switch r {
		case 'i', 'j', 'l', '.', ',', ':', ';', '\'', '|', '!', ' ', 'I', 't', 'f', 'r', '(', ')', '/', '-':
			sum += 0.34
		case 'm', 'w', 'M', 'W', '%', '…', '→', '@':
			sum += 0.86
		default:
			if r >= 'A' && r <= 'Z' {
				sum += 0.68
			} else {
				sum += 0.56
			}
		}
	}
	return 1.1 * sum * size // fonts of browsers run wider than the Go font
}
