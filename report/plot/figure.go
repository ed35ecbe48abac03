package plot

import (
	"fmt"
	"html"
	"io"
	"slices"
	"strings"

	"github.com/gobw/gobw/report/plain"
)

// Figure is a picture: a [Chart] or a [HeatMap].
type Figure interface {
	draw(c *svg) (title string, width, height float64)
}

// WriteSVG writes a stand-alone SVG on white, fit for a paper: the figures, one below the other. Where there are
// several, each has an id by which programs take it out: "picture-1".
func WriteSVG(w io.Writer, figures ...Figure) error { return writeSVG(w, lightColor, figures) }

// WriteInlineSVG writes an SVG element for an HTML page, whose colours are CSS variables: --ink, --muted, --grid,
// --paper and --series-1 to --series-5. See [Style].
func WriteInlineSVG(w io.Writer, f Figure) error { return writeSVG(w, variableColor, []Figure{f}) }

func writeSVG(w io.Writer, paint func(color) string, figures []Figure) error {
	width, height, parts := 0.0, 0.0, &strings.Builder{}
	for i, f := range figures {
		s := newSVG(paint)
		title, wide, tall := f.draw(s)
		id := plain.When(len(figures) > 1, ` id="picture-%d"`, i+1)
		fmt.Fprintf(parts, `<g role="img"%s transform="translate(0 %s)">`+"\n<title>%s</title>\n", id, short(height),
			html.EscapeString(title))
		fmt.Fprintf(parts, `<path d="M0 0H%sV%sH0Z" fill="%s"/>`+"\n%s</g>\n", short(wide), short(tall),
			paint(color{paper, 1}), s.out)
		width, height = max(width, wide), height+tall
	}
	// a phone scrolls a wide picture instead of shrinking it below this width
	least := plain.When(width > chartWidth, ` style="min-width:%spx"`, short(0.6*width))
	_, err := io.WriteString(w,
		plain.XML(fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]s %[2]s" `+
			`width="%[1]s" height="%[2]s"%[3]s `+
			`font-family="'Helvetica Neue',Arial,sans-serif">`+"\n%[4]s</svg>\n",
			short(width), short(height), least, parts)))
	return err
}

const (
	edge      = 14
	titleSize = 15
	textSize  = 13
	lineTall  = 17 // of text
)

// header draws title and subtitle and returns where they end.
func header(cv *svg, title, subtitle string, width float64) float64 {
	y := paragraph(cv, title, edge, width, font{size: titleSize, bold: true, color: color{ink, 1}})
	return paragraph(cv, subtitle, y, width, font{size: textSize, color: color{muted, 1}}) + 6
}

// paragraph draws text below y in lines that fit the width and returns where they end.
func paragraph(cv *svg, text string, y, width float64, f font) float64 {
	if text == "" {
		return y
	}
	tall := lineTall * f.size / textSize
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && textWidth(line+" "+word, f) > width-2*edge {
			y += tall
			cv.text(point{edge, y - 4}, line, f)
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	y += tall
	cv.text(point{edge, y - 4}, line, f)
	return y
}

// legend names things in rows below y, each behind its symbol, and returns where it ends.
func legend(cv *svg, names []string, y, width float64, symbol func(i int, at point)) float64 {
	const symbolWide, gap = 24, 18
	if !slices.ContainsFunc(names, func(n string) bool { return n != "" }) {
		return y
	}
	f := font{size: textSize, color: color{ink, 1}}
	x := float64(edge)
	for i, name := range names {
		wide := symbolWide + textWidth(name, f) + gap
		if x > edge && x+wide-gap > width-edge {
			x = edge
			y += lineTall
		}
		symbol(i, point{x + 9, y + lineTall/2})
		cv.text(point{x + symbolWide, y + lineTall/2 + 4}, name, f)
		x += wide
	}
	return y + lineTall + 2
}

// textWidth estimates the width of text: the mean advance of a sans-serif font's letters, figures and signs.
func textWidth(s string, f font) float64 {
	sum := 0.0
	for _, r := range s {
		switch {
		case strings.ContainsRune("ijl.,:;'|! Itfr()/-", r):
			sum += 0.34
		case strings.ContainsRune("mwMW%…→@", r):
			sum += 0.86
		case r >= 'A' && r <= 'Z':
			sum += 0.68
		default:
			sum += 0.56
		}
	}
	if f.bold {
		sum *= 1.1
	}
	return 1.1 * sum * f.size // fonts of browsers differ
}
