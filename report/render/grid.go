package render

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// grid is a table before it is written: what table, Markdown, LaTeX and HTML have in common.
type grid struct {
	title  string
	header []string // with units
	rows   [][]string
	above  []string // between title and table: what holds for most rows
	notes  []string // below the table
	keys   int      // leading columns that tell rows apart: a terminal too narrow for the table gets it in parts, each with them
	least  []int    // runes that columns take at least, so that a table is cut alike whatever its figures are; may be shorter
	prose  bool     // rows are sentences: on a terminal they are wrapped
}

// titled is the place of the table of a title, which is made where there is none.
func titled(tables *[]grid, title string, header ...string) int {
	at := slices.IndexFunc(*tables, func(g grid) bool { return g.title == title })
	if at < 0 {
		at = len(*tables)
		*tables = append(*tables, grid{title: title, keys: 1, header: header})
	}
	return at
}

// grids makes the tables of a document, one for each set-up. A row is a size: the only run's figures, or the medians.
func grids(d *report.Document) []grid {
	var out []grid
	for _, g := range figure.Groups(d.Records) {
		if g.Setup.IsLatency() {
			out = append(out, latencyGrid(g))
		} else {
			out = append(append(out, bandwidthGrid(g)), shareGrids(g)...)
		}
	}
	if d.Noncontig != nil {
		out = append(out, experiment{d.Noncontig}.grids()...)
	}
	if len(d.Scaling) > 0 {
		out = append(out, scalingGrid(d.Scaling))
	}
	if len(d.Checks) > 0 {
		out = append(out, checkGrid(d.Checks))
	}
	return out
}

// column computes a cell; a column that is empty in all rows is left out.
type column struct {
	header string
	cell   func(r figure.Row) string
}

func build(title string, rows []figure.Row, columns []column) grid {
	g := grid{title: title, rows: make([][]string, len(rows)), keys: 1}
	for _, c := range columns {
		g.header = append(g.header, c.header)
		for i, r := range rows {
			g.rows[i] = append(g.rows[i], cmp.Or(c.cell(r), "-"))
		}
	}
	g.dropEmpty(0)
	return g
}

// dropEmpty drops the columns, from one on, that hold nothing in any row.
func (g *grid) dropEmpty(from int) {
	for i := len(g.header) - 1; i >= from; i-- {
		if slices.ContainsFunc(g.rows, func(r []string) bool { return r[i] != "" && r[i] != "-" }) {
			continue
		}
		g.header = slices.Delete(g.header, i, i+1)
		for k := range g.rows {
			g.rows[k] = slices.Delete(g.rows[k], i, i+1)
		}
	}
}

// summary of one figure as two cells' worth: the median, and the interval where there is one.
func medianOf(f func(*report.Record) (float64, bool), scale float64) func(figure.Row) string {
	return func(r figure.Row) string {
		vs := r.Values(f)
		if len(vs) == 0 {
			return ""
		}
		return plain.Number(stats.Summarize(vs, stats.DefaultConfidence).Median * scale)
	}
}

func intervalOf(f func(*report.Record) (float64, bool), scale float64) func(figure.Row) string {
	return func(r figure.Row) string {
		s := stats.Summarize(r.Values(f), stats.DefaultConfidence)
		if s.Interval == nil {
			return ""
		}
		return plain.Number(s.Interval.Low*scale) + "…" + plain.Number(s.Interval.High*scale)
	}
}

// loopNs is what the measuring loop spent on a message at this end, where --cpu-time counted it.
func loopNs(r *report.Record) (float64, bool) {
	if r.CPU == nil {
		return 0, false
	}
	ns := r.CPU.PackNsPerMessage + r.CPU.UnpackNsPerMessage + r.CPU.PostNsPerMessage + r.CPU.PollNsPerMessage
	return ns, ns > 0
}

// latencyCell shows one figure of a row's latency in microseconds.
func latencyCell(f func(*report.Latency) *float64) func(figure.Row) string {
	return func(r figure.Row) string {
		l := r.Latency()
		if l == nil {
			return ""
		}
		v := f(l)
		if v == nil {
			return ""
		}
		return plain.Number(*v / 1e3)
	}
}

// reasonHeader is above the column of reasons: a terminal too narrow for them gets them below the table.
const reasonHeader = "reason"

// number is what stands before a note: what the rows refer to it by, where there is a column for that.
func (g grid) number(note int) string {
	if last := len(g.header) - 1; last < 0 || g.header[last] != noteHeader && g.header[last] != reasonHeader {
		return ""
	}
	return fmt.Sprintf("[%d] ", note+1)
}

// noteHeader is above the column that refers to the notes below a table.
const noteHeader = "note"

func sizeColumn() column {
	return column{"bytes", func(r figure.Row) string { return strconv.FormatUint(r.Size, 10) }}
}

// runsColumn tells how many runs a row is the median of; where all rows have as many, the title says it.
func runsColumn(g figure.Group) column {
	return column{"runs", func(r figure.Row) string {
		if len(r.Runs) < 2 || sameRuns(g) {
			return ""
		}
		return strconv.Itoa(len(r.Runs))
	}}
}

func sameRuns(g figure.Group) bool {
	return !slices.ContainsFunc(g.Rows, func(r figure.Row) bool { return len(r.Runs) != len(g.Rows[0].Runs) })
}

// sameSamples is how many samples each row of a latency test has, 0 if they differ.
func sameSamples(g figure.Group) uint64 {
	n := uint64(0)
	for i, r := range g.Rows {
		l := r.Latency()
		if l == nil || i > 0 && l.Samples != n {
			return 0
		}
		n = l.Samples
	}
	return n
}

// repetitions is what a title says of the runs.
func repetitions(g figure.Group) string {
	n := len(g.Rows[0].Runs)
	switch {
	case n < 2 || !sameRuns(g):
		return ""
	case stats.Summarize(make([]float64, n), stats.DefaultConfidence).Interval == nil:
		return fmt.Sprintf(", medians of %d runs", n)
	}
	return fmt.Sprintf(", medians of %d runs with 95 %% intervals", n)
}

func bandwidthGrid(g figure.Group) grid {
	marks := &noteMarks{}
	title := g.Setup.Title()
	if every := g.Signaled(); every != "1" {
		title += ", signaled every " + every
	}
	title += repetitions(g)
	out := build(title, g.Rows, []column{
		sizeColumn(),
		runsColumn(g),
		{"peak Gb/s", medianOf(figure.PeakBits, 1e-9)},
		{"Gb/s", medianOf(figure.AverageBits, 1e-9)},
		{"interval", intervalOf(figure.AverageBits, 1e-9)},
		{"MiB/s", medianOf(figure.AverageBits, 1.0/8/(1<<20))},
		{"Mmsg/s", medianOf(figure.MessageRate, 1e-6)},
		{"delivered %", medianOf(figure.Delivered, 100)},
		{"p50 us", latencyCell(func(l *report.Latency) *float64 { return &l.P50Ns })},
		{"p99 us", latencyCell(func(l *report.Latency) *float64 { return l.P99Ns })},
		{"cpu ns/msg", medianOf(loopNs, 1)},
		{noteHeader, func(r figure.Row) string { return marks.cell(r, figure.AverageBits) }},
	})
	marks.finish(&out)
	return out
}

func latencyGrid(g figure.Group) grid {
	title := g.Setup.Title()
	if g.Setup.HalfTrip {
		title += "; half round trip in us"
	} else {
		title += "; full round trip in us"
	}
	samples := sameSamples(g)
	title += plain.When(samples > 0, ", %d samples", samples)
	title += repetitions(g)
	marks := &noteMarks{}
	out := build(title, g.Rows, []column{
		sizeColumn(),
		runsColumn(g),
		{"samples", func(r figure.Row) string {
			if l := r.Latency(); l != nil && samples == 0 {
				return strconv.FormatUint(l.Samples, 10)
			}
			return ""
		}},
		{"min", latencyCell(func(l *report.Latency) *float64 { return &l.MinNs })},
		{"p50", latencyCell(func(l *report.Latency) *float64 { return &l.P50Ns })},
		{"interval", intervalOf(figure.MedianLatency, 1e-3)},
		{"p90", latencyCell(func(l *report.Latency) *float64 { return l.P90Ns })},
		{"p99", latencyCell(func(l *report.Latency) *float64 { return l.P99Ns })},
		{"p99.9", latencyCell(func(l *report.Latency) *float64 { return l.P999Ns })},
		{"p99.99", latencyCell(func(l *report.Latency) *float64 { return l.P9999Ns })},
		{"max", latencyCell(func(l *report.Latency) *float64 { return &l.MaxNs })},
		{"mean", latencyCell(func(l *report.Latency) *float64 { return &l.MeanNs })},
		{"stdev", latencyCell(func(l *report.Latency) *float64 { return &l.StdevNs })},
		{"cpu ns/msg", medianOf(loopNs, 1)},
		{noteHeader, func(r figure.Row) string { return marks.cell(r, figure.MedianLatency) }},
	})
	marks.finish(&out)
	return out
}

// noteMarks numbers the warnings of a table's rows: the row shows the first word, the note below it the whole. Warnings
// that differ in their figures only share a note, which quotes the worst. A note of most rows stands once, above the table.
type noteMarks struct {
	notes []note
	rows  [][]int // the notes of each row
}

type note struct {
	kind  string // the text without figures
	text  string
	count int // of warnings
	rows  int
}

// cell keeps the warnings of a row's runs, and what is to be said of the figure over all of them; finish fills it in.
func (m *noteMarks) cell(r figure.Row, get func(*report.Record) (float64, bool)) string {
	warnings := figure.Conditions{RunValues: r.Values(get)}.Warnings()
	for _, rec := range r.Runs {
		warnings = append(warnings, rec.Warnings...)
	}
	var row []int
	for _, w := range warnings {
		at := m.at(w)
		n := &m.notes[at]
		n.count++
		if severity(w) > severity(n.text) {
			n.text = w
		}
		if !slices.Contains(row, at) {
			row = append(row, at)
			n.rows++
		}
	}
	m.rows = append(m.rows, row)
	if row == nil {
		return ""
	}
	return "noted"
}

// severity orders warnings that differ in their figures: by the share they tell, else by the first figure; of what is too short,
// the shortest.
func severity(warning string) float64 {
	fields := strings.Fields(warning)
	worst, found := 0.0, false
	for i, f := range fields {
		v, err := strconv.ParseFloat(strings.Trim(f, "±,;()"), 64)
		if share := err == nil && i+1 < len(fields) && strings.HasPrefix(fields[i+1], "%"); share {
			return v
		}
		if err == nil && !found {
			worst, found = v, true
		}
	}
	if strings.Contains(warning, "too short") {
		return -worst
	}
	return worst
}

// finish fills in the rows' notes, and puts those of most rows above the table.
func (m *noteMarks) finish(g *grid) {
	column := len(g.header) - 1
	if column < 0 || g.header[column] != noteHeader {
		return
	}
	number := make([]int, len(m.notes)) // 0: above
	for i, n := range m.notes {
		if len(g.rows) > 2 && 2*n.rows > len(g.rows) {
			where := fmt.Sprintf("%d of %d rows", n.rows, len(g.rows))
			if n.rows == len(g.rows) {
				where = "all rows"
			}
			g.above = append(g.above, fmt.Sprintf("%s: %s%s", where, n.text, n.ofMany()))
			continue
		}
		g.notes = append(g.notes, n.text+n.ofMany())
		number[i] = len(g.notes)
	}
	for i, row := range m.rows {
		var words []string
		var numbers []int
		for _, at := range row {
			if number[at] == 0 {
				continue
			}
			numbers = append(numbers, number[at])
			words = plain.AddNew(words, firstWord(m.notes[at].text))
		}
		switch len(words) {
		case 0:
			g.rows[i][column] = "-"
		case 1:
			g.rows[i][column] = words[0] + " [" + ranges(numbers) + "]"
		default:
			g.rows[i][column] = words[0] + "… [" + ranges(numbers) + "]"
		}
	}
	g.dropEmpty(column)
}

func (n note) ofMany() string {
	if n.count < 2 {
		return ""
	}
	return fmt.Sprintf(" (the worst of %d like it)", n.count)
}

// at is the place of a warning's note, which is made where there is none.
func (m *noteMarks) at(warning string) int {
	kind := strings.Map(func(r rune) rune {
		if strings.ContainsRune("0123456789.", r) {
			return -1
		}
		return r
	}, warning)
	at := slices.IndexFunc(m.notes, func(n note) bool { return n.kind == kind })
	if at < 0 {
		at = len(m.notes)
		m.notes = append(m.notes, note{kind: kind, text: warning})
	}
	return at
}

// firstWord is what a warning says before its colon; a peer's says whose it is.
func firstWord(warning string) string {
	word, rest, _ := strings.Cut(warning, ": ")
	if word == "peer" {
		next, _, _ := strings.Cut(rest, ":")
		word += " " + next
	}
	if len(word) > 20 {
		return "see"
	}
	return word
}

// ranges writes ascending numbers as 1,3-5.
func ranges(numbers []int) string {
	slices.Sort(numbers)
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		switch j {
		case i:
			parts = append(parts, strconv.Itoa(numbers[i]))
		case i + 1:
			parts = append(parts, strconv.Itoa(numbers[i]), strconv.Itoa(numbers[j]))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", numbers[i], numbers[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

func checkGrid(checks []report.Check) grid {
	g := grid{title: "expectations", header: []string{"verdict", "expectation", "point", "actual", reasonHeader}, keys: 2}
	for _, c := range checks {
		verdict := "pass"
		if !c.Passed {
			verdict = "FAIL"
		}
		g.rows = append(g.rows, []string{verdict, c.Expression, c.Point, c.Actual, c.Reason})
	}
	g.dropEmpty(4)
	return g
}
