package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// grid is a table before it is written: what table, Markdown, LaTeX and HTML have in common.
type grid struct {
	title  string
	header []string // with units
	rows   [][]string
	notes  []string // below the table
	keys   int      // leading columns that tell rows apart: a terminal too narrow for the table gets it in parts, each with them
	prose  bool     // rows are sentences: on a terminal they are wrapped
}

// grids makes the tables of a document, one for each set-up. A row is a size: the only run's figures, or the medians.
func grids(d *Document) []grid {
	var out []grid
	for _, g := range groups(d.Records) {
		if g.setup.IsLatency() {
			out = append(out, latencyGrid(g))
		} else {
			out = append(out, bandwidthGrid(g))
		}
	}
	out = append(out, noncontigGrids(d)...)
	if len(d.Checks) > 0 {
		out = append(out, checkGrid(d.Checks))
	}
	return out
}

// column computes a cell; a column that is empty in all rows is left out.
type column struct {
	header string
	cell   func(r row) string
}

func build(title string, rows []row, columns []column) grid {
	g := grid{title: title, rows: make([][]string, len(rows)), keys: 1}
	for _, c := range columns {
		cells := make([]string, len(rows))
		empty := true
		for i, r := range rows {
			cells[i] = c.cell(r)
			empty = empty && cells[i] == ""
		}
		if empty {
			continue
		}
		g.header = append(g.header, c.header)
		for i := range rows {
			if cells[i] == "" {
				cells[i] = "-"
			}
			g.rows[i] = append(g.rows[i], cells[i])
		}
	}
	return g
}

// summary of one figure as two cells' worth: the median, and the interval where there is one.
func medianOf(f func(*Record) (float64, bool), scale float64) func(row) string {
	return func(r row) string {
		vs := r.values(f)
		if len(vs) == 0 {
			return ""
		}
		return number(Summarize(vs, DefaultConfidence).Median * scale)
	}
}

func intervalOf(f func(*Record) (float64, bool), scale float64) func(row) string {
	return func(r row) string {
		s := Summarize(r.values(f), DefaultConfidence)
		if s.Interval == nil {
			return ""
		}
		return number(s.Interval.Low*scale) + "…" + number(s.Interval.High*scale)
	}
}

func averageBits(r *Record) (float64, bool) { return r.Bandwidth.AverageBitsPerS, true }
func peakBits(r *Record) (float64, bool) {
	return r.Bandwidth.PeakBitsPerS, r.Bandwidth.PeakBitsPerS > 0
}
func messageRate(r *Record) (float64, bool) { return r.MessagesPerS, r.MessagesPerS > 0 }
func delivered(r *Record) (float64, bool) {
	if r.Delivered == nil {
		return 0, false
	}
	return *r.Delivered, true
}

// loopNs is what the measuring loop spent on a message at this end, where --cpu-time counted it.
func loopNs(r *Record) (float64, bool) {
	if r.CPU == nil {
		return 0, false
	}
	ns := r.CPU.PackNsPerMessage + r.CPU.UnpackNsPerMessage + r.CPU.PostNsPerMessage + r.CPU.PollNsPerMessage
	return ns, ns > 0
}

func medianLatency(r *Record) (float64, bool) {
	if r.Latency == nil {
		return 0, false
	}
	return r.Latency.P50Ns, true
}

// latencyCell shows one figure of a row's latency in microseconds.
func latencyCell(f func(*Latency) *float64) func(row) string {
	return func(r row) string {
		l := r.latency()
		if l == nil {
			return ""
		}
		v := f(l)
		if v == nil {
			return ""
		}
		return number(*v / 1e3)
	}
}

// noteHeader is above the column that refers to the notes below a table.
const noteHeader = "note"

func sizeColumn() column {
	return column{"bytes", func(r row) string { return strconv.FormatUint(r.size, 10) }}
}

// runsColumn tells how many runs a row is the median of; where all rows have as many, the title says it.
func runsColumn(g group) column {
	return column{"runs", func(r row) string {
		if len(r.runs) < 2 || g.sameRuns() {
			return ""
		}
		return strconv.Itoa(len(r.runs))
	}}
}

func (g group) sameRuns() bool {
	return !slices.ContainsFunc(g.rows, func(r row) bool { return len(r.runs) != len(g.rows[0].runs) })
}

// sameSamples is how many samples each row of a latency test has, 0 if they differ.
func (g group) sameSamples() uint64 {
	n := uint64(0)
	for i, r := range g.rows {
		l := r.latency()
		if l == nil || i > 0 && l.Samples != n {
			return 0
		}
		n = l.Samples
	}
	return n
}

// repetitions is what a title says of the runs.
func (g group) repetitions() string {
	n := len(g.rows[0].runs)
	switch {
	case n < 2 || !g.sameRuns():
		return ""
	case Summarize(make([]float64, n), DefaultConfidence).Interval == nil:
		return fmt.Sprintf(", medians of %d runs", n)
	}
	return fmt.Sprintf(", medians of %d runs with 95 %% intervals", n)
}

func bandwidthGrid(g group) grid {
	marks := &noteMarks{}
	title := g.setup.Title()
	if every := g.signaled(); every != "1" {
		title += ", signaled every " + every
	}
	title += g.repetitions() + g.verified()
	out := build(title, g.rows, []column{
		sizeColumn(),
		runsColumn(g),
		{"peak Gb/s", medianOf(peakBits, 1e-9)},
		{"Gb/s", medianOf(averageBits, 1e-9)},
		{"interval", intervalOf(averageBits, 1e-9)},
		{"MiB/s", medianOf(averageBits, 1.0/8/(1<<20))},
		{"Mmsg/s", medianOf(messageRate, 1e-6)},
		{"delivered %", medianOf(delivered, 100)},
		{"p50 us", latencyCell(func(l *Latency) *float64 { return &l.P50Ns })},
		{"p99 us", latencyCell(func(l *Latency) *float64 { return l.P99Ns })},
		{"cpu ns/msg", medianOf(loopNs, 1)},
		{noteHeader, func(r row) string { return marks.cell(r, averageBits) }},
	})
	out.notes = marks.lines()
	return out
}

func latencyGrid(g group) grid {
	title := g.setup.Title()
	if g.setup.HalfTrip {
		title += "; half round trip in us"
	} else {
		title += "; full round trip in us"
	}
	samples := g.sameSamples()
	if samples > 0 {
		title += fmt.Sprintf(", %d samples", samples)
	}
	title += g.repetitions() + g.verified()
	marks := &noteMarks{}
	out := build(title, g.rows, []column{
		sizeColumn(),
		runsColumn(g),
		{"samples", func(r row) string {
			if l := r.latency(); l != nil && samples == 0 {
				return strconv.FormatUint(l.Samples, 10)
			}
			return ""
		}},
		{"min", latencyCell(func(l *Latency) *float64 { return &l.MinNs })},
		{"p50", latencyCell(func(l *Latency) *float64 { return &l.P50Ns })},
		{"interval", intervalOf(medianLatency, 1e-3)},
		{"p90", latencyCell(func(l *Latency) *float64 { return l.P90Ns })},
		{"p99", latencyCell(func(l *Latency) *float64 { return l.P99Ns })},
		{"p99.9", latencyCell(func(l *Latency) *float64 { return l.P999Ns })},
		{"p99.99", latencyCell(func(l *Latency) *float64 { return l.P9999Ns })},
		{"max", latencyCell(func(l *Latency) *float64 { return &l.MaxNs })},
		{"mean", latencyCell(func(l *Latency) *float64 { return &l.MeanNs })},
		{"stdev", latencyCell(func(l *Latency) *float64 { return &l.StdevNs })},
		{"cpu ns/msg", medianOf(loopNs, 1)},
		{noteHeader, func(r row) string { return marks.cell(r, medianLatency) }},
	})
	out.notes = marks.lines()
	return out
}

// noteMarks numbers the warnings of a table's rows: the row shows the first word, the note below it the whole. Warnings
// that differ in their figures only share a note, which shows the first.
type noteMarks struct{ notes []note }

type note struct {
	kind  string // the text without figures
	text  string
	count int
}

// cell is a row's: the warnings of its runs, and what is to be said of the figure over all of them.
func (m *noteMarks) cell(r row, figure func(*Record) (float64, bool)) string {
	var words []string
	var numbers []int
	warnings := Conditions{RunValues: r.values(figure)}.Warnings()
	for _, rec := range r.runs {
		warnings = append(warnings, rec.Warnings...)
	}
	for _, w := range warnings {
		at := m.at(w)
		m.notes[at].count++
		if !slices.Contains(numbers, at+1) {
			numbers = append(numbers, at+1)
		}
		if word := firstWord(w); !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	switch len(words) {
	case 0:
		return ""
	case 1:
		return words[0] + " [" + ranges(numbers) + "]"
	}
	return words[0] + "… [" + ranges(numbers) + "]"
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

// lines are the notes to write below the table.
func (m *noteMarks) lines() []string {
	var out []string
	for _, n := range m.notes {
		if n.count > 1 {
			n.text += fmt.Sprintf(" (the first of %d like it)", n.count)
		}
		out = append(out, n.text)
	}
	return out
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

func checkGrid(checks []Check) grid {
	g := grid{title: "expectations", header: []string{"verdict", "expectation", "point", "actual", "reason"}}
	reasons := false
	for _, c := range checks {
		verdict := "pass"
		if !c.Passed {
			verdict = "FAIL"
		}
		reasons = reasons || c.Reason != ""
		g.rows = append(g.rows, []string{verdict, c.Expression, c.Point, c.Actual, c.Reason})
	}
	if !reasons {
		g.header = g.header[:4]
		for i := range g.rows {
			g.rows[i] = g.rows[i][:4]
		}
	}
	return g
}

// number writes a figure with three or four significant digits and no exponent where people read tables.
func number(v float64) string {
	a := math.Abs(v)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case v == 0:
		return "0"
	case a >= 999.5:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.9995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a >= 0.09995:
		return strconv.FormatFloat(v, 'f', 3, 64)
	case a >= 0.00009995:
		return strconv.FormatFloat(v, 'f', 2-int(math.Floor(math.Log10(a*1.0005))), 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
