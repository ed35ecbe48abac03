package plot

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"image"
	stdcolor "image/color"
	imagedraw "image/draw"
	"image/png"
	"io"
	"iter"
	"maps"
	"math"
	"slices"

	xfont "golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// raster is a canvas of pixels.
type raster struct {
	img   *image.RGBA
	scale float64
	fonts *fontBook
}

// WritePNG writes a PNG on white; scale is pixels per unit, 2 looks sharp everywhere.
func WritePNG(w io.Writer, f Figure, scale float64) error {
	fonts, err := newFontBook()
	if err != nil {
		return err
	}
	width, height := f.size()
	if !(scale > 0) || width*height*scale*scale > 1e8 {
		return fmt.Errorf("a picture of %.0f by %.0f units at scale %g is too large or empty", width, height, scale)
	}
	r := &raster{img: image.NewRGBA(image.Rect(0, 0, int(math.Ceil(width*scale)), int(math.Ceil(height*scale)))), scale: scale, fonts: fonts}
	imagedraw.Draw(r.img, r.img.Bounds(), image.White, image.Point{}, imagedraw.Src)
	f.draw(r)
	if fonts.err != nil {
		return fonts.err
	}
	return png.Encode(w, paletted(r.img))
}

// paletted is an opaque picture in at most 256 colours: all that it has, or those that most pixels have and the others as the
// nearest of them, which are shades within the edges of letters and lines. Most of the time that a PNG takes is its encoding, and
// a byte a pixel takes a fraction of three with their filters.
func paletted(img *image.RGBA) *image.Paletted {
	count := map[uint32]int{}
	for run := range runs(img.Pix) {
		count[run.color] += run.pixels
	}
	colors := slices.SortedFunc(maps.Keys(count), func(a, b uint32) int { // the most frequent first, and the same order on every machine
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	out := image.NewPaletted(img.Bounds(), nil)
	index := map[uint32]uint8{}
	for i, c := range colors {
		if i < 256 {
			index[c] = uint8(i)
			out.Palette = append(out.Palette, stdcolor.RGBA{uint8(c), uint8(c >> 8), uint8(c >> 16), 0xff})
			continue
		}
		index[c] = uint8(out.Palette.Index(stdcolor.RGBA{uint8(c), uint8(c >> 8), uint8(c >> 16), 0xff}))
	}
	at := 0
	for run := range runs(img.Pix) {
		if i := index[run.color]; i != 0 { // 0, the paper's as a rule, is there already
			for p := range run.pixels {
				out.Pix[at+p] = i
			}
		}
		at += run.pixels
	}
	return out
}

// run is pixels of one colour beside one another: red in the lowest byte, then green and blue.
type run struct {
	color  uint32
	pixels int
}

// runs are the runs of pixels of four bytes.
func runs(pix []byte) iter.Seq[run] {
	return func(yield func(run) bool) {
		var r run
		for ; len(pix) >= 4; pix = pix[4:] {
			c := binary.LittleEndian.Uint32(pix)
			if c != r.color && r.pixels > 0 {
				if !yield(r) {
					return
				}
				r.pixels = 0
			}
			r.color = c
			r.pixels++
		}
		if r.pixels > 0 {
			yield(r)
		}
	}
}

// fill draws closed paths as one shape. Only the part of the picture that they touch is rasterized.
func (r *raster) fill(paths [][]point, c color) {
	low, high := point{math.Inf(1), math.Inf(1)}, point{math.Inf(-1), math.Inf(-1)}
	for _, path := range paths {
		for _, p := range path {
			low = point{min(low.x, p.x), min(low.y, p.y)}
			high = point{max(high.x, p.x), max(high.y, p.y)}
		}
	}
	pixel := func(v float64, round func(float64) float64, limit int) int {
		return int(min(max(round(v*r.scale), 0), float64(limit)))
	}
	size := r.img.Bounds().Size()
	box := image.Rect(pixel(low.x, math.Floor, size.X), pixel(low.y, math.Floor, size.Y), pixel(high.x, math.Ceil, size.X), pixel(high.y, math.Ceil, size.Y))
	if box.Empty() {
		return
	}
	z := vector.NewRasterizer(box.Dx(), box.Dy())
	for _, path := range paths {
		r.polygon(z, path, box.Min)
	}
	red, green, blue, alpha := c.rgba()
	z.Draw(r.img, box, image.NewUniform(stdcolor.NRGBA{red, green, blue, alpha}), image.Point{})
}

// polygon adds a closed path, always in the same sense so that overlapping parts of a stroke do not cancel.
func (r *raster) polygon(z *vector.Rasterizer, points []point, origin image.Point) {
	if signedArea(points) < 0 {
		points = slices.Clone(points)
		slices.Reverse(points)
	}
	for i, p := range points {
		x, y := float32(p.x*r.scale-float64(origin.X)), float32(p.y*r.scale-float64(origin.Y))
		if i == 0 {
			z.MoveTo(x, y)
		} else {
			z.LineTo(x, y)
		}
	}
	z.ClosePath()
}

func signedArea(points []point) float64 {
	sum := 0.0
	for i, p := range points {
		q := points[(i+1)%len(points)]
		sum += p.x*q.y - q.x*p.y
	}
	return sum
}

func (r *raster) area(points []point, c color) {
	if len(points) < 3 {
		return
	}
	r.fill([][]point{points}, c)
}

func (r *raster) line(points []point, s stroke) {
	half := s.width / 2
	var paths [][]point
	for _, piece := range dashes(points, s.dashed.pattern()) {
		for i, p := range piece {
			if i > 0 {
				q := piece[i-1]
				length := math.Hypot(p.x-q.x, p.y-q.y)
				if length == 0 {
					continue
				}
				dx, dy := (p.y-q.y)/length*half, (q.x-p.x)/length*half
				paths = append(paths, []point{{q.x + dx, q.y + dy}, {p.x + dx, p.y + dy}, {p.x - dx, p.y - dy}, {q.x - dx, q.y - dy}})
			}
			if s.width > 1 {
				paths = append(paths, circle(p, half))
			}
		}
	}
	r.fill(paths, s.color)
}

// dashes cuts a line into the pieces to draw.
func dashes(points []point, pattern []float64) [][]point {
	if pattern == nil || len(points) < 2 {
		return [][]point{points}
	}
	var out [][]point
	var piece []point
	on, left := 0, pattern[0]
	at := points[0]
	piece = append(piece, at)
	for _, to := range points[1:] {
		for {
			length := math.Hypot(to.x-at.x, to.y-at.y)
			if length <= left {
				left -= length
				at = to
				if on == 0 {
					piece = append(piece, at)
				}
				break
			}
			at = point{at.x + (to.x-at.x)*left/length, at.y + (to.y-at.y)*left/length}
			if on == 0 {
				out = append(out, append(piece, at))
				piece = nil
			} else {
				piece = []point{at}
			}
			on = 1 - on
			left = pattern[on]
		}
	}
	if len(piece) > 1 {
		out = append(out, piece)
	}
	return out
}

func (r *raster) marker(at point, shape int, c color, _ string) {
	r.area(outline(at, shape), c)
}

func (r *raster) text(at point, s string, f font) {
	face := r.fonts.face(f.bold, f.size*r.scale)
	if face == nil {
		return
	}
	s = clean(s)
	width := xfont.MeasureString(face, s)
	red, green, blue, alpha := f.color.rgba()
	src := image.NewUniform(stdcolor.NRGBA{red, green, blue, alpha})
	shift := fixed.Int26_6(0)
	switch f.anchor {
	case middle:
		shift = width / 2
	case end:
		shift = width
	case start:
	}
	if f.upright == horizontal {
		d := xfont.Drawer{Dst: r.img, Src: src, Face: face, Dot: fixed.Point26_6{X: fixed26(at.x*r.scale) - shift, Y: fixed26(at.y * r.scale)}}
		d.DrawString(s)
		return
	}
	m := face.Metrics()
	w, h := width.Ceil()+2, (m.Ascent+m.Descent).Ceil()+2
	flat := image.NewRGBA(image.Rect(0, 0, w, h))
	d := xfont.Drawer{Dst: flat, Src: src, Face: face, Dot: fixed.Point26_6{X: 64, Y: m.Ascent + 64}}
	d.DrawString(s)
	turned := image.NewRGBA(image.Rect(0, 0, h, w))
	for y := range h {
		for x := range w {
			turned.SetRGBA(y, w-1-x, flat.RGBAAt(x, y))
		}
	}
	x0 := int(at.x*r.scale) - m.Ascent.Ceil() - 1
	y0 := int(at.y*r.scale) - w + 1 + shift.Ceil()
	imagedraw.Draw(r.img, turned.Bounds().Add(image.Pt(x0, y0)), turned, image.Point{}, imagedraw.Over)
}

func fixed26(v float64) fixed.Int26_6 { return fixed.Int26_6(math.Round(v * 64)) }

// fontBook holds the two Go fonts and a face for each size asked for.
type fontBook struct {
	fonts [2]*opentype.Font
	faces map[faceKey]xfont.Face
	err   error
}

type faceKey struct {
	bold weight
	size float64
}

func newFontBook() (*fontBook, error) {
	b := &fontBook{faces: map[faceKey]xfont.Face{}}
	for i, ttf := range [][]byte{goregular.TTF, gobold.TTF} {
		f, err := opentype.Parse(ttf)
		if err != nil {
			return nil, fmt.Errorf("font: %w", err)
		}
		b.fonts[i] = f
	}
	return b, nil
}

func (b *fontBook) face(bold weight, size float64) xfont.Face {
	key := faceKey{bold, size}
	if f, ok := b.faces[key]; ok {
		return f
	}
	f, err := opentype.NewFace(b.fonts[bold], &opentype.FaceOptions{Size: size, DPI: 72, Hinting: xfont.HintingNone})
	if err != nil {
		b.err = err
		return nil
	}
	b.faces[key] = f
	return f
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
