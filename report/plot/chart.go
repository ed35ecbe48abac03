package plot

import (
	"math"
	"slices"
)

// Shape is how a series is drawn.
type Shape uint8

// Shapes.
const (
	Line  Shape = iota // points joined by lines, with markers where there are few
	Steps              // a level from each X to the next: histograms, rates per interval
	Dots               // points alone
)

// Series is one curve. Low and High, where set, are intervals around Y and drawn as whiskers.
type Series struct {
	Name  string
	X, Y  []float64
	Low   []float64
	High  []float64
	Shape Shape
	// Color picks from the palette, from 1; 0: by the place in the chart.
	Color int
	// Marker picks a shape, from 1; 0: by the place in the chart.
	Marker int
}

// Mark is a line across the chart at a value, with a label: a limit, a bound, a crossover.
type Mark struct {
	Label string
	X, Y  float64 // one of them; the other 0
}

// Chart is a diagram of curves over two axes.
type Chart struct {
	Title    string
	Subtitle string // device and transport, or what else keeps the picture honest
	X, Y     Axis
	Series   []Series
	Marks    []Mark
	Note     string // below the diagram: what its whiskers are
}

// Heading is the title.
func (c *Chart) Heading() string { return c.Title }

func (c *Chart) size() (width, height float64) {
	return chartWidth, chartHeight + c.legendHeight(chartWidth) + c.noteHeight()
}

func (c *Chart) noteHeight() float64 {
	if c.Note == "" {
		return 0
	}
	return noteRow
}

const (
	chartWidth, chartHeight = 720, 400

	titleSize  = 15
	boldTitle  = titleSize * 1.17 // by which [textWidth] estimates a title: bold letters are wider
	textSize   = 11.5
	legendRow  = 18
	legendGap  = 18
	legendMark = 24
	edge       = 14
	manyPoints = 40 // above, lines have no markers
)

// frame is the rectangle of the axes.
type frame struct {
	left, top, right, bottom float64
	x, y                     ruler
}

func (f frame) at(x, y float64) (point, bool) {
	px, okX := f.x.place(x)
	py, okY := f.y.place(y)
	return point{f.left + px*(f.right-f.left), f.bottom - py*(f.bottom-f.top)}, okX && okY
}

func (c *Chart) draw(cv *svg) {
	width, height := c.size()
	top := header(cv, c.Title, c.Subtitle, width)
	c.legend(cv, width, top)
	top += c.legendHeight(width)

	f := frame{top: top + 8, right: width - edge - 8, bottom: height - 46 - c.noteHeight()}
	if c.Note != "" {
		cv.text(point{edge, height - 8}, fit(c.Note, textSize, width-2*edge), font{size: textSize, color: color{muted, 1}})
	}
	f.x, f.y = newRuler(c.X, c.xs()).tight(c.xs()), newRuler(c.Y, c.ys())
	yTicks := f.y.ticks(18 / (f.bottom - f.top))
	labels := 0.0
	for _, t := range yTicks {
		labels = max(labels, textWidth(t.label, textSize))
	}
	f.left = edge + 18 + labels + 8
	c.axes(cv, f, yTicks)
	for _, m := range c.Marks {
		c.mark(cv, f, m)
	}
	for i, s := range c.Series {
		c.series(cv, f, i, s)
	}
}

// header draws title and subtitle and returns where they end.
func header(cv *svg, title, subtitle string, width float64) float64 {
	y := edge + titleSize
	cv.text(point{edge, float64(y)}, fit(title, boldTitle, width-2*edge), font{size: titleSize, bold: true, color: color{ink, 1}})
	if subtitle == "" {
		return float64(y) + 8
	}
	cv.text(point{edge, float64(y) + 18}, fit(subtitle, textSize, width-2*edge), font{size: textSize, color: color{muted, 1}, hint: subtitle})
	return float64(y) + 26
}

// fit shortens text to a width.
func fit(s string, size, width float64) string {
	if textWidth(s, size) <= width {
		return s
	}
	runes := []rune(s)
	for len(runes) > 1 && textWidth(string(runes)+"…", size) > width {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}

func (c *Chart) xs() []float64 {
	var out []float64
	for _, s := range c.Series {
		out = append(out, s.X...)
	}
	for _, m := range c.Marks {
		if m.X != 0 {
			out = append(out, m.X)
		}
	}
	return out
}

func (c *Chart) ys() []float64 {
	var out []float64
	for _, s := range c.Series {
		out = slices.Concat(out, s.Y, s.Low, s.High)
	}
	for _, m := range c.Marks {
		if m.Y != 0 {
			out = append(out, m.Y)
		}
	}
	return out
}

// legend names the series, where there are several, in rows below the title.
func (c *Chart) legend(cv *svg, width, top float64) {
	c.legendPlaces(width, func(i int, x, y float64) {
		s := c.Series[i]
		y += top + legendRow/2
		col := c.color(i)
		cv.line([]point{{x, y}, {x + legendMark - 6, y}}, stroke{col, 2, c.dash(i)})
		if s.Shape != Steps && len(s.X) <= manyPoints {
			cv.marker(point{x + (legendMark-6)/2, y}, c.marker(i), col, "")
		}
		cv.text(point{x + legendMark, y + 4}, s.Name, font{size: textSize, color: color{ink, 1}})
	})
}

func (c *Chart) legendPlaces(width float64, draw func(i int, x, y float64)) (rows int) {
	if len(c.Series) < 2 && (len(c.Series) == 0 || c.Series[0].Name == "") {
		return 0
	}
	x, row := float64(edge), 0
	for i, s := range c.Series {
		w := legendMark + textWidth(s.Name, textSize) + legendGap
		if x > edge && x+w > width-edge {
			x = edge
			row++
		}
		if draw != nil {
			draw(i, x, float64(row)*legendRow)
		}
		x += w
	}
	return row + 1
}

func (c *Chart) legendHeight(width float64) float64 {
	return float64(c.legendPlaces(width, nil)) * legendRow
}

func (c *Chart) color(i int) color {
	if n := c.Series[i].Color; n > 0 {
		return seriesColor(n - 1)
	}
	return seriesColor(i)
}

func (c *Chart) marker(i int) int {
	if n := c.Series[i].Marker; n > 0 {
		return n - 1
	}
	return i
}

// whiskerGap is the distance between the whiskers of neighbouring series, which would lie over one another at the same X.
const whiskerGap = 3.5

// whiskerShift is how far beside its point the whisker of a series stands.
func (c *Chart) whiskerShift(i int) float64 {
	before, all := 0, 0
	for j, s := range c.Series {
		if len(s.Low) == 0 {
			continue
		}
		if j < i {
			before++
		}
		all++
	}
	return (float64(before) - float64(all-1)/2) * whiskerGap
}

func (c *Chart) dash(i int) dash {
	if c.Series[i].Color > 0 {
		same := 0
		for _, s := range c.Series[:i] {
			if s.Color == c.Series[i].Color {
				same++
			}
		}
		return dash(same % 3)
	}
	return dash(i / paletteLength % 3)
}

func (c *Chart) axes(cv *svg, f frame, yTicks []tick) {
	thin := stroke{color{grid, 1}, 1, solid}
	small := font{size: textSize, color: color{muted, 1}}
	for _, t := range yTicks {
		p, _ := f.at(f.x.min, t.value)
		line := thin
		if t.label == "" {
			line.color.alpha = 0.55
		}
		cv.line([]point{{f.left, p.y}, {f.right, p.y}}, line)
		if t.label != "" {
			small.anchor = end
			cv.text(point{f.left - 7, p.y + 4}, t.label, small)
		}
	}
	for _, t := range f.x.ticks(c.xGap(f)) {
		p, _ := f.at(t.value, f.y.min)
		line := thin
		if t.label == "" {
			line.color.alpha = 0.55
		}
		cv.line([]point{{p.x, f.top}, {p.x, f.bottom}}, line)
		if t.label != "" {
			small.anchor = middle
			cv.text(point{p.x, f.bottom + 16}, t.label, small)
		}
	}
	axis := stroke{color{muted, 1}, 1, solid}
	cv.line([]point{{f.left, f.bottom}, {f.right, f.bottom}}, axis)
	cv.line([]point{{f.left, f.top}, {f.left, f.bottom}}, axis)
	name := font{size: textSize, color: color{ink, 1}, anchor: middle}
	cv.text(point{(f.left + f.right) / 2, f.bottom + 35}, c.X.Label, name)
	name.upright = true
	cv.text(point{edge + 9, (f.top + f.bottom) / 2}, c.Y.Label, name)
}

// xGap is the least distance of labels on the horizontal axis, as a share of it: the widest label and some air.
func (c *Chart) xGap(f frame) float64 {
	widest := 0.0
	for _, t := range f.x.ticks(0.01) {
		widest = max(widest, textWidth(t.label, textSize))
	}
	return (widest + 10) / (f.right - f.left)
}

func (c *Chart) mark(cv *svg, f frame, m Mark) {
	line := stroke{color{muted, 1}, 1.2, dashedLine}
	label := font{size: textSize, color: color{muted, 1}}
	if m.X != 0 {
		p, ok := f.at(m.X, f.y.max)
		if !ok {
			return
		}
		cv.line([]point{{p.x, f.top}, {p.x, f.bottom}}, line)
		if p.x > (f.left+f.right)/2 {
			label.anchor = end
			cv.text(point{p.x - 5, f.top + 13}, m.Label, label)
		} else {
			cv.text(point{p.x + 5, f.top + 13}, m.Label, label)
		}
		return
	}
	p, ok := f.at(f.x.max, m.Y)
	if !ok {
		return
	}
	cv.line([]point{{f.left, p.y}, {f.right, p.y}}, line)
	y := p.y - 5
	if y < f.top+12 {
		y = p.y + 14
	}
	cv.text(point{f.left + 6, y}, m.Label, label)
}

func (c *Chart) series(cv *svg, f frame, i int, s Series) {
	col := c.color(i)
	var run []point
	flush := func() {
		if len(run) > 1 {
			cv.line(run, stroke{col, 2, c.dash(i)})
		}
		run = nil
	}
	whisker, shift := stroke{color{col.role, 0.75}, 1.2, solid}, c.whiskerShift(i)
	for j := range min(len(s.X), len(s.Y)) {
		p, ok := f.at(s.X[j], s.Y[j])
		if !ok {
			flush()
			continue
		}
		if j < len(s.Low) && j < len(s.High) {
			lo, okLo := f.at(s.X[j], s.Low[j])
			hi, okHi := f.at(s.X[j], s.High[j])
			if okLo && okHi && math.Abs(lo.y-hi.y) > 0.5 {
				x := lo.x + shift
				cv.line([]point{{x, lo.y}, {x, hi.y}}, whisker)
				cv.line([]point{{x - 3, lo.y}, {x + 3, lo.y}}, whisker)
				cv.line([]point{{x - 3, hi.y}, {x + 3, hi.y}}, whisker)
			}
		}
		switch s.Shape {
		case Line:
			run = append(run, p)
		case Steps:
			if len(run) > 0 {
				run = append(run, point{p.x, run[len(run)-1].y})
			}
			run = append(run, p)
		case Dots:
		}
	}
	if s.Shape == Steps && len(run) > 0 {
		shade := append(slices.Clone(run), point{run[len(run)-1].x, f.bottom}, point{run[0].x, f.bottom})
		cv.area(shade, color{col.role, 0.12})
	}
	flush()
	if s.Shape == Dots || s.Shape == Line && len(s.X) <= manyPoints {
		for j := range min(len(s.X), len(s.Y)) {
			if p, ok := f.at(s.X[j], s.Y[j]); ok {
				text := hint(s.X[j], c.X) + ": " + hint(s.Y[j], c.Y)
				if s.Name != "" {
					text = s.Name + ", " + text
				}
				cv.marker(p, c.marker(i), col, text)
			}
		}
	}
}
