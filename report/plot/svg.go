package plot

import (
	"fmt"
	"html"
	"strconv"
	"strings"

	"github.com/gobw/gobw/report/plain"
)

// svg is what figures draw on, in units of 1/96 inch from the top left.
type svg struct {
	out   *strings.Builder
	paint func(color) string
}

func newSVG(paint func(color) string) *svg { return &svg{&strings.Builder{}, paint} }

type point struct{ x, y float64 }

type stroke struct {
	color  color
	width  float64
	dashed bool
}

type font struct {
	size    float64
	bold    bool
	anchor  string // "middle", "end"; empty: the start
	upright bool   // reads from the bottom to the top
	halo    bool   // keeps what lies below off the letters
	color   color
}

// short writes a coordinate with at most two decimals.
func short(v float64) string {
	s := strings.TrimRight(strings.TrimRight(strconv.FormatFloat(v, 'f', 2, 64), "0"), ".")
	if s == "-0" {
		return "0"
	}
	return s
}

func path(points []point) string {
	out, command := &strings.Builder{}, "M"
	for _, p := range points {
		out.WriteString(command + short(p.x) + " " + short(p.y))
		command = "L"
	}
	return out.String()
}

func (s *svg) opacity(attribute string, c color) string {
	return plain.When(c.alpha < 1, ` %s="%s"`, attribute, short(c.alpha))
}

func (s *svg) line(points []point, st stroke) {
	fmt.Fprintf(s.out,
		`<path fill="none" stroke-linejoin="round" stroke-linecap="round" d="%s" stroke="%s" stroke-width="%s"%s%s/>`+"\n",
		path(points), s.paint(st.color), short(st.width), s.opacity("stroke-opacity", st.color),
		plain.When(st.dashed, ` stroke-dasharray="6 4"`))
}

// area fills an outline. The hint is what a browser shows where the pointer rests.
func (s *svg) area(points []point, c color, hint string) {
	fmt.Fprintf(s.out, `<path d="%sZ" fill="%s"%s>%s</path>`+"\n", path(points), s.paint(c), s.opacity("fill-opacity", c),
		plain.When(hint != "", "<title>%s</title>", html.EscapeString(hint)))
}

func box(x, y, w, h float64) []point {
	return []point{{x, y}, {x + w, y}, {x + w, y + h}, {x, y + h}}
}

// markers are outlines around a point, told apart without colours: circle, square, triangle, diamond, triangle upside
// down.
var markers = []string{
	"m-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0", "m-3.2 -3.2h6.4v6.4h-6.4", "m0 -4.3l4.3 7.8h-8.6",
	"m0 -4.5l4.5 4.5l-4.5 4.5l-4.5 -4.5", "m0 4.3l4.3 -7.8h-8.6",
}

func (s *svg) marker(at point, shape int, c color) {
	fmt.Fprintf(s.out, `<path d="%s%sZ" fill="%s" stroke="%s" stroke-width="1"/>`+"\n",
		path([]point{at}), markers[shape%len(markers)], s.paint(c), s.paint(color{paper, 1}))
}

func (s *svg) text(at point, text string, f font) {
	place := fmt.Sprintf(`x="%s" y="%s"`, short(at.x), short(at.y))
	if f.upright {
		place = fmt.Sprintf(`transform="translate(%s %s) rotate(-90)"`, short(at.x), short(at.y))
	}
	place += plain.When(f.anchor != "", ` text-anchor="%s"`, f.anchor) + plain.When(f.bold, ` font-weight="bold"`)
	place += plain.When(f.halo, ` paint-order="stroke" stroke="%s" stroke-width="3"`, s.paint(color{paper, 1}))
	fmt.Fprintf(s.out, `<text %s font-size="%s" fill="%s">%s</text>`+"\n",
		place, short(f.size), s.paint(f.color), html.EscapeString(plain.OneLine(text)))
}
