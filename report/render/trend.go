package render

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/plot"
	"github.com/gobw/gobw/report/stats"
	"github.com/gobw/gobw/report/trend"
)

// TrendFormats are the formats of a trend.
func TrendFormats() []string {
	return []string{"table", "markdown", "latex", "html", "json", "svg"}
}

// Trend writes a trend and, below it, the comparison of new results with old ones, if there is one.
func Trend(w io.Writer, format string, t *trend.Trend, since *compare.Comparison) error {
	changes := 0
	for i := range t.Series {
		changes += len(t.Series[i].Changes)
	}
	r := result{
		trend: t,
		Title: "trend of " + plain.Plural(t.Results, "result"), Labels: t.Labels, Tables: trendTables(t),
		Closing: trendClosing(t, since == nil),
		json: struct {
			*trend.Trend
			Since *compare.Comparison `json:"since,omitempty"`
		}{t, since},
	}
	if since != nil {
		for _, changed := range comparisonTables(since) {
			changed.Title = "new results against old: " + changed.Title
			r.Tables = append(r.Tables, changed)
		}
		r.Closing = slices.Concat(r.Closing, comparisonClosing(since), reference(t))
	}
	if format == "html" {
		r.Verdict, r.Good = fmt.Sprintf("%s in %d series.", plain.Plural(changes, "change"), len(t.Series)), changes == 0
	}
	return r.write(w, format)
}

// reference says what new results were compared with, and how a person accepts a new state.
func reference(t *trend.Trend) []string {
	out := []string{"old: the results before the first change that nobody accepted"}
	if !t.Accepted.Since.IsZero() {
		out[0] += ", of those that were accepted: " + t.Accepted.String()
	}
	if t.Acceptable != nil {
		out = append(out,
			fmt.Sprintf("to accept the new state: --accept-since '%s REASON', or this date and a reason as a line in "+
				"DIR/accepted",
				day(*t.Acceptable)))
	}
	return out
}

// mostPictures is how many pictures a trend has: those of series that changed come first.
const mostPictures = 48

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// trendTables are the tables: one for each plan, set-up and figure; a row is a change, or a series without one.
func trendTables(t *trend.Trend) []table {
	var out []table
	title := func(s trend.Series) string {
		return fmt.Sprintf("%s: %s in %s", s.Group, s.Figure, s.Unit) + plain.When(s.Place != "", " (%s)", s.Place)
	}
	for _, series := range plain.Grouped(t.Series, title) {
		g := table{Title: title(series[0]), keys: 1}
		g.Header = []string{"point", "results", "last", "changed", "before", "after", "change", "verdict"}
		for _, s := range series {
			row := []string{s.Row, strconv.Itoa(len(s.Points)), plain.Number(s.Points[len(s.Points)-1].Value)}
			if len(s.Changes) == 0 {
				changed := cmp.Or(plain.When(len(s.Points) < trend.LeastResults, "needs %d results", trend.LeastResults), "never")
				g.Rows = append(g.Rows, append(row, changed, plain.Number(stats.Median(trend.Values(s.Points))), "-", "-", "-"))
			}
			for _, c := range s.Changes {
				g.Rows = append(g.Rows,
					append(slices.Clone(row), day(c.First), plain.Number(c.Old.Median), plain.Number(c.New.Median), percent(c.Change),
						c.String()))
			}
		}
		out = append(out, g)
	}
	return out
}

// mostTold is how many changes are told in words: the newest.
const mostTold = 20

// trendClosing are the lines below the tables: each change with the first result after it, newest first, and how
// changes were found. alone: no comparison follows, which would tell the margin.
func trendClosing(t *trend.Trend, alone bool) []string {
	type told struct {
		s *trend.Series
		c *trend.Change
	}
	var all []told
	for i := range t.Series {
		for j := range t.Series[i].Changes {
			all = append(all, told{&t.Series[i], &t.Series[i].Changes[j]})
		}
	}
	slices.SortStableFunc(all, func(a, b told) int { return b.c.First.Compare(a.c.First) })
	var out []string
	for i, x := range all {
		if i == mostTold {
			out = append(out, fmt.Sprintf("and %d changes before these", len(all)-i))
			break
		}
		line := []string{
			fmt.Sprintf("%s, first in %s: %s: %s (permutation test: p = %.2g)", x.c.First.Format("2006-01-02 15:04"), x.c.Name,
				x.s.Name(), x.c.InWords(), x.c.P),
		}
		for _, d := range x.c.Changed {
			line = append(line, d.String())
		}
		out = append(out, strings.Join(line, "; "))
	}
	out = append(out, fmt.Sprintf("%s from %s to %s; changes by E-divisive at %s, %d series judged together (%s)",
		plain.Plural(t.Results, "result"), day(t.From), day(t.To), stats.Percent(t.Confidence), len(t.Series), t.Procedure)+
		plain.When(alone, "; same: within ±%s", stats.Percent(t.Margin)))
	return slices.Concat(out, listed("INCOMPLETE", t.Incomplete, math.MaxInt), listed("left out", t.LeftOut, mostTold))
}

// trendPictures draws series over time, the most recently changed first: results as dots, states as levels, changes as
// lines.
func trendPictures(t *trend.Trend) []plot.Figure {
	order := make([]*trend.Series, len(t.Series))
	for i := range t.Series {
		order[i] = &t.Series[i]
	}
	newest := func(s *trend.Series) time.Time {
		if len(s.Changes) == 0 {
			return time.Time{}
		}
		return s.Changes[len(s.Changes)-1].First
	}
	slices.SortStableFunc(order, func(a, b *trend.Series) int { return newest(b).Compare(newest(a)) })
	return plain.Each(order[:min(mostPictures, len(order))], trendChart)
}

// dated is the shortest span whose axis is in dates. A shorter one also has the time of the day.
const dated = 6 * 24 * time.Hour

func trendChart(s *trend.Series) plot.Figure {
	const day = 86400
	x := func(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 / day }
	layout := "06-01-02"
	if s.Points[len(s.Points)-1].Time.Sub(s.Points[0].Time) < dated {
		layout = "01-02 15:04"
	}
	c := &plot.Chart{
		Title: title(s.Group), Subtitle: s.Row + " · " + s.Place,
		Y: plot.Axis{Label: s.Figure + plain.When(s.Unit != "", " (%s)", s.Unit)},
		X: plot.Axis{
			Label:  "measured (UTC)",
			Format: func(v float64) string { return time.UnixMilli(int64(v * day * 1000)).UTC().Format(layout) },
		},
	}
	quiet, disturbed := plot.Series{Name: "results", Shape: plot.Dots, Color: 1}, plot.Series{
		Name: "disturbed", Shape: plot.Dots, Color: 5,
	}
	for _, p := range s.Points {
		to := &quiet
		if p.Disturbed || p.Incomplete {
			to = &disturbed
		}
		to.X, to.Y = append(to.X, x(p.Time)), append(to.Y, p.Value)
	}
	level, bounds := plot.Series{Name: "state (median)", Shape: plot.Steps, Color: 2}, s.Segments()
	for i := range len(bounds) - 1 {
		points := s.Points[bounds[i]:bounds[i+1]]
		from, to := x(points[0].Time), x(points[len(points)-1].Time)
		m := stats.Median(trend.Values(points))
		level.X, level.Y = append(level.X, from, to, to), append(level.Y, m, m, math.NaN()) // a gap to the next
	}
	c.Series = slices.DeleteFunc([]plot.Series{quiet, disturbed, level}, func(s plot.Series) bool { return len(s.X) == 0 })
	for _, ch := range s.Changes {
		c.Marks = append(c.Marks, plot.Mark{Label: percent(ch.Change), X: x(ch.First)})
	}
	return c
}
