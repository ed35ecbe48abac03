package render

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/noncontig"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/plot"
	"github.com/gobw/gobw/report/stats"
)

// experiment is a grid as it is shown.
type experiment struct{ *noncontig.Grid }

// table of a message size: what cells of all strides have in common.
type noncontigTable struct {
	noncontig.Key // without its stride, where there are several
	cells         []noncontig.Cell
}

func (n experiment) parts() []noncontigTable {
	key := func(c noncontig.Cell) noncontig.Key {
		c.Stride = ""
		return c.Key
	}
	return plain.Each(plain.Grouped(n.Cells, key), func(cells []noncontig.Cell) noncontigTable {
		t := noncontigTable{cells[0].Key, cells}
		if slices.ContainsFunc(cells, func(c noncontig.Cell) bool { return c.Stride != t.Stride }) {
			t.Stride = ""
		}
		return t
	})
}

// strategies of the table's cells as they were measured, in the order of columns; those with fewest blocks lack some.
func (t noncontigTable) strategies() []string {
	var out []string
	most := func(a, b noncontig.Cell) int { return len(b.Strategies) - len(a.Strategies) }
	for _, c := range slices.SortedStableFunc(slices.Values(t.cells), most) {
		for _, f := range c.Strategies {
			out = plain.AddNew(out, f.Strategy)
		}
	}
	return out
}

// title says what was measured and under which circumstances.
func (n experiment) title(k noncontig.Key) string {
	s := fmt.Sprintf("%s of %s", noncontig.ShapeName(k.Shape), k.What())
	s += plain.When(k.Stride != "" && k.Stride != noncontig.AsGiven && k.Stride != noncontig.Scaled,
		", stride %s", k.Stride)
	return s
}

func (n experiment) circumstances() string {
	s := fmt.Sprintf("%s, %s cache, window %d", n.Setup.Transport, n.Setup.Cache, n.Setup.Window)
	s += plain.When(n.Setup.QPs > 1, ", %d QPs", n.Setup.QPs)
	s += plain.When(n.Setup.Events, ", events")
	s += plain.When(n.Setup.Priority != "", ", %s priority", n.Setup.Priority)
	return s
}

// tables are the tables of the experiment: for each message size the goodput of all strategies and the verdict, then
// latency and CPU time of the two that the question is about.
func (n experiment) tables() []table {
	var out []table
	parts := n.parts()
	for _, t := range parts {
		if t.cells[0].Listed() && t.given() {
			for i := range t.cells {
				out = append(out, n.roads(&t.cells[i]))
			}
			continue
		}
		out = append(out, n.goodputGrid(t))
	}
	for _, t := range parts {
		if t.cells[0].Listed() {
			continue
		}
		if g := n.costGrid(t); len(g.Rows) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// roads is the table of a list of descriptors: a row for each road.
func (n experiment) roads(c *noncontig.Cell) table {
	g := table{
		Title: fmt.Sprintf("%s of %s", c.Shape, c.Layout),
		Header: []string{
			"road", "Gb/s", "list us", "post us", "wait us", "requests", "entries", "B/request", "CPU s/GiB", "peer CPU s/GiB",
		},
		keys: 1,
	}
	if l := n.List; l != nil {
		g.Title += fmt.Sprintf(": %s of %s on average, %s in all", plain.Plural(l.Pieces, "piece"),
			plain.Bytes(float64(c.BlockBytes)), plain.Bytes(float64(l.Bytes)))
	}
	g.Title += "; " + n.circumstances()
	perGiB := func(nsPerByte float64) string { return known(nsPerByte, (1<<30)/1e9) }
	for _, f := range c.Strategies {
		g.Rows = append(g.Rows, []string{
			f.Strategy, plain.Number(f.Goodput.Median/1e9) + plain.When(f.Strategy == c.Winner, " "+winnerMark),
			known(f.ListNs, 1e-3), known(f.PostNs, 1e-3), known(max(f.ListNs-f.PostNs, 0), 1e-3), strconv.Itoa(f.WRs),
			strconv.Itoa(f.SGEs),
			plain.Number(float64(c.Bytes) / float64(max(f.WRs, 1))), perGiB(f.CPUNsPerByte), perGiB(f.PeerCPUNsPerByte),
		})
	}
	g.dropEmpty(g.keys)
	if c.Winner != "" {
		g.Notes = append(g.Notes, winnerMark+": the fastest road, not counting contiguous")
	}
	g.Notes = append(g.Notes, "list us: from the first post of a list to its last completion. post us: of these, "+
		"the CPU packs and posts; wait us: the rest")
	if slices.ContainsFunc(n.Points, func(p noncontig.Point) bool { return p.PeerUnpacks }) {
		g.Notes = append(g.Notes, "pack: the end that receives unpacks, too")
	}
	return g
}

// place is what tells a row from another, under its headings.
func (t noncontigTable) place(c *noncontig.Cell) (header, row []string) {
	if t.given() {
		return []string{"layout"}, []string{c.Layout}
	}
	if t.cells[0].Stride == noncontig.Scaled {
		return []string{"piece B", "list B"}, []string{strconv.FormatInt(c.BlockBytes, 10), strconv.FormatInt(c.Bytes, 10)}
	}
	header, row = []string{"block B", "blocks"}, []string{
		strconv.FormatInt(c.BlockBytes, 10), strconv.FormatInt(c.Blocks, 10),
	}
	if t.Count > 0 {
		header[1], row[1] = "message B", strconv.FormatInt(c.Bytes, 10)
	}
	if t.Stride == "" {
		header, row = append([]string{"stride"}, header...), append([]string{c.Stride}, row...)
	}
	return header, row
}

// given tells that the layouts were given one by one: each is named in full, as two may have the same blocks.
func (t noncontigTable) given() bool {
	return slices.ContainsFunc(t.cells, func(c noncontig.Cell) bool { return c.Stride == noncontig.AsGiven })
}

// grid is the table of a part with the columns that tell its rows apart.
func (n experiment) grid(t noncontigTable, what string) table {
	h, _ := t.place(&t.cells[0])
	return table{Title: n.title(t.Key) + "; " + n.circumstances() + ": " + what, Header: h, keys: len(h)}
}

func (n experiment) goodputGrid(t noncontigTable) table {
	g := n.grid(t, "goodput in Gb/s")
	device, cpu := t.cells[0].Sides()
	strategies := t.strategies()
	others := slices.DeleteFunc(slices.Clone(strategies), func(s string) bool { return s == device || s == cpu })
	// What the ratio is of stands beside it, so that a terminal too narrow for the table has all three in its first part.
	columns := slices.Concat([]string{device, cpu, ratioHeader}, others)
	g.Header = append(g.Header, columns...)
	for i := range t.cells {
		c := &t.cells[i]
		_, row := t.place(c)
		for _, column := range columns {
			cell := "-"
			if f := c.Find(column); f != nil {
				cell = plain.Number(f.Goodput.Median/1e9) + plain.When(column == c.Winner, " %s", winnerMark)
			} else if column == ratioHeader && c.Question != nil {
				cell = strings.TrimSpace(speedup(c.Question) + " " + verdictMark(c.Question))
			}
			row = append(row, cell)
		}
		g.Rows = append(g.Rows, row)
	}
	if g.dropEmpty(g.keys); slices.Contains(g.Header, ratioHeader) {
		g.Notes = append(g.Notes,
			fmt.Sprintf("ratio: goodput of %s / goodput of %s (median of all rounds); above 1: %[1]s is faster", device, cpu))
	}
	for _, m := range []struct{ mark, words string }{
		{winnerMark, "the fastest strategy of its row, not counting contiguous"},
		{sameMark, fmt.Sprintf("the same, within %.0f %%", 100*stats.DefaultMargin)},
		{openMark, "cannot tell whether they differ"},
	} {
		marked := func(cell string) bool { return strings.Contains(cell+" ", " "+m.mark+" ") }
		if slices.ContainsFunc(g.Rows, func(row []string) bool { return slices.ContainsFunc(row[g.keys:], marked) }) {
			g.Notes = append(g.Notes, m.mark+": "+m.words)
		}
	}
	if slices.Contains(strategies, noncontig.Pipelined) {
		g.Notes = append(g.Notes, noncontig.Pipelined+" packs and sends segments of whole blocks: "+
			plain.Bytes(float64(n.Setup.Segment()))+" at most, or one block")
	}
	return g
}

// ratioHeader is above the goodput of the device's way over that of the copy.
const ratioHeader = "ratio"

// Marks behind a goodput or a ratio.
const (
	winnerMark = "*"
	sameMark   = "≈"
	openMark   = "?"
)

// speedup is a ratio; empty where it cannot be true.
func speedup(j *noncontig.Judgement) string {
	return plain.When(j.Cause != stats.Impossible, "%.2f", j.Speedup)
}

func verdictMark(j *noncontig.Judgement) string {
	return map[stats.Word]string{stats.Same: sameMark, stats.CannotTell: openMark}[j.Word]
}

// known is a figure in a table's unit, where there is one.
func known(v, scale float64) string {
	return cmp.Or(plain.When(v != 0, "%s", plain.Number(v*scale)), "-")
}

// costGrid sets latency, CPU time and requests of the device's way and of the CPU's side by side.
func (n experiment) costGrid(t noncontigTable) table {
	device, cpu := t.cells[0].Sides()
	g := n.grid(t, fmt.Sprintf("cost of a message: first %s, then %s", device, cpu))
	g.Header = append(g.Header, "p50 us", "CPU ns/KiB", "peer CPU ns/KiB", "WRs", "SGEs")
	for i := range t.cells {
		c := &t.cells[i]
		a, b := c.Find(device), c.Find(cpu)
		if a == nil || b == nil {
			continue
		}
		pair := func(f func(*noncontig.Figure) string) string {
			if x, y := f(a), f(b); x != "-" && y != "-" {
				return x + "/" + y // a cell breaks at spaces
			}
			return "-"
		}
		_, row := t.place(c)
		row = append(row,
			// 0 of unreliable transports: the message has left, and no more is said
			pair(func(f *noncontig.Figure) string { return known(f.P50Ns, 1e-3) }),
			pair(func(f *noncontig.Figure) string { return plain.Number(f.CPUNsPerByte * 1024) }),
			pair(func(f *noncontig.Figure) string { return known(f.PeerCPUNsPerByte, 1024) }),
			pair(func(f *noncontig.Figure) string { return strconv.Itoa(f.WRs) }),
			pair(func(f *noncontig.Figure) string { return strconv.Itoa(f.SGEs) }))
		g.Rows = append(g.Rows, row)
	}
	g.dropEmpty(g.keys) // a one-sided peer counts nothing, an unreliable transport tells no latency
	for cut := range strings.SplitSeq(n.Setup.ListBytes, ", ") {
		strategy, text, _ := strings.Cut(cut, " ")
		most, _ := strconv.ParseInt(text, 10, 64)
		several, larger := false, false // blocks above the most are cut by the device's entries alone
		for i := range t.cells {
			if f := t.cells[i].Find(strategy); f != nil && f.WRs > 1 {
				several, larger = true, larger || t.cells[i].Bytes > most*int64(f.WRs)
			}
		}
		if strategy == device && several && !larger {
			g.Notes = append(g.Notes, fmt.Sprintf("%s: rows with several WRs have at most %d bytes per WR", device, most))
		}
	}
	return g
}

func (n experiment) subtitle(d *report.Document) string {
	return subtitle([]*report.Document{d},
		n.circumstances()+plain.When(n.Setup.Runs > 1, ", median of %d runs", n.Setup.Runs))
}

// pictures are a heat map per shape and message size, and a line chart per series.
func (n experiment) pictures(d *report.Document) []plot.Figure {
	var out []plot.Figure
	for _, t := range n.parts() {
		t.Stride = "" // the rows of the map
		if f := n.heatMap(d, t); f != nil {
			out = append(out, f)
		}
	}
	for _, cells := range n.Series() {
		if f := n.chart(d, cells); f != nil {
			out = append(out, f)
		}
	}
	return out
}

const fullStrength = 4 // a speed-up of this much has the strongest colour

// heatMap shows the speed-up of the device's way over the pack kernel for block size by stride.
func (n experiment) heatMap(d *report.Document, t noncontigTable) plot.Figure {
	var blocks []int64
	var strides []string
	judged := slices.DeleteFunc(slices.Clone(t.cells), func(c noncontig.Cell) bool { return c.Question == nil })
	for _, c := range judged {
		blocks, strides = plain.AddNew(blocks, c.BlockBytes), plain.AddNew(strides, c.Stride)
	}
	if len(blocks) < 2 || t.given() || t.cells[0].Listed() {
		return nil
	}
	slices.Sort(blocks)
	gather, copying := t.cells[0].Sides()
	h := &plot.HeatMap{
		Title: fmt.Sprintf("Speed-up of %s over %s, %s", gather, copying, n.title(t.Key)), Subtitle: n.subtitle(d),
		XLabel: "block size", YLabel: "stride",
		Categories: []string{gather + " is faster (above 1)", copying + " is faster (below 1)"},
		Columns:    plain.Each(blocks, func(b int64) string { return plain.Bytes(float64(b)) }),
		Rows:       plain.Each(strides, strideName),
	}
	h.Fill()
	drawn := map[string]bool{}
	for _, c := range judged {
		h.Cells[slices.Index(strides, c.Stride)][slices.Index(blocks, c.BlockBytes)] = speedupCell(&c)
		drawn[verdictMark(c.Question)] = true
	}
	h.Note = fmt.Sprintf("Full colour from %d× (or 1/%[1]d).", fullStrength) +
		plain.When(drawn[sameMark], " %s: the same within %.0f %%.", sameMark, 100*stats.DefaultMargin) +
		plain.When(drawn[openMark], " %s: cannot tell.", openMark)
	return h
}

// strideName is a stride with its unit: "2x" is "2x block", "4096" is "4096 B".
func strideName(stride string) string {
	if strings.HasSuffix(stride, "x") {
		return stride + " block"
	}
	return stride + " B"
}

func speedupCell(c *noncontig.Cell) plot.Cell {
	cell := plot.Cell{Text: speedup(c.Question)}
	cell.Hint = fmt.Sprintf("%s: %.3f, %s", c.Layout, c.Question.Speedup, c.Question.InWords())
	if mark := verdictMark(c.Question); mark != "" {
		cell.Text = strings.TrimSpace(cell.Text + " " + mark)
		return cell
	}
	cell.Category = 1
	if c.Question.Speedup < 1 {
		cell.Category = 2
	}
	cell.Strength = min(1, math.Abs(math.Log2(c.Question.Speedup))/math.Log2(fullStrength))
	return cell
}

// chart shows the goodput of all strategies over the block size, with intervals and the crossover.
func (n experiment) chart(d *report.Document, cells []noncontig.Cell) plot.Figure {
	k := cells[0].Key
	size := map[bool]string{true: "mean length of a piece", false: "block size"}[cells[0].Listed()]
	c := &plot.Chart{
		Title: "Goodput by " + size + ", " + n.title(k), Subtitle: n.subtitle(d), X: sizeAxis(size),
		Y: plot.Axis{Label: "goodput", Units: plain.BitsPerS, Scale: plot.Log10},
	}
	if len(cells) < 2 || k.Stride == noncontig.AsGiven {
		return nil
	}
	for _, strategy := range (noncontigTable{cells: cells}).strategies() {
		s := medians(len(cells), func(i int) (x float64, values []float64) {
			if f := cells[i].Find(strategy); f != nil {
				values = f.Goodputs
			}
			return float64(cells[i].BlockBytes), values
		})
		if s.Name = strategy; strategy == noncontig.Contiguous {
			s.Color = 5 // grey
		}
		c.Series = append(c.Series, s)
	}
	c.Note = bandsOf(c.Series)
	if x := n.CrossoverOf(k); x != nil {
		c.Marks = append(c.Marks, plot.Mark{Label: "crossover " + plain.Bytes(x.BlockBytes), X: x.BlockBytes})
	}
	return c
}
