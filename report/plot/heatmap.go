package plot

import "strings"

// Cell is one field of a heat map. Its colour says the category, its strength how much.
type Cell struct {
	Category int     // from 1, an index into the map's categories; 0: no colour, as for "no difference"
	Strength float64 // 0…1
	Text     string
	Hint     string // tool tip
}

// HeatMap is a grid of coloured cells. Cells[row][column], the first row at the top; a missing cell stays empty.
type HeatMap struct {
	Title, Subtitle string
	XLabel, YLabel  string // with the unit
	Columns, Rows   []string
	Cells           [][]Cell
	Categories      []string // names of the colours, for the legend
	Note            string   // what the strength means, below the map
	Paths           []Path   // drawn over the cells
	Square          float64  // side of a cell without a text, where there are many; 0: cells are as wide as their texts
}

// Path is a line over the cells: X counts columns and Y rows, both from the centre of the first.
type Path struct {
	X, Y  []float64
	Width float64 // 0: 2.5
}

// Heading is the title.
func (h *HeatMap) Heading() string { return h.Title }

const (
	cellHeight = 30
	noteRow    = 16
)

func (h *HeatMap) cellHeight() float64 {
	if h.Square > 0 {
		return h.Square
	}
	return cellHeight
}

// below is the room for the names of the columns, which stand upright below squares, and for that of the axis.
func (h *HeatMap) below() float64 {
	room := 48.0
	if h.Square > 0 {
		for _, c := range h.Columns {
			room = max(room, 40+textWidth(c, textSize))
		}
	}
	return room
}

func (h *HeatMap) cellWidth() float64 {
	if h.Square > 0 {
		return h.Square
	}
	widest := 44.0
	for _, row := range h.Cells {
		for _, c := range row {
			widest = max(widest, textWidth(c.Text, textSize)+12)
		}
	}
	for _, c := range h.Columns {
		widest = max(widest, textWidth(c, textSize)+10)
	}
	return widest
}

func (h *HeatMap) left() float64 {
	widest := 0.0
	for _, r := range h.Rows {
		widest = max(widest, textWidth(r, textSize))
	}
	return edge + 20 + widest + 8
}

func (h *HeatMap) size() (width, height float64) {
	width = max(h.left()+float64(len(h.Columns))*h.cellWidth()+edge, 420, min(2*edge+max(textWidth(h.Subtitle, textSize), textWidth(h.Title, boldTitle)), 720))
	height = h.top(width) + float64(len(h.Rows))*h.cellHeight() + h.below() + noteRow*float64(len(lines(h.Note, width-2*edge)))
	return width, height
}

func (h *HeatMap) top(width float64) float64 {
	top := edge + 8.0
	if h.Title != "" {
		top += titleSize
	}
	if h.Subtitle != "" {
		top += 18
	}
	return top + h.legend(nil, width, 0) + 6
}

// legend draws the categories, on a canvas or, without one, only to know its height.
func (h *HeatMap) legend(cv *svg, width, top float64) float64 {
	if len(h.Categories) == 0 {
		return 0
	}
	x, y := float64(edge), top
	for i, name := range h.Categories {
		w := 20 + textWidth(name, textSize) + legendGap
		if x > edge && x+w > width-edge {
			x = edge
			y += legendRow
		}
		if cv != nil {
			cv.area(box(x, y+3, 13, 13), color{seriesColor(i).role, 0.8})
			cv.text(point{x + 19, y + 13}, name, font{size: textSize, color: color{ink, 1}})
		}
		x += w
	}
	return y - top + legendRow
}

func box(x, y, w, h float64) []point {
	return []point{{x, y}, {x + w, y}, {x + w, y + h}, {x, y + h}}
}

func (h *HeatMap) draw(cv *svg) {
	width, height := h.size()
	y := edge + 8.0
	if h.Title != "" {
		y = header(cv, h.Title, h.Subtitle, width)
	}
	h.legend(cv, width, y)
	left, top, w, tall := h.left(), h.top(width), h.cellWidth(), h.cellHeight()
	small := font{size: textSize, color: color{muted, 1}, anchor: end}
	for i, name := range h.Rows {
		cv.text(point{left - 7, top + (float64(i)+0.5)*tall + 4}, name, small)
	}
	bottom := top + float64(len(h.Rows))*tall
	small.anchor = middle
	for j, name := range h.Columns {
		at := point{left + (float64(j)+0.5)*w, bottom + 16}
		if h.Square > 0 {
			small.upright, small.anchor, at = true, end, point{at.x + 4, bottom + 6}
		}
		cv.text(at, name, small)
	}
	for i, row := range h.Cells {
		for j, c := range row {
			x, y := left+float64(j)*w, top+float64(i)*tall
			fill := color{grid, 0.35}
			if c.Category > 0 {
				fill = color{seriesColor(c.Category - 1).role, 0.10 + 0.65*min(max(c.Strength, 0), 1)}
			}
			cv.area(box(x+0.75, y+0.75, w-1.5, tall-1.5), fill)
		}
	}
	for _, p := range h.Paths {
		points := make([]point, len(p.X))
		for i := range points {
			points[i] = point{left + (p.X[i]+0.5)*w, top + (p.Y[i]+0.5)*tall}
		}
		width := p.Width
		if width == 0 {
			width = 2.5
		}
		cv.line(points, stroke{color: color{ink, 0.6}, width: width})
	}
	for i, row := range h.Cells { // over the paths
		for j, c := range row {
			at := point{left + (float64(j)+0.5)*w, top + (float64(i)+0.5)*tall + 4}
			if half := textWidth(c.Text, textSize)/2 + 3; h.crossed(float64(i), float64(j), half/w) {
				cv.area(box(at.x-half, at.y-textSize, 2*half, textSize+4), color{paper, 0.85})
			}
			cv.text(at, c.Text, font{size: textSize, color: color{ink, 1}, anchor: middle, hint: c.Hint})
		}
	}
	name := font{size: textSize, color: color{ink, 1}, anchor: middle}
	cv.text(point{left + float64(len(h.Columns))*w/2, bottom + h.below() - 12}, h.XLabel, name)
	name.upright = true
	cv.text(point{edge + 9, (top + bottom) / 2}, h.YLabel, name)
	note := lines(h.Note, width-2*edge)
	for i, line := range note {
		cv.text(point{edge, height - 8 - noteRow*float64(len(note)-1-i)}, line, font{size: textSize, color: color{muted, 1}})
	}
}

// crossed tells whether a path runs through the text of a cell, which reaches half a width to either side, in columns.
func (h *HeatMap) crossed(row, column, half float64) bool {
	const textRows = 0.25 // half its height, in rows
	for _, p := range h.Paths {
		for k := 1; k < len(p.X); k++ {
			if max(p.X[k-1], p.X[k]) >= column-half && min(p.X[k-1], p.X[k]) <= column+half &&
				max(p.Y[k-1], p.Y[k]) >= row-textRows && min(p.Y[k-1], p.Y[k]) <= row+textRows {
				return true
			}
		}
	}
	return false
}

// lines breaks text to a width.
func lines(s string, width float64) []string {
	var out []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		if line != "" && textWidth(line+" "+word, textSize) > width {
			out = append(out, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		out = append(out, line)
	}
	return out
}
