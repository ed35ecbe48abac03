package plot

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf16"

	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

// pdf is a canvas that writes a page's content (PDF 1.4, ISO 32000-1). Texts are outlines of the Go fonts: no reader needs a font.
type pdf struct {
	out    *bytes.Buffer
	fonts  *fontBook
	buffer sfnt.Buffer
	alphas map[string]bool // states of opacity that are used, by their names
}

// pointsPerUnit are PDF's units of 1/72 inch in one of ours.
const pointsPerUnit = 0.75

// WritePDF writes a page as large as the figure, on nothing, for a paper.
func WritePDF(w io.Writer, f Figure) error {
	fonts, err := newFontBook()
	if err != nil {
		return err
	}
	width, height := f.size()
	p := &pdf{out: &bytes.Buffer{}, fonts: fonts, alphas: map[string]bool{}}
	fmt.Fprintf(p.out, "%s 0 0 -%s 0 %s cm\n1 J 1 j\n", short(pointsPerUnit), short(pointsPerUnit), short(height*pointsPerUnit))
	f.draw(p)
	if fonts.err != nil {
		return fonts.err
	}
	var content bytes.Buffer
	z := zlib.NewWriter(&content)
	if _, err := z.Write(p.out.Bytes()); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	var states strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p.alphas)) {
		fmt.Fprintf(&states, "/%s << /ca 0.%s /CA 0.%s >> ", name, name[1:], name[1:])
	}
	objects := []string{
		"<< /Type /Catalog /Pages 2 0 R >>",
		"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
		fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %s %s] /Contents 4 0 R /Resources << /ExtGState << %s>> >> >>",
			short(width*pointsPerUnit), short(height*pointsPerUnit), states.String()),
		fmt.Sprintf("<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream", content.Len(), content.String()),
		fmt.Sprintf("<< /Title %s >>", pdfText(f.Heading())),
	}
	file := bytes.NewBufferString("%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
	offsets := make([]int, len(objects))
	for i, o := range objects {
		offsets[i] = file.Len()
		fmt.Fprintf(file, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	table := file.Len()
	fmt.Fprintf(file, "xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, at := range offsets {
		fmt.Fprintf(file, "%010d 00000 n \n", at)
	}
	fmt.Fprintf(file, "trailer\n<< /Size %d /Root 1 0 R /Info %d 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1, len(objects), table)
	_, err = w.Write(file.Bytes())
	return err
}

// pdfText writes text as a hexadecimal string of UTF-16, which needs no escapes.
func pdfText(s string) string {
	var b strings.Builder
	b.WriteString("<FEFF")
	for _, u := range utf16.Encode([]rune(clean(s))) {
		fmt.Fprintf(&b, "%04X", u)
	}
	return b.String() + ">"
}

// paint chooses colour and opacity for what follows: operator is rg to fill, RG to stroke.
func (p *pdf) paint(c color, operator string) {
	red, green, blue, _ := c.rgba()
	fmt.Fprintf(p.out, "%.3f %.3f %.3f %s\n", float64(red)/255, float64(green)/255, float64(blue)/255, operator)
	name := fmt.Sprintf("a%03d", min(int(c.alpha*1000), 999))
	p.alphas[name] = true
	fmt.Fprintf(p.out, "/%s gs\n", name)
}

func (p *pdf) path(points []point) {
	for i, at := range points {
		operator := "l"
		if i == 0 {
			operator = "m"
		}
		fmt.Fprintf(p.out, "%s %s %s\n", short(at.x), short(at.y), operator)
	}
}

func (p *pdf) line(points []point, st stroke) {
	p.paint(st.color, "RG")
	var dashes string
	if pattern := st.dashed.pattern(); pattern != nil {
		dashes = short(pattern[0]) + " " + short(pattern[1])
	}
	fmt.Fprintf(p.out, "%s w [%s] 0 d\n", short(st.width), dashes)
	p.path(points)
	p.out.WriteString("S\n")
}

func (p *pdf) area(points []point, c color) {
	p.paint(c, "rg")
	p.path(points)
	p.out.WriteString("h f\n")
}

func (p *pdf) marker(at point, shape int, c color, _ string) { p.area(outline(at, shape), c) }

// text fills the outlines of the letters.
func (p *pdf) text(at point, s string, f font) {
	face := p.fonts.fonts[f.bold]
	ppem := fixed.I(1000)
	unit := f.size / 1000 / 64 // of a fixed number
	var glyphs []sfnt.GlyphIndex
	var starts []float64
	width := 0.0
	for _, r := range clean(s) {
		g, err := face.GlyphIndex(&p.buffer, r)
		if err != nil {
			p.fonts.err = err
			return
		}
		advance, err := face.GlyphAdvance(&p.buffer, g, ppem, 0)
		if err != nil {
			p.fonts.err = err
			return
		}
		glyphs, starts = append(glyphs, g), append(starts, width)
		width += float64(advance) * unit
	}
	shift := map[anchor]float64{start: 0, middle: width / 2, end: width}[f.anchor]
	p.paint(f.color, "rg")
	p.out.WriteString("q\n")
	if f.upright == vertical {
		fmt.Fprintf(p.out, "0 -1 1 0 %s %s cm\n", short(at.x), short(at.y))
	} else {
		fmt.Fprintf(p.out, "1 0 0 1 %s %s cm\n", short(at.x), short(at.y))
	}
	for i, g := range glyphs {
		segments, err := face.LoadGlyph(&p.buffer, g, ppem, nil)
		if err != nil {
			p.fonts.err = err
			return
		}
		p.glyph(segments, starts[i]-shift, unit)
	}
	p.out.WriteString("Q\n")
}

// glyph fills one letter: its quadratic curves become cubic ones.
func (p *pdf) glyph(segments sfnt.Segments, x, unit float64) {
	to := func(a fixed.Point26_6) point { return point{x + float64(a.X)*unit, float64(a.Y) * unit} }
	var now point
	for _, s := range segments {
		a, b, c := to(s.Args[0]), to(s.Args[1]), to(s.Args[2])
		switch s.Op {
		case sfnt.SegmentOpMoveTo:
			fmt.Fprintf(p.out, "%s %s m\n", short(a.x), short(a.y))
			now = a
		case sfnt.SegmentOpLineTo:
			fmt.Fprintf(p.out, "%s %s l\n", short(a.x), short(a.y))
			now = a
		case sfnt.SegmentOpQuadTo:
			third := func(from, by point) point { return point{from.x + 2*(by.x-from.x)/3, from.y + 2*(by.y-from.y)/3} }
			first, second := third(now, a), third(b, a)
			fmt.Fprintf(p.out, "%s %s %s %s %s %s c\n", short(first.x), short(first.y), short(second.x), short(second.y), short(b.x), short(b.y))
			now = b
		case sfnt.SegmentOpCubeTo:
			fmt.Fprintf(p.out, "%s %s %s %s %s %s c\n", short(a.x), short(a.y), short(b.x), short(b.y), short(c.x), short(c.y))
			now = c
		}
	}
	if len(segments) > 0 {
		p.out.WriteString("f\n")
	}
}
