package render

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/plot"
	"github.com/gobw/gobw/report/stats"
)

// hostMatrix is a test of many hosts as it is shown.
type hostMatrix struct{ *matrix.Matrix }

// mostBad bounds the verdicts, and the lines of notes, that people are shown; files have all.
const mostBad = 40

// tables are what is bad, the gravest first, then figures.
func (m hostMatrix) tables(d *report.Document) []table {
	var out []table
	bad := slices.DeleteFunc(slices.Clone(d.Checks), func(c report.Check) bool { return c.Word == stats.Pass })
	if len(bad) > 0 {
		g := checkGrid(bad[:min(len(bad), mostBad)])
		g.Title = "What is not good"
		if slices.ContainsFunc(bad, func(c report.Check) bool { return strings.Contains(c.Actual, "%") }) {
			g.Notes = append(g.Notes, "actual is the share of what was expected: busy, while other hosts measure; alone, "+
				"while no other host measures. In brackets: how many re-tests")
		}
		g.Title += plain.When(len(bad) > mostBad, "; the saved result has all %d", len(bad))
		out = append(out, g)
	}
	for _, g := range []table{m.incastGrid(), m.spreads()} {
		if len(g.Rows) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// closing tells what the run could see, the notes of hosts, and what to do.
func (m hostMatrix) closing(d *report.Document) []string {
	out := []string{m.Tested()}
	if len(m.Rounds) > 0 {
		out = append(out, fmt.Sprintf("It took %.1f s.", d.Finished.Sub(d.Started).Seconds()))
	}
	for _, h := range m.Hosts {
		out = append(out, plain.Each(h.Notes, func(note string) string { return "noted: " + h.Called() + ": " + note })...)
	}
	out = out[:min(len(out), mostBad)]
	if advice := m.advice(d); len(advice) > 0 {
		out = append(append(out, "What to do next"), advice...)
	}
	return out
}

// line is the verdict of all checks and the findings, in one line.
func (m hostMatrix) line(checks []report.Check) string {
	var kinds []string // of what was found, one for each
	for _, word := range []stats.Word{stats.Fail, stats.CannotTell} {
		for _, c := range checks {
			subject := string(matrix.SubjectOf(c.Expression))
			kind := strings.ReplaceAll(string(c.Cause), "-", " ") + " " + subject
			switch {
			case c.Word != word || c.Point == matrix.Run || c.Cause == stats.Incomplete:
				continue
			case subject != "":
			case word == stats.CannotTell:
				kind += "expectation"
			default:
				kind = "missed expectation"
			}
			kinds = append(kinds, kind)
		}
	}
	alike := plain.Grouped(kinds, func(k string) string { return k })
	parts := plain.Each(alike, func(same []string) string { return plain.Plural(len(same), same[0]) })
	switch {
	case len(parts) > 0:
	case m.Cells.Len() == 0:
		parts = append(parts, "nothing was measured")
	case m.Judged.HostPower == 0:
		parts = append(parts, fmt.Sprintf("too noisy (%s from one measurement to the next)", stats.Percent(m.Judged.Sigma)))
	default:
		parts = append(parts, "nothing bad found")
	}
	scheduled := len(m.Rounds) - m.Retests()
	if scheduled < m.Planned {
		parts = append(parts, fmt.Sprintf("after %d of %d rounds", scheduled, m.Planned))
	}
	word := stats.Gravest(plain.Each(checks, func(c report.Check) stats.Word { return c.Word })...)
	return fmt.Sprintf("%s: %s. %d of %s, %s, %s and %s.", strings.ToUpper(string(word)),
		strings.Join(parts, ", "), m.Took(),
		plain.Plural(len(m.Hosts), "host"), plain.Plural(len(m.Rails), "rail"), plain.Plural(scheduled, "round"),
		plain.Plural(m.Retests(), "re-test"))
}

// mostAdvice is how many pieces of advice there are, and how many hosts each names.
const mostAdvice = 8

// advice is what an operator does next: sentences, and indented commands to paste. Only hosts that are slow or dead on
// the data path are left out or drained: a host that was refused, did not come or was killed may be good. Commands have
// only names that are safe to paste.
func (m hostMatrix) advice(d *report.Document) []string {
	var named, order, out []string
	good, where := map[string]bool{}, map[string][]string{}
	for _, c := range d.Checks {
		good[c.Point] = good[c.Point] || c.Word == stats.Pass
	}
	for _, c := range d.Checks {
		subject := matrix.SubjectOf(c.Expression)
		if c.Word == stats.Pass || subject == "" && c.Point != matrix.Run {
			continue
		}
		proven := slices.Contains(matrix.OfTheDataPath(), c.Cause)
		failed := subject == matrix.WholeOf && c.Word == stats.Fail && !good[c.Point]
		if failed && proven && len(m.Rounds) > 0 && matrix.Pasteable(c.Point) {
			named = plain.AddNew(named, c.Point)
		}
		if c.Settle != "" {
			what := plain.When(c.Word == stats.CannotTell, "try ") + c.Settle
			order = plain.AddNew(order, what)
			where[what] = plain.AddNew(where[what], c.Point)
		}
	}
	if slices.Sort(named); len(named) > 0 {
		list := strings.Join(named, ",")
		if !strings.Contains(m.Launcher, "Slurm") {
			out = append(out, "To run without them, leave out:", "  "+list)
		} else {
			on := d.Started.UTC().Format(time.DateOnly)
			out = append(out, "For the next job:", "  --exclude="+list, "To drain (not run):",
				fmt.Sprintf("  scontrol update nodename=%s state=drain reason=\"gobw fabric %s\"", list, on))
		}
	}
	for _, what := range order[:min(len(order), mostAdvice)] {
		out = append(out, strings.Split(plain.Few(where[what], mostAdvice, "; ")+": "+what, "\n")...)
	}
	return out
}

// value is a cell's figure, in Gb/s or us.
func (m hostMatrix) value(v float64) string {
	if m.Latency {
		return plain.Number(v / 1e3)
	}
	return plain.Number(v / 1e9)
}

func (m hostMatrix) incastGrid() table {
	g := table{
		Title: "Incast (Gb/s)", Header: []string{"senders", "times", "receiver gets", "against one sender"}, keys: 1,
	}
	all := m.Incast()
	for _, i := range all {
		g.Rows = append(g.Rows, []string{
			strconv.Itoa(i.FanIn), strconv.Itoa(i.Receivers), m.value(i.Receiver),
			stats.Percent(i.Receiver / max(all[0].Receiver, 1)),
		})
	}
	if k := matrix.Knee(all); k > 0 {
		g.Notes = append(g.Notes, fmt.Sprintf("With %d senders or more, a receiver gets less than 90 %% of the best.", k))
	}
	return g
}

// spreads shows the scheduled cells in which a flow was measured alone, by rail and path.
func (m hostMatrix) spreads() table {
	g := table{
		Title:  "Bandwidth of a flow (Gb/s)",
		Header: []string{"path", "rail", "measurements", "least", "1 %", "median", "99 %", "most"}, keys: 2,
	}
	if m.Latency {
		g.Title = "Median latency of a pair (us)"
	}
	type class struct {
		rail int
		path string
	}
	c := &m.Cells
	of := func(i int) class { return class{c.Rail[i], m.Path(c.From[i], c.To[i])} }
	alone := slices.DeleteFunc(plain.UpTo(0, c.Len()),
		func(i int) bool { return !m.Scheduled(i) || m.Rounds[c.Round[i]].FanIn > 1 })
	classes := plain.Grouped(alone, of)
	slices.SortFunc(classes, func(a, b []int) int {
		return cmp.Or(cmp.Compare(c.Rail[a[0]], c.Rail[b[0]]), strings.Compare(of(a[0]).path, of(b[0]).path))
	})
	for _, cells := range classes {
		values := slices.Sorted(slices.Values(plain.Each(cells, func(i int) float64 { return c.Value[i] })))
		row := []string{of(cells[0]).path, m.Rail(c.Rail[cells[0]]), strconv.Itoa(len(values))}
		for _, share := range []float64{0, 0.01, 0.5, 0.99, 1} {
			row = append(row, m.value(values[min(int(share*float64(len(values))), len(values)-1)]))
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// pictures are a heat map for each rail.
func (m hostMatrix) pictures(d *report.Document) []plot.Figure {
	var out []plot.Figure
	subtitle := subtitle([]*report.Document{d})
	for rail := range m.Rails {
		if h := m.heatMap(rail); len(h.Rows) > 0 {
			h.Subtitle = subtitle
			out = append(out, h)
		}
	}
	return out
}

const (
	mostNumbered = 24   // hosts whose cells have room for a number
	mostPlaces   = 64   // rows of a heat map: of more hosts, neighbours share a row
	squareSide   = 14   // of a cell without a number
	darkest      = 0.5  // a share so far from what is expected has the full colour
	asExpected   = 0.03 // a share this near has none
)

// heatMap shows who sends (rows) to whom (columns), in the order of the hosts: the share of what is expected, in the
// scheduled rounds. Where hosts share a row, the worst of their cells is shown.
func (m hostMatrix) heatMap(rail int) *plot.HeatMap {
	order, place := m.rows()
	h := &plot.HeatMap{
		Title: "Share of what is expected (%), rail " + m.Rail(rail), XLabel: "receiver", YLabel: "sender", Rows: order,
		Columns:    order,
		Categories: []string{"faster", "slower than expected", "failed"},
		Note: fmt.Sprintf("Expected is the median of such paths, not the best. Grey within %.0f %% of it, "+
			"the full colour from %.0f %% away; white: not tested.", 100*asExpected, 100*darkest),
	}
	if len(order) < len(m.Hosts) {
		h.Note += " Neighbours share a row: the worst of their cells is shown."
	}
	if len(order) > mostNumbered {
		h.Square = squareSide
	}
	h.Fill()
	shares := map[[2]int][]float64{}
	c := &m.Cells
	for i := range c.Len() {
		r := m.Rounds[c.Round[i]]
		if c.Rail[i] != rail || c.State[i] == int(matrix.Void) || r.FanIn > 1 || r.Alone {
			continue
		}
		shares[[2]int{c.From[i], c.To[i]}] = append(shares[[2]int{c.From[i], c.To[i]}], c.Share[i])
	}
	worst := map[[2]int]float64{}
	for pair, of := range shares {
		at := [2]int{place[pair[0]], place[pair[1]]}
		share := stats.Median(of)
		if before, seen := worst[at]; seen && before <= share {
			continue
		}
		worst[at] = share
		h.Cells[at[0]][at[1]] = shareCell(share, m.Hosts[pair[0]].Called()+" -> "+m.Hosts[pair[1]].Called(), h.Square == 0)
	}
	if len(worst) == 0 {
		return &plot.HeatMap{}
	}
	return h
}

//nolint:revive // whether there is room for a number
func shareCell(share float64, where string, numbered bool) plot.Cell {
	c := plot.Cell{
		Hint: fmt.Sprintf("%s: %s of what is expected", where, stats.Percent(share)), Strength: math.Abs(share-1) / darkest,
	}
	if numbered {
		c.Text = fmt.Sprintf("%.0f", 100*share)
	}
	switch {
	case share == 0:
		c.Category, c.Strength, c.Hint = 3, 1, where+": failed"
	case share < 1-asExpected:
		c.Category = 2
	case share > 1+asExpected:
		c.Category = 1
	}
	return c
}

// rows are the names of the heat map's rows, and the row of each host.
func (m hostMatrix) rows() (names []string, row []int) {
	each := (len(m.Hosts) + mostPlaces - 1) / mostPlaces
	for i, h := range m.Hosts {
		if i%each == 0 {
			names = append(names, h.Called())
			if last := min(i+each, len(m.Hosts)) - 1; last > i {
				names[len(names)-1] += " … " + m.Hosts[last].Called()
			}
		}
		row = append(row, len(names)-1)
	}
	return names, row
}
