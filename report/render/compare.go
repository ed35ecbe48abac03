package render

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// comparisonTables are the tables of a comparison: one for each set-up and figure.
func comparisonTables(c *compare.Comparison) []table {
	var out []table
	title := func(p compare.Point) string { return fmt.Sprintf("%s: medians of %s in %s", p.Group, p.Figure, p.Unit) }
	for _, points := range plain.Grouped(c.Points, title) {
		t := table{Title: title(points[0]), keys: 1}
		t.Header = []string{
			"point", "old", "new", "change", stats.Percent(c.Confidence) + " interval", "p", "runs", "verdict",
		}
		if points[0].Pairs { // their change is the middle of their ratios, which the medians do not give
			t.Header[1], t.Header[2], t.Header[3] = "A", "B", "change in pairs"
		}
		for _, p := range points {
			between := "-"
			if in := p.Interval; in != nil {
				between = percent(in.Low) + "…" + percent(in.High)
			}
			row := []string{
				p.Row, middle(p.Old), middle(p.New), change(p), between, pValue(p.P), fmt.Sprintf("%d+%d", p.Old.N, p.New.N),
				p.String(),
			}
			if p.Pairs {
				row[6] = "" // the label tells the pairs
			}
			if p.Row == compare.Control {
				row[7] = cmp.Or(map[stats.Word]string{stats.Same: "same", stats.Better: "differs", stats.Worse: "differs"}[p.Word],
					"-")
			}
			t.Rows = append(t.Rows, row)
		}
		t.dropEmpty(1)
		out = append(out, t)
	}
	if len(c.Checks) > 0 {
		out = append(out, checkGrid(c.Checks))
	}
	return out
}

func middle(s stats.Summary) string {
	if s.N == 0 {
		return "-"
	}
	return plain.Number(s.Median)
}

// change is that of a point; "-": there is none.
func change(p compare.Point) string {
	if p.Cause == stats.NotFinite || p.Old.N == 0 || p.New.N == 0 {
		return "-"
	}
	return percent(p.Change)
}

// percent is a change in percent, or as a factor from elevenfold on.
func percent(v float64) string {
	if v >= 10 {
		return fmt.Sprintf("×%.0f", 1+v)
	}
	return fmt.Sprintf("%+.1f%%", 100*v)
}

func pValue(p float64) string {
	if p < 0.001 {
		return "<0.001"
	}
	return fmt.Sprintf("%.3f", p)
}

// sessions is the note on a difference between results of few sessions.
const sessions = "fewer than four sessions on a side: the runs of a session are alike, and two sessions of the same " +
	"test may differ by more. To know, use 'gobw ab', or give four sessions of each side: a.json,b.json,... c.json,..."

// mostAlone is how many points of one side alone are named.
const mostAlone = 3

// comparisonClosing are the lines below the tables: how points were judged, what would decide the open ones, which
// points only one side has, and what else changed.
func comparisonClosing(c *compare.Comparison) []string {
	points := slices.DeleteFunc(slices.Clone(c.Points), func(p compare.Point) bool { return p.Row == compare.Control })
	out := []string{fmt.Sprintf("same: within ±%s; better, worse: significant at %s", stats.Percent(c.Margin),
		stats.Percent(c.Confidence)) +
		plain.When(len(points) > 1, ", %d judged together (%s)", len(points), c.Procedure)}
	if c.Sessions &&
		slices.ContainsFunc(points, func(p compare.Point) bool { return p.Word == stats.Better || p.Word == stats.Worse }) {
		out = append(out, sessions)
	}
	for _, cause := range stats.Causes() {
		var open []compare.Point
		for _, p := range points {
			if p.Word == stats.CannotTell && p.Cause == cause {
				open = append(open, p)
			}
		}
		if len(open) > 0 {
			worst := slices.MaxFunc(open, func(a, b compare.Point) int { return cmp.Compare(a.WorseBy, b.WorseBy) })
			line := fmt.Sprintf("%s: %s", cause, worst.Reason)
			if len(points) > 1 {
				alike := !slices.ContainsFunc(open, func(p compare.Point) bool { return p.Reason != worst.Reason })
				line = fmt.Sprintf("%s: %d of %d points%s: %s", cause, len(open), len(points),
					plain.When(!alike, ". Worst point: '%s' (%s)", worst.Row, worst.Figure), worst.Reason)
			}
			most := slices.MaxFunc(open, func(a, b compare.Point) int { // "--runs 420" before "--runs 8"
				return cmp.Or(cmp.Compare(len(a.Settle), len(b.Settle)), strings.Compare(a.Settle, b.Settle))
			}).Settle
			if cause == stats.Disturbed && len(open) > 1 {
				most, _, _ = strings.Cut(most, "; with --accept")
				most += "; with --accept disturbed " + accepted(open)
			}
			out = append(out, line+plain.When(most != "", "; try %s", most))
		}
	}
	return slices.Concat(out, listed("only in old", plain.Each(c.OnlyOld, func(point string) string {
		return point + plain.When(c.Otherwise[point] != "", " (%s)", c.Otherwise[point])
	}), mostAlone), listed("only in new", c.OnlyNew, mostAlone), listed("not measured", c.Unseen, mostAlone),
		listed("left out", c.LeftOut, math.MaxInt), listed("INCOMPLETE", c.Incomplete, math.MaxInt),
		listed("NOT ALIKE", plain.Each(c.Unlike, compare.Difference.String), math.MaxInt),
		listed("changed", plain.Each(c.Changed, compare.Difference.String), math.MaxInt))
}

// accepted says how many points have which verdict if disturbed runs are accepted: "17 are 'better', 7 are 'cannot
// tell: unclear'".
func accepted(points []compare.Point) string {
	alike := plain.Grouped(points, func(p compare.Point) string { return p.Accepted.String() })
	return strings.Join(plain.Each(alike,
		func(of []compare.Point) string {
			is := cmp.Or(plain.When(len(of) == 1, "is"), "are")
			return fmt.Sprintf("%d %s '%s'", len(of), is, of[0].Accepted.String())
		}), ", ")
}

// listed are lines with the same head. After 'most' lines the rest is counted.
func listed(head string, lines []string, most int) []string {
	out := plain.Each(lines[:min(len(lines), most)], func(line string) string { return head + ": " + line })
	if more := len(lines) - most; more > 0 {
		out = append(out, fmt.Sprintf("%s: %d more", head, more))
	}
	return out
}

// ComparisonFormats are the formats of a comparison.
func ComparisonFormats() []string {
	return []string{"table", "markdown", "latex", "json"}
}

// Comparison writes a comparison in one of its formats.
func Comparison(w io.Writer, format string, c *compare.Comparison) error {
	closing := comparisonClosing(c)
	if _, quiet := w.(interface{ WithoutNotes() }); quiet {
		closing = slices.DeleteFunc(closing, func(line string) bool {
			return !strings.HasPrefix(line, "INCOMPLETE: ") && !strings.HasPrefix(line, "NOT ALIKE: ")
		})
	}
	return result{
		Labels: c.Labels, Tables: comparisonTables(c), Closing: closing, json: c,
	}.write(w, format)
}
