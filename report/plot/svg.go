package plot

import (
	"fmt"
	"html"
	"io"
	"strconv"
	"strings"

	"github.com/gobw/gobw/report/plain"
)

// svg is what figures draw on, in units of 1/96 inch from the top left.
type svg struct {
	out   *strings.Builder
	paint func(color) string
}

func writeSVG(w io.Writer, f Figure, paint func(color) string) error {
	width, height := f.size()
	s := &svg{out: &strings.Builder{}, paint: paint}
	fmt.Fprintf(s.out, `<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="%s" viewBox="0 0 %s %s" width="%s" height="%s" font-family="'Go','Helvetica Neue',Arial,sans-serif">`+"\n",
		html.EscapeString(plain.XML(f.Heading())), short(width), short(height), short(width), short(height))
	fmt.Fprintf(s.out, "<title>%s</title>\n", html.EscapeString(plain.XML(f.Heading())))
	s.area([]point{{0, 0}, {width, 0}, {width, height}, {0, height}}, color{paper, 1})
	f.draw(s)
	s.out.WriteString("</svg>\n")
	_, err := io.WriteString(w, s.out.String())
	return err
}

// short writes a coordinate with at most two decimals.
func short(v float64) string {
	s := strconv.FormatFloat(v, 'f', 2, 64)
	s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	if s == "-0" {
		return "0"
	}
	return s
}

func (s *svg) path(points []point) {
	for i, p := range points {
		command := "L"
		if i == 0 {
			command = "M"
		}
		s.out.WriteString(command + short(p.x) + " " + short(p.y))
	}
}

func (s *svg) opacity(attribute string, c color) {
	if c.alpha < 1 {
		fmt.Fprintf(s.out, ` %s="%s"`, attribute, short(c.alpha))
	}
}

func (s *svg) line(points []point, st stroke) {
	s.out.WriteString(`<path fill="none" stroke-linejoin="round" stroke-linecap="round" d="`)
	s.path(points)
	fmt.Fprintf(s.out, `" stroke="%s" stroke-width="%s"`, s.paint(st.color), short(st.width))
	s.opacity("stroke-opacity", st.color)
	if pattern := st.dashed.pattern(); pattern != nil {
		fmt.Fprintf(s.out, ` stroke-dasharray="%s %s"`, short(pattern[0]), short(pattern[1]))
	}
	s.out.WriteString("/>\n")
}

// pattern is the length of a dash and of the gap after it; nil for a solid line.
func (d dash) pattern() []float64 {
	switch d {
	case dashedLine:
		return []float64{6, 4}
	case dotted:
		return []float64{1.5, 3.5}
	case solid:
	}
	return nil
}

func (s *svg) area(points []point, c color) {
	s.out.WriteString(`<path d="`)
	s.path(points)
	fmt.Fprintf(s.out, `Z" fill="%s"`, s.paint(c))
	s.opacity("fill-opacity", c)
	s.out.WriteString("/>\n")
}

func (s *svg) marker(at point, shape int, c color, hint string) {
	s.out.WriteString(`<path d="`)
	s.path(outline(at, shape))
	fmt.Fprintf(s.out, `Z" fill="%s" stroke="%s" stroke-width="1">`, s.paint(c), s.paint(color{paper, 1}))
	if hint != "" {
		fmt.Fprintf(s.out, "<title>%s</title>", html.EscapeString(plain.XML(hint)))
	}
	s.out.WriteString("</path>\n")
}

func (s *svg) text(at point, text string, f font) {
	s.out.WriteString(`<text`)
	if f.upright {
		fmt.Fprintf(s.out, ` transform="translate(%s %s) rotate(-90)"`, short(at.x), short(at.y))
	} else {
		fmt.Fprintf(s.out, ` x="%s" y="%s"`, short(at.x), short(at.y))
	}
	fmt.Fprintf(s.out, ` font-size="%s" fill="%s"`, short(f.size), s.paint(f.color))
	switch f.anchor {
	case middle:
		s.out.WriteString(` text-anchor="middle"`)
	case end:
		s.out.WriteString(` text-anchor="end"`)
	case start:
	}
	if f.bold {
		s.out.WriteString(` font-weight="bold"`)
	}
	s.out.WriteString(">" + html.EscapeString(plain.XML(plain.OneLine(text))))
	if f.hint != "" {
		fmt.Fprintf(s.out, "<title>%s</title>", html.EscapeString(plain.XML(f.hint)))
	}
	s.out.WriteString("</text>\n")
}
