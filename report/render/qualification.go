package render

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/internal/junit"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/qualify"
)

// shown is an outcome as people read it: what is not well in capitals.
func shown(o qualify.Outcome) string {
	switch o {
	case qualify.Failed, qualify.Broken:
		return strings.ToUpper(string(o))
	case qualify.Passed, qualify.Skipped:
	}
	return string(o)
}

func verdicts(q *qualify.Qualification) grid {
	g := grid{title: "verdicts", header: []string{"verdict", "test", "s", "expectations", "reason"}}
	for _, t := range q.Tests {
		met, all := 0, 0
		if t.Document != nil {
			all = len(t.Document.Checks)
			for _, c := range t.Document.Checks {
				if c.Passed {
					met++
				}
			}
		}
		expectations := "-"
		if all > 0 {
			expectations = fmt.Sprintf("%d of %d met", met, all)
		}
		if n := len(t.LeftOut); n > 0 {
			expectations = strings.TrimPrefix(expectations+fmt.Sprintf(", %d left out", n), "-, ")
		}
		took := "-"
		if t.Outcome != qualify.Skipped {
			took = fmt.Sprintf("%.1f", t.Seconds)
		}
		g.rows = append(g.rows, []string{shown(t.Outcome), t.Name, took, expectations, t.Reason})
	}
	g.dropEmpty(4)
	return g
}

// missed lists the expectations that were missed, with the figures.
func missed(q *qualify.Qualification) grid {
	g := grid{title: "missed", header: []string{"test", "expectation", "point", "actual", "reason"}}
	for t, c := range checks(q) {
		if !c.Passed {
			g.rows = append(g.rows, []string{t.Name, c.Expression, c.Point, c.Actual, c.Reason})
		}
	}
	return g
}

// judged lists every expectation with the figure, its limit and how far the figure is from it, passed ones too.
func judged(q *qualify.Qualification) grid {
	g := grid{title: "figures", keys: 2, header: []string{"test", "expectation", "point", "actual", "limit", "margin", "verdict"}}
	for t, c := range checks(q) {
		margin := "-"
		if c.Margin != nil {
			margin = marginInWords(*c.Margin)
		}
		g.rows = append(g.rows, []string{t.Name, c.Expression, c.Point, c.Actual, cmp.Or(c.Limit, "-"), margin, checkVerdict(c)})
	}
	if !several(q) { // the test says it all
		g.header = slices.Delete(g.header, 2, 3)
		for i := range g.rows {
			g.rows[i] = slices.Delete(g.rows[i], 2, 3)
		}
	}
	return g
}

// checks are all that were made, each with its test.
func checks(q *qualify.Qualification) iter.Seq2[*qualify.Result, report.Check] {
	return func(yield func(*qualify.Result, report.Check) bool) {
		for i := range q.Tests {
			if d := q.Tests[i].Document; d != nil {
				for _, c := range d.Checks {
					if !yield(&q.Tests[i], c) {
						return
					}
				}
			}
		}
	}
}

// marginInWords is how far a figure is from its limit; beyond ten times the share says nothing more.
func marginInWords(share float64) string {
	if share > 10 {
		return ">10×"
	}
	return percent(share)
}

// checkVerdict is a check in a word: a miss in capitals, what could not be told by its cause.
func checkVerdict(c report.Check) string {
	switch {
	case c.Cause != "" && c.Passed:
		return "accepted: " + string(c.Cause)
	case c.Cause != "":
		return "CANNOT TELL: " + string(c.Cause)
	case c.Passed:
		return "pass"
	}
	return "FAIL"
}

// several tells whether a test has more than one point, so that the point must be named.
func several(q *qualify.Qualification) bool {
	seen := map[string]bool{}
	for t, c := range checks(q) {
		key := t.Name + "\x00" + c.Expression
		if seen[key] {
			return true
		}
		seen[key] = true
	}
	return false
}

// QualificationLine is a test in one line as it ends: its verdict, and its figures with their limits.
func QualificationLine(r *qualify.Result) string {
	var parts []string
	if r.Document != nil {
		for _, c := range r.Document.Checks {
			part := c.Expression + ": " + c.Actual
			if c.Margin != nil {
				part += fmt.Sprintf(" (limit %s, %s)", c.Limit, marginInWords(*c.Margin))
			}
			if !c.Passed {
				part = checkVerdict(c) + " " + part
			}
			parts = append(parts, part)
		}
	}
	if r.Outcome != qualify.Passed && r.Reason != "" {
		parts = append([]string{r.Reason}, parts...)
	}
	if r.Disturbed() {
		parts = append(parts, "on a disturbed machine")
	}
	line := fmt.Sprintf("%s %s, %.1f s", shown(r.Outcome), r.Name, r.Seconds)
	if len(parts) > 0 {
		line += ": " + strings.Join(parts, "; ")
	}
	return plain.Terminal(plain.OneLine(line))
}

// QualificationMarkdown opens with the verdict: a step summary shows its first lines.
func QualificationMarkdown(w io.Writer, q *qualify.Qualification) error {
	s := sheet{title: q.Summary(), grids: filled(missed(q), verdicts(q), judged(q))}
	if q.Label != "" {
		s.labels = []string{q.Label}
	}
	return s.write(w, "markdown")
}

// filled are the tables that have rows.
func filled(tables ...grid) []grid {
	return slices.DeleteFunc(tables, func(g grid) bool { return len(g.rows) == 0 })
}

// QualificationAnnotations are workflow commands of GitHub Actions: an error for each test that did not pass.
func QualificationAnnotations(w io.Writer, q *qualify.Qualification) error {
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	message := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	for i := range q.Tests {
		t := &q.Tests[i]
		level := "error"
		switch {
		case t.Outcome == qualify.Skipped, t.Outcome == qualify.Passed && t.Disturbed():
			level = "warning"
		case t.Outcome == qualify.Passed:
			continue
		}
		if _, err := fmt.Fprintf(w, "::%s title=%s::%s\n", level, property.Replace(plain.Terminal(q.Plan+" "+t.Name)), message.Replace(QualificationLine(t))); err != nil {
			return err
		}
	}
	return nil
}

// QualificationTable writes the verdicts for a terminal.
func QualificationTable(w io.Writer, q *qualify.Qualification) error {
	out, most := &strings.Builder{}, columns(w)
	if q.Label != "" {
		fmt.Fprintf(out, "%s\n\n", q.Label)
	}
	g := verdicts(q)
	g.title = ""
	if len(g.header) == 5 { // reasons are given in full below
		room := max(most-g.columns(0, 4).width()-2, 20)
		for i, r := range g.rows {
			if reason := []rune(r[4]); len(reason) > room {
				g.rows[i][4] = string(reason[:room-1]) + "…"
			}
		}
	}
	if err := writeGrid(out, g, most); err != nil {
		return err
	}
	for _, t := range q.Tests {
		if t.Document != nil {
			for _, c := range t.Document.Checks {
				if !c.Passed {
					fmt.Fprintf(out, "\n%s at %s:\n", t.Name, c.Point)
					text := fmt.Sprintf("%s: actual %s", c.Expression, c.Actual)
					text += plain.When(c.Reason != "", " (%s)", c.Reason)
					for _, line := range plain.Wrap(text, most-4) {
						fmt.Fprintln(out, "    "+line)
					}
				}
			}
		}
		if t.Outcome == qualify.Broken {
			fmt.Fprintln(out)
			writeWrapped(out, t.Name+": "+t.Reason, most)
			fmt.Fprintf(out, "    %s\n", t.Command)
		}
	}
	if f := judged(q); len(f.rows) > 0 {
		fmt.Fprintln(out)
		if err := writeGrid(out, f, most); err != nil {
			return err
		}
	}
	if n := q.LeftOut(); n > 0 {
		fmt.Fprintf(out, "\n%d of the plan's expectations left out on request (--leave-out)\n", n)
	}
	fmt.Fprintf(out, "\n%s\n", q.Summary())
	return write(w, plain.Terminal(out.String()))
}

// QualificationJUnit writes a test suite for each test: a case for each expectation. A test that did not complete is an
// error, one that was not run is skipped.
func QualificationJUnit(w io.Writer, q *qualify.Qualification) error {
	all := junitSuites{Name: plain.XML("gobw qualify " + q.Plan)}
	for _, t := range q.Tests {
		var s junit.Suite
		if t.Document != nil {
			d := *t.Document
			d.Description = t.Name
			d.Complete = true // a failure is written below, in the test's own words
			s = junitOf(&d)
		}
		s.Name, s.Time = plain.XML(t.Name), seconds(t.Seconds)
		class := plain.XML(q.Plan + "." + t.Name)
		for i := range s.Cases {
			s.Cases[i].Classname = class
		}
		switch {
		case t.Outcome == qualify.Broken:
			s.Cases = append(s.Cases, junit.Case{
				Name: "run", Classname: class, Time: s.Time,
				Error: &junit.Reason{Message: plain.XML(t.Reason), Type: "error", Text: plain.XML(t.Command + "\n" + t.Reason)},
			})
		case t.Outcome == qualify.Skipped:
			s.Cases = append(s.Cases, junit.Case{Name: "run", Classname: class, Time: seconds(0), Skipped: &junit.Reason{Message: plain.XML(t.Reason)}})
		case len(s.Cases) == 0 && len(t.LeftOut) == 0:
			s.Cases = append(s.Cases, junit.Case{Name: "run", Classname: class, Time: s.Time})
		}
		for _, e := range t.LeftOut {
			s.Cases = append(s.Cases, junit.Case{Name: plain.XML(e), Classname: class, Time: seconds(0), Skipped: &junit.Reason{Message: leftOutReason}})
		}
		all.add(s)
	}
	return junit.Write(w, &all)
}

// leftOutReason is why an expectation was not judged.
const leftOutReason = "left out on request (--leave-out)"

// QualificationHTML writes the page of all tests with the verdicts on top.
func QualificationHTML(w io.Writer, q *qualify.Qualification) error {
	p, err := newPage(q.Documents())
	if err != nil {
		return err
	}
	p.Title = title(strings.ToLower(q.Summary()[:strings.IndexByte(q.Summary(), ':')])) + ": qualification " + q.Plan
	p.Verdict = &pageVerdict{Text: q.Summary(), Good: q.Outcome == qualify.Passed}
	p.add(filled(verdicts(q), missed(q), judged(q)))
	return p.write(w)
}
