package render

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/qualify"
	"github.com/gobw/gobw/report/stats"
)

// outcomes has a row for each expectation of each test: the figure, and its distance from the limit. If all points of a
// test meet an expectation, there is one row, of the point nearest to the limit.
func outcomes(q *qualify.Qualification) table {
	g := table{Header: []string{"test", "s", "verdict", "expected", "found", "margin"}, keys: 4}
	remedy, longest := "", 0.0
	for i := range q.Tests {
		t := &q.Tests[i]
		if t.Outcome == qualify.Skipped { // a line below tells of them
			continue
		}
		took := fmt.Sprintf("%.1f", t.Seconds)
		checks := nearest(t)
		for j, c := range checks {
			row := []string{t.Name, took, c.Shown(), c.Expression, c.Actual, "-"}
			if c.Margin != nil && c.Word != stats.CannotTell {
				// beyond, the share says nothing more
				row[5] = cmp.Or(plain.When(*c.Margin > 10, ">10×"), plain.When(*c.Margin < -10, "<-10×"), percent(*c.Margin))
			}
			if j > 0 {
				row[0], row[1] = "", ""
			}
			g.Rows = append(g.Rows, row)
		}
		if len(checks) == 0 {
			g.Rows = append(g.Rows, []string{t.Name, took, shown(t.Outcome), "-", "-", "-"})
		}
		if t.Disturbed() {
			g.Notes, remedy = append(g.Notes, t.Name), figure.Calmer(t.Document)
			for _, r := range t.Document.Measured() {
				longest = max(longest, r.Seconds)
			}
		}
	}
	if len(g.Notes) > 0 {
		names := strings.Join(g.Notes, ", ")
		if len(g.Notes) == len(q.Tests) {
			names = "all tests"
		}
		shorter := plain.When(longest > figure.RealtimeSeconds,
			", with --runs 21 and tests of at most %g s: -D 900ms in a plan of your own (--print)", figure.RealtimeSeconds)
		g.Notes = []string{"disturbed: " + names + "; try " + remedy + shorter}
	}
	return g
}

// shown is an outcome for people: capitals unless the test passed or was skipped.
func shown(o qualify.Outcome) string {
	if o == stats.Pass || o == qualify.Skipped {
		return string(o)
	}
	return strings.ToUpper(string(o))
}

// nearest are the checks of a test. Of several points that pass the same expectation it has the one nearest to the
// limit.
func nearest(t *qualify.Result) []report.Check {
	if t.Document == nil {
		return nil
	}
	var out []report.Check
	points := map[string]int{}
	for _, c := range t.Document.Checks {
		at := slices.IndexFunc(out, func(o report.Check) bool { return o.Expression == c.Expression && o.Word == stats.Pass })
		switch {
		case c.Word != stats.Pass || at < 0:
			out = append(out, c)
		case c.Margin != nil && (out[at].Margin == nil || *c.Margin < *out[at].Margin):
			out[at] = c
		}
		if c.Word == stats.Pass {
			points[c.Expression]++
		}
	}
	for i := range out {
		if n := points[out[i].Expression]; n > 1 && out[i].Word == stats.Pass {
			_, name, _ := strings.Cut(out[i].Point, ": ")
			out[i].Actual += fmt.Sprintf(" (%snearest of %d to the limit)", plain.When(name != "", "%s, ", name), n)
		}
	}
	return out
}

// reasons say why tests did not pass. Tests that fail for the same reason share a line.
func reasons(q *qualify.Qualification) []string {
	var texts, out []string
	tests, skipped := map[string][]string{}, map[string]int{}
	add := func(test, text string) {
		if len(tests[text]) == 0 {
			texts = append(texts, text)
		}
		tests[text] = append(tests[text], test)
	}
	for i := range q.Tests {
		t := &q.Tests[i]
		switch {
		case t.Outcome == qualify.Skipped:
			skipped[t.Reason]++
		case t.Reason != "":
			add(t.Name+plain.When(t.Outcome == qualify.Broken, " (%s)", t.Command), t.Reason)
		}
		if t.Document == nil {
			continue
		}
		// What a program that failed has not printed is no reason of its own.
		failed := slices.ContainsFunc(t.Document.Checks, func(c report.Check) bool {
			return c.Word != stats.Pass && strings.HasPrefix(c.Expression, "exit ")
		})
		for _, c := range t.Document.Checks {
			if c.Word != stats.Pass && (!failed || c.Actual != "none") {
				at, what := plain.When(c.Point != "all", " at %s", c.Point), c.Expression
				if t.Document.Program != nil && c.Actual == "none" { // whatever the limit is
					what, _, _ = strings.Cut(what, " ")
				}
				add(t.Name, fmt.Sprintf("%s%s: %s", what, at, cmp.Or(c.Why(), c.Actual)))
			}
		}
	}
	for _, text := range texts {
		out = append(out, strings.Join(tests[text], ", ")+": "+text)
	}
	for _, reason := range slices.Sorted(maps.Keys(skipped)) {
		out = append(out, plain.Plural(skipped[reason], "test")+" skipped: "+reason)
	}
	if n := q.LeftOut(); n > 0 {
		out = append(out, fmt.Sprintf("%d of the plan's expectations left out on request (--leave-out)", n))
	}
	return out
}

// QualificationFormats are the formats of a qualification.
func QualificationFormats() []string {
	return []string{"table", "json", "junit", "html", "markdown", "openmetrics"}
}

// Qualification writes a qualification in one of its formats.
func Qualification(w io.Writer, format string, q *qualify.Qualification) error {
	whole := *q
	whole.Schema, whole.Tests = report.QualificationSchema, slices.Clone(q.Tests)
	for i := range whole.Tests {
		if d := whole.Tests[i].Document; d != nil {
			whole.Tests[i].Document = d.Fitting()
		}
	}
	r := result{
		Tables: []table{outcomes(q)}, Closing: reasons(q), Verdict: q.Summary(), Good: q.Outcome == stats.Pass,
		json: &whole, docs: q.Documents(), qualification: q,
	}
	r.Labels = slices.DeleteFunc([]string{q.Name, q.Label}, func(s string) bool { return s == "" })
	switch format {
	case "junit":
		r.Title = "gobw qualify " + q.Plan
	case "html":
		r.Title = "plan " + q.Plan
	}
	return r.write(w, format)
}

// Grade is how one of many did: a line of what [Grades] writes.
type Grade struct{ Name, Verdict, Reason string }

// GradeOf is what a qualification says of the one who is named by its label.
func GradeOf(q *qualify.Qualification) Grade {
	return Grade{q.Name, string(q.Outcome), strings.Join(reasons(q), "; ")}
}

// Grades writes CSV.
func Grades(w io.Writer, grades []Grade) error {
	out := csv.NewWriter(w)
	err := out.Write([]string{"name", "verdict", "reason"})
	for _, g := range grades {
		err = errors.Join(err, out.Write(plain.Each([]string{g.Name, g.Verdict, g.Reason}, plain.CSV)))
	}
	out.Flush()
	return errors.Join(err, out.Error())
}

// qualificationSuites has a suite for each test, with a case for each expectation. A broken test has an error; a test
// that did not run is skipped.
func qualificationSuites(q *qualify.Qualification) []suite {
	var out []suite
	for _, t := range q.Tests {
		var d report.Document
		if t.Document != nil {
			d = *t.Document
		}
		d.Description, d.Complete = t.Name, true // a failure is written below, in the test's own words
		s := suiteOf(&d)
		s.Time = seconds(t.Seconds)
		run := testCase{Name: "run", Time: s.Time}
		switch t.Outcome {
		case qualify.Broken:
			run.Reason = because("error", "error", t.Reason+" ("+t.Command+")")
		case qualify.Skipped:
			run.Reason = because("skipped", "", t.Reason)
		default:
		}
		if run.Reason != nil || len(s.Cases)+len(t.LeftOut) == 0 {
			s.Cases = append(s.Cases, run)
		}
		for _, e := range t.LeftOut {
			s.Cases = append(s.Cases,
				testCase{Name: e, Time: seconds(0), Reason: because("skipped", "", "left out on request (--leave-out)")})
		}
		for i := range s.Cases {
			s.Cases[i].Classname = q.Plan + "." + t.Name
		}
		out = append(out, s)
	}
	return out
}
