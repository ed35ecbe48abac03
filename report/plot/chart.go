package plot

import (
	"cmp"
	"math"
	"slices"

	"github.com/gobw/gobw/report/plain"
)

// Shape is how a series is drawn.
type Shape uint8

// Shapes.
const (
	Line  Shape = iota // points joined by lines, with markers where there are few
	Steps              // a level from each X to the next: rates per interval, states
	Dots               // points alone
)

// Series is one curve. Low and High, where set, are intervals around Y and drawn as a band.
type Series struct {
	Name  string
	X, Y  []float64
	Low   []float64
	High  []float64
	Shape Shape
	Color int // from the palette, from 1; 0: by its place in the diagram
}

// Mark is a line across the chart at a value, with a label: a limit, a bound, a crossover.
type Mark struct {
	Label string
	X, Y  float64 // one of them; the other 0
}

// Chart is a diagram of curves over two axes. Too many curves for one diagram get several, one below the other, with
// the same axes.
type Chart struct {
	Title    string
	Subtitle string // device and transport, or what else keeps the picture honest
	X, Y     Axis
	Series   []Series
	Marks    []Mark
	Note     string // below the diagram: what its bands are
}

const (
	chartWidth  = 380 // fits a phone at its size
	chartTall   = 250 // of the axes
	severalTall = 160 // where there are several diagrams
	mostCurves  = 4   // in one diagram
	manyPoints  = 40  // above, lines have no markers
)

// frame is the rectangle of the axes.
type frame struct {
	left, top, right, bottom float64
	x, y                     ruler
}

func (f frame) at(x, y float64) (point, bool) {
	return point{f.left + f.x.place(x)*(f.right-f.left), f.bottom - f.y.place(y)*(f.bottom-f.top)}, shows(f.x.Scale, x) &&
		shows(f.y.Scale, y)
}

func (c *Chart) draw(cv *svg) (title string, width, height float64) {
	var xs, ys []float64
	for _, s := range c.Series {
		xs, ys = append(xs, s.X...), slices.Concat(ys, s.Y, s.Low, s.High)
	}
	for _, m := range c.Marks {
		if m.X != 0 {
			xs = append(xs, m.X)
		} else {
			ys = append(ys, m.Y)
		}
	}
	f := frame{right: chartWidth - edge - 8, x: newRuler(c.X, xs), y: newRuler(c.Y, ys).rounded()}
	bottom := header(cv, c.Title, c.Subtitle, chartWidth)
	diagrams, tall := max((len(c.Series)+mostCurves-1)/mostCurves, 1), float64(chartTall)
	if diagrams > 1 {
		tall = severalTall
	}
	for i := range diagrams { // the curves are shared out evenly
		chosen := c.Series[i*len(c.Series)/diagrams : (i+1)*len(c.Series)/diagrams]
		bottom = legend(cv, plain.Each(chosen, func(s Series) string { return s.Name }), bottom, chartWidth,
			func(k int, at point) {
				if chosen[k].Shape != Dots {
					cv.line([]point{{at.x - 9, at.y}, {at.x + 9, at.y}}, stroke{chosen[k].color(k), 2, false})
				}
				if chosen[k].hasMarkers() {
					cv.marker(at, k, chosen[k].color(k))
				}
			})
		f.top, f.bottom = bottom+8, bottom+8+tall
		c.axes(cv, &f)
		for _, m := range c.Marks {
			f.mark(cv, m)
		}
		for k, s := range chosen {
			f.band(cv, s, s.color(k))
		}
		for k, s := range chosen {
			f.series(cv, s, k)
		}
		bottom = f.bottom + 46
	}
	return c.Title, chartWidth, paragraph(cv, c.Note, bottom, chartWidth, font{size: textSize, color: color{muted, 1}}) + 4
}

func (s Series) color(place int) color {
	if s.Color > 0 {
		place = s.Color - 1
	}
	return seriesColor(place)
}

// hasMarkers tells whether each point has a marker.
func (s Series) hasMarkers() bool {
	return s.Shape == Dots || s.Shape == Line && len(s.X) <= manyPoints
}

// axes draws a grid with its labels; those on the left decide where it begins.
func (c *Chart) axes(cv *svg, f *frame) {
	thin, small := stroke{color: color{grid, 1}, width: 1}, font{size: textSize, color: color{muted, 1}}
	ys := f.y.ticks(func(string) float64 { return 18 / (f.bottom - f.top) })
	for _, t := range ys {
		f.left = max(f.left, edge+26+textWidth(t.label, small))
	}
	small.anchor = "end"
	for _, t := range ys {
		p, _ := f.at(f.x.min, t.value)
		cv.line([]point{{f.left, p.y}, {f.right, p.y}}, thin)
		cv.text(point{f.left - 7, p.y + 4}, t.label, small)
	}
	small.anchor = "middle"
	for _, t := range f.x.ticks(func(label string) float64 {
		return (textWidth(label, small) + 10) / (f.right - f.left)
	}) {
		p, _ := f.at(t.value, f.y.max)
		cv.line([]point{{p.x, f.top}, {p.x, f.bottom}}, thin)
		cv.text(point{min(p.x, chartWidth-edge/2-textWidth(t.label, small)/2), f.bottom + 16}, t.label, small)
	}
	cv.line([]point{{f.left, f.top}, {f.left, f.bottom}, {f.right, f.bottom}}, stroke{color: color{muted, 1}, width: 1})
	small.color = color{ink, 1}
	cv.text(point{(f.left + f.right) / 2, f.bottom + 35}, f.x.name(), small)
	small.upright = true
	cv.text(point{edge + 9, (f.top + f.bottom) / 2}, f.y.name(), small)
}

// mark draws a line across the diagram. Its label is on the side with more room.
func (f frame) mark(cv *svg, m Mark) {
	label := font{size: textSize, color: color{muted, 1}, halo: true}
	y := m.Y
	if m.X != 0 {
		y = f.y.max
	}
	p, ok := f.at(cmp.Or(m.X, f.x.max), y)
	if !ok {
		return
	}
	from, to, at := point{f.left, p.y}, point{f.right, p.y}, point{f.left + 6, p.y - 5}
	switch {
	case m.X != 0:
		from, to, at = point{p.x, f.top}, point{p.x, f.bottom}, point{p.x + 5, f.top + 13}
		if p.x > (f.left+f.right)/2 {
			label.anchor, at.x = "end", p.x-5
		}
	case p.y < f.top+17:
		at.y += 19
	}
	cv.line([]point{from, to}, stroke{color{muted, 1}, 1.2, true})
	cv.text(at, m.Label, label)
}

// runs draws each run of points without a gap.
func (f frame) runs(s Series, ys []float64, draw func(points []point)) {
	var run []point
	for i := range min(len(s.X), len(ys)) {
		p, ok := f.at(s.X[i], ys[i])
		if !ok {
			draw(run)
			run = nil
			continue
		}
		if s.Shape == Steps && len(run) > 0 {
			run = append(run, point{p.x, run[len(run)-1].y})
		}
		run = append(run, p)
	}
	draw(run)
}

// band shades the intervals of a series. The interval of a point alone is a line.
func (f frame) band(cv *svg, s Series, c color) {
	var highs [][]point
	f.runs(s, s.High, func(points []point) { highs = append(highs, points) })
	i := 0
	f.runs(s, s.Low, func(low []point) {
		if i >= len(highs) || len(low) != len(highs[i]) {
			return
		}
		high := highs[i]
		i++
		if len(low) == 1 {
			cv.line([]point{low[0], high[0]}, stroke{color: color{c.role, 0.5}, width: 3})
			return
		}
		slices.Reverse(high)
		if len(low) > 1 {
			cv.area(append(low, high...), color{c.role, 0.18}, "")
		}
	})
}

func (f frame) series(cv *svg, s Series, place int) {
	c := s.color(place)
	f.runs(s, s.Y, func(run []point) {
		if s.Shape == Dots || len(run) < 2 {
			return
		}
		cv.line(run, stroke{c, 2, false})
	})
	if !s.hasMarkers() {
		return
	}
	for i := range min(len(s.X), len(s.Y)) {
		if p, ok := f.at(s.X[i], s.Y[i]); ok && !math.IsNaN(s.Y[i]) {
			cv.marker(p, place, c)
		}
	}
}
