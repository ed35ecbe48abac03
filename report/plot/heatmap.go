package plot

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
	Square          float64  // side of a cell without a text, where there are many; 0: cells are as wide as their texts
}

// Fill makes a cell for each row and column, empty as yet.
func (h *HeatMap) Fill() {
	h.Cells = make([][]Cell, len(h.Rows))
	for i := range h.Cells {
		h.Cells[i] = make([]Cell, len(h.Columns))
	}
}

const (
	cellHeight = 30
	leastMap   = chartWidth // width, of a map of few cells
)

func (h *HeatMap) draw(cv *svg) (title string, width, height float64) {
	small := font{size: textSize, color: color{muted, 1}, anchor: "end"}
	widest := func(texts []string) (most float64) {
		for _, t := range texts {
			most = max(most, textWidth(t, small))
		}
		return most
	}
	left, w, tall := edge+28+widest(h.Rows), max(44, widest(h.Columns)+10), float64(cellHeight)
	for _, row := range h.Cells {
		for _, c := range row {
			w = max(w, textWidth(c.Text, small)+12)
		}
	}
	below := 48.0 // room for the names of the columns, which stand upright below squares
	if h.Square > 0 {
		w, tall, below = h.Square, h.Square, 40+widest(h.Columns)
	}
	width = max(left+float64(len(h.Columns))*w+edge, leastMap)
	top := legend(cv, h.Categories, header(cv, h.Title, h.Subtitle, width), width, func(i int, at point) {
		cv.area(box(at.x-7, at.y-7, 13, 13), color{seriesColor(i).role, 0.8}, "")
	}) + 4
	bottom := top + float64(len(h.Rows))*tall
	for i, name := range h.Rows {
		cv.text(point{left - 7, top + (float64(i)+0.5)*tall + 4}, name, small)
	}
	for j, name := range h.Columns {
		at, f := point{left + (float64(j)+0.5)*w, bottom + 16}, small
		f.anchor = "middle"
		if h.Square > 0 {
			f.upright, f.anchor, at = true, "end", point{at.x + 4, bottom + 6}
		}
		cv.text(at, name, f)
	}
	for i, row := range h.Cells {
		for j, c := range row {
			if c == (Cell{}) {
				continue
			}
			fill := color{grid, 0.35}
			if c.Category > 0 {
				fill = color{seriesColor(c.Category - 1).role, 0.10 + 0.65*min(max(c.Strength, 0), 1)}
			}
			cv.area(box(left+float64(j)*w+0.75, top+float64(i)*tall+0.75, w-1.5, tall-1.5), fill, c.Hint)
			if c.Text != "" {
				cv.text(point{left + (float64(j)+0.5)*w, top + (float64(i)+0.5)*tall + 4}, c.Text,
					font{size: textSize, color: color{ink, 1}, anchor: "middle"})
			}
		}
	}
	if right := left + float64(len(h.Columns))*w; h.Square > 0 { // a frame, as most cells may be empty
		cv.line([]point{{left, top}, {right, top}, {right, bottom}, {left, bottom}, {left, top}},
			stroke{color: color{ink, 0.6}, width: 1})
	}
	name := font{size: textSize, color: color{ink, 1}, anchor: "middle"}
	cv.text(point{left + float64(len(h.Columns))*w/2, bottom + below - 12}, h.XLabel, name)
	name.upright = true
	cv.text(point{edge + 9, (top + bottom) / 2}, h.YLabel, name)
	return h.Title, width, paragraph(cv, h.Note, bottom+below, width, font{size: textSize, color: color{muted, 1}}) + 6
}
