package render

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// tables are those of a document, one for each set-up. A row is a size: the only run's figures, or the medians.
func tables(d *report.Document) []table {
	if d.Fabric != nil {
		return hostMatrix{d.Fabric}.tables(d)
	}
	var out []table
	for _, g := range figure.Groups(d.Records) {
		if g.Setup.IsLatency() {
			out = append(out, latencyGrid(g))
		} else {
			out = append(append(out, bandwidthGrid(g)), shareGrids(g)...)
		}
	}
	if d.Noncontig != nil {
		out = append(out, experiment{d.Noncontig}.tables()...)
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

func build(title string, rows []figure.Row, columns []column) table {
	g := table{Title: title, Rows: make([][]string, len(rows)), keys: 1}
	for _, c := range columns {
		g.Header = append(g.Header, c.header)
		for i, r := range rows {
			g.Rows[i] = append(g.Rows[i], cmp.Or(c.cell(r), "-"))
		}
	}
	g.dropEmpty(0)
	return g
}

// medianOf shows a figure's median over the runs in its unit.
func medianOf(f figure.Figure) func(figure.Row) string { return medianIn(f, f.Scale) }

// inUnit is the figure in the largest unit that shows the smallest row with three decimal places.
func inUnit(f figure.Figure, rows []figure.Row, units []plain.Unit) figure.Figure {
	least := math.Inf(1)
	for _, r := range rows {
		if v, _ := r.Told(f); v > 0 {
			least = min(least, v)
		}
	}
	u := plain.Fitting(units, 1000*least)
	f.Unit, f.Scale = u.Name, 1/u.Of
	return f
}

func medianIn(f figure.Figure, scale float64) func(figure.Row) string {
	return func(r figure.Row) string {
		if v, has := r.Told(f); has {
			return plain.Number(v * scale)
		}
		return ""
	}
}

// intervalOf shows the interval of that median, where there is one.
func intervalOf(f figure.Figure) func(figure.Row) string {
	return func(r figure.Row) string {
		s := stats.Summarize(r.Values(f), stats.DefaultConfidence)
		if s.Interval == nil {
			return ""
		}
		return plain.Number(s.Interval.Low*f.Scale) + "…" + plain.Number(s.Interval.High*f.Scale)
	}
}

// loopColumn is the CPU time of the measuring loop per message at this end, with --cpu-time.
func loopColumn() column {
	return column{"cpu ns/msg", medianOf(figure.New(1, func(r *report.Record) (float64, string) {
		if c := r.CPU; c != nil && c.PackNsPerMessage+c.UnpackNsPerMessage+c.PostNsPerMessage+c.PollNsPerMessage > 0 {
			return c.PackNsPerMessage + c.UnpackNsPerMessage + c.PostNsPerMessage + c.PollNsPerMessage, ""
		}
		return 0, "not measured"
	}))}
}

// latencyColumns are columns of latency figures in microseconds: the named ones, or all.
func latencyColumns(names ...string) []column {
	var out []column
	for _, f := range report.LatencyFigures() {
		if len(names) > 0 && !slices.Contains(names, f.Name) {
			continue
		}
		out = append(out, column{f.Name, medianOf(figure.Of(f.Name))})
		if f.Name == "p50" && len(names) == 0 {
			out = append(out, column{"interval", intervalOf(figure.Of(f.Name))})
		}
	}
	return out
}

// noteHeader is above the column of the kinds of notes below a table.
const noteHeader = "note"

func sizeColumn() column {
	return column{"bytes", func(r figure.Row) string {
		if r.Size == 0 { // a call that is about no memory
			return ""
		}
		return strconv.FormatUint(r.Size, 10)
	}}
}

// alike is the text of a cell if all rows have the same: then the title says it in place of a column. Empty: rows
// differ.
func alike(g figure.Group, cell func(figure.Row) string) string {
	first := cell(g.Rows[0])
	return plain.When(!slices.ContainsFunc(g.Rows, func(r figure.Row) bool { return cell(r) != first }), "%s", first)
}

// runs is how many runs a row is the median of.
func runs(r figure.Row) string { return strconv.Itoa(len(r.Runs)) }

// samples is how many samples a row of a latency test has.
func samples(r figure.Row) string {
	n, _ := r.Told(figure.Of("samples"))
	return plain.When(n > 0, "%.0f", n)
}

// unlessAlike is a column that is dropped if all rows have the same text.
func unlessAlike(g figure.Group, header string, cell func(figure.Row) string) column {
	if alike(g, cell) != "" {
		cell = func(figure.Row) string { return "" }
	}
	return column{header, cell}
}

// repetitions says in a title how many runs the rows have.
func repetitions(g figure.Group) string {
	n := len(g.Rows[0].Runs)
	if n < 2 || alike(g, runs) == "" {
		return ""
	}
	i := stats.Summarize(make([]float64, n), stats.DefaultConfidence).Interval
	if i == nil {
		return fmt.Sprintf(", medians of %d runs", n)
	}
	return fmt.Sprintf(", medians of %d runs with %s intervals", n, stats.Percent(i.Confidence))
}

func bandwidthGrid(g figure.Group) table {
	title := g.Setup.Title()
	if every := g.Signaled(); every != "message" {
		title += ", completion every " + every
	}
	title += repetitions(g)
	bw, rate := inUnit(figure.Of("bw"), g.Rows, plain.BitsPerS), inUnit(figure.Of("msgrate"), g.Rows, plain.MessagesPerS)
	columns := []column{
		sizeColumn(),
		unlessAlike(g, "runs", runs),
		{"peak " + bw.Unit, medianIn(figure.Of("peak"), bw.Scale)},
		{bw.Unit, medianOf(bw)},
		{"interval", intervalOf(bw)},
		{"MiB/s", medianIn(bw, 1.0/8/(1<<20))},
		{rate.Unit, medianOf(rate)},
		{"delivered %", medianOf(figure.Of("delivered"))},
	}
	for _, c := range latencyColumns("p50", "p99") {
		columns = append(columns, column{c.header + " us", c.cell})
	}
	return noted(title, g, bw, columns)
}

func latencyGrid(g figure.Group) table {
	title := g.Setup.Title()
	var calls []column
	switch {
	case g.Setup.RoundTripHalf:
		title += "; half round trip in us"
	case g.Setup.Operation == "ready": // the last step of 'golat connect', of all queue pairs together
		title += "; time until all are connected in us"
		calls = []column{{"QPs a second", medianIn(figure.Of("msgrate"), 1)}}
	case g.Setup.Transport == "":
		title += "; time of a call in us"
		calls = []column{{"a second", medianIn(figure.Of("msgrate"), 1)}}
	default:
		title += "; full round trip in us"
	}
	title += plain.When(alike(g, samples) != "", ", %s samples", alike(g, samples))
	title += repetitions(g)
	columns := append([]column{
		sizeColumn(),
		unlessAlike(g, "runs", runs),
		unlessAlike(g, "samples", samples),
	}, latencyColumns()...)
	columns = append(columns, calls...)
	return noted(title, g, figure.Of("p50"), columns)
}

// note is a warning of a row. Without a kind it is the text alone.
type note struct {
	kind, text string
	row        int
}

// cause is the same for notes that share a line below the table: the kind, and the text without numbers and remedy.
func (n note) cause() string {
	text, _, _ := strings.Cut(n.text, "; try ")
	switch {
	case n.kind == "":
		text = n.text
	case strings.Contains(text, "; a test needs "): // a time, or messages: the longest is enough for both
		text = ""
	}
	return n.kind + plain.WithoutNumbers(text)
}

// rank orders notes: counters of the device and the CPU quota come first, because they explain the others.
func (n note) rank() int {
	if n.kind == figure.Noisy && counted(n.text) > 0 || n.kind == figure.Others && strings.Contains(n.text, "CPU quota") {
		return 0
	}
	return 1
}

// counted is the number in a note of a device's counter: "resent_pkts by 3547: packets were sent again"; else 0.
func counted(text string) (n float64) {
	var name string
	_, _ = fmt.Sscanf(text, "%s by %g:", &name, &n)
	return n
}

// noted is a table with a last column of the kinds of notes, and a line below it for each cause. The line quotes the
// worst note of both ends. of is the figure whose runs may differ.
func noted(title string, g figure.Group, of figure.Figure, columns []column) table {
	var all []note
	row := 0
	t := build(title, g.Rows, append(columns, loopColumn(), column{noteHeader, func(r figure.Row) string {
		row++
		warnings := figure.Conditions{RunValues: r.Values(of)}.Warnings()
		for _, rec := range r.Runs {
			warnings = append(warnings, rec.Warnings...)
			if why := of.Impossible(rec); why != "" {
				warnings = plain.AddNew(warnings, figure.Impossible+": "+why)
			}
		}
		var kinds []string
		for _, w := range warnings {
			kind, text := figure.NoteOf(w)
			all = append(all, note{kind, text, row})
			kinds = plain.AddNew(kinds, cmp.Or(kind, plain.When(strings.HasPrefix(text, incomplete), "incomplete"), "see below"))
		}
		return strings.Join(kinds, ", ")
	}}))
	slices.SortStableFunc(all, func(a, b note) int { return cmp.Compare(a.rank(), b.rank()) })
	for _, same := range plain.Grouped(all, note.cause) {
		rows := len(plain.Grouped(same, func(n note) int { return n.row }))
		slices.SortStableFunc(same, func(a, b note) int { return cmp.Compare(severity(b.text), severity(a.text)) })
		text := same[0].text
		for _, n := range same {
			// of a row that has no better one
			if _, remedy, has := strings.Cut(n.text, "; try "); has && !strings.Contains(text, "; ") {
				text += "; try " + remedy
			}
		}
		seen := plain.When(row > 1, " (%d of %d rows)", rows, row)
		t.Notes = append(t.Notes, cmp.Or(plain.When(same[0].kind != "", "%s%s: %s", same[0].kind, seen, text), text+seen))
	}
	return t
}

// incomplete begins the warning of a run that ended early.
const incomplete = "incomplete: "

// severity orders texts of one cause by their number or share, or else by the length that they advise: the longest is
// enough.
func severity(text string) float64 {
	if n := counted(text); n > 0 {
		return n
	}
	fields := strings.Fields(text)
	for i, f := range fields[:max(len(fields)-1, 0)] {
		if v, err := strconv.ParseFloat(strings.Trim(f, "±,;"), 64); err == nil && strings.HasPrefix(fields[i+1], "%") {
			return v
		}
	}
	_, remedy, _ := strings.Cut(text, "; try -")
	var flag rune
	var length float64
	if n, _ := fmt.Sscanf(remedy, "%c %g", &flag, &length); n == 2 {
		return length
	}
	return math.Inf(-1)
}

func checkGrid(checks []report.Check) table {
	g := table{Title: "expectations", Header: []string{"verdict", "expectation", "point", "actual", noteHeader}, keys: 2}
	for _, c := range checks {
		g.Rows = append(g.Rows, []string{c.Shown(), c.Expression, c.Point, c.Actual, g.note(c.Reason)})
	}
	g.dropEmpty(4)
	return g
}
