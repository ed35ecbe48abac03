package report

import (
	"fmt"
	"io"
	"strings"
)

// counts of the tests by outcome.
func (q *Qualification) counts() map[Outcome]int {
	out := map[Outcome]int{}
	for _, t := range q.Tests {
		out[t.Outcome]++
	}
	return out
}

// leftOut counts the expectations that were not judged.
func (q *Qualification) leftOut() int {
	n := 0
	for _, t := range q.Tests {
		n += len(t.LeftOut)
	}
	return n
}

// Summary is the verdict in one line.
func (q *Qualification) Summary() string {
	n := q.counts()
	var parts []string
	for _, o := range []Outcome{Passed, Failed, Broken, Skipped} {
		if n[o] > 0 {
			word := map[Outcome]string{Passed: "passed", Failed: "failed", Broken: "did not complete", Skipped: "skipped"}[o]
			parts = append(parts, fmt.Sprintf("%d %s", n[o], word))
		}
	}
	verdict := "PASS"
	if q.Outcome != Passed {
		verdict = strings.ToUpper(string(q.Outcome))
	}
	return fmt.Sprintf("%s: plan %s: %s (exit status %d)", verdict, q.Plan, strings.Join(parts, ", "), q.ExitCode)
}

// shown is an outcome as people read it: what is not well in capitals.
func (o Outcome) shown() string {
	switch o {
	case Failed, Broken:
		return strings.ToUpper(string(o))
	case Passed, Skipped:
	}
	return string(o)
}

func (q *Qualification) verdicts() grid {
	g := grid{title: "verdicts", header: []string{"verdict", "test", "s", "expectations", "reason"}}
	reasons := false
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
		reasons = reasons || t.Reason != ""
		took := "-"
		if t.Outcome != Skipped {
			took = fmt.Sprintf("%.1f", t.Seconds)
		}
		g.rows = append(g.rows, []string{t.Outcome.shown(), t.Name, took, expectations, t.Reason})
	}
	if !reasons {
		g.header = g.header[:4]
		for i := range g.rows {
			g.rows[i] = g.rows[i][:4]
		}
	}
	return g
}

// missed lists the expectations that were missed, with the figures.
func (q *Qualification) missed() grid {
	g := grid{title: "missed", header: []string{"test", "expectation", "point", "actual", "reason"}}
	for _, t := range q.Tests {
		if t.Document == nil {
			continue
		}
		for _, c := range t.Document.Checks {
			if !c.Passed {
				g.rows = append(g.rows, []string{t.Name, c.Expression, c.Point, c.Actual, c.Reason})
			}
		}
	}
	return g
}

// QualificationTable writes the verdicts for a terminal.
func QualificationTable(w io.Writer, q *Qualification) error {
	out := &strings.Builder{}
	if q.Label != "" {
		fmt.Fprintf(out, "%s\n\n", q.Label)
	}
	g := q.verdicts()
	g.title = ""
	if len(g.header) == 5 { // reasons are given in full below
		room := max(terminalWidth-g.columns(0, 4).width()-2, 20)
		for i, r := range g.rows {
			if reason := []rune(r[4]); len(reason) > room {
				g.rows[i][4] = string(reason[:room-1]) + "…"
			}
		}
	}
	if err := writeGrid(out, g); err != nil {
		return err
	}
	for _, t := range q.Tests {
		if t.Document != nil {
			for _, c := range t.Document.Checks {
				if !c.Passed {
					fmt.Fprintf(out, "\n%s at %s:\n", t.Name, c.Point)
					text := fmt.Sprintf("%s: actual %s", c.Expression, c.Actual)
					if c.Reason != "" {
						text += " (" + c.Reason + ")"
					}
					for _, line := range Wrap(text, terminalWidth-4) {
						fmt.Fprintln(out, "    "+line)
					}
				}
			}
		}
		if t.Outcome == Broken {
			fmt.Fprintln(out)
			for _, line := range Wrap(t.Name+": "+t.Reason, terminalWidth) {
				fmt.Fprintln(out, line)
			}
			fmt.Fprintf(out, "    %s\n", t.Command)
		}
	}
	if n := q.leftOut(); n > 0 {
		fmt.Fprintf(out, "\n%d of the plan's expectations left out on request (--leave-out)\n", n)
	}
	fmt.Fprintf(out, "\n%s\n", q.Summary())
	_, err := io.WriteString(w, out.String())
	return err
}

// QualificationJUnit writes a test suite for each test: a case for each expectation. A test that did not complete is an
// error, one that was not run is skipped.
func QualificationJUnit(w io.Writer, q *Qualification) error {
	all := junitSuites{Name: xmlText("gobw qualify " + q.Plan)}
	for _, t := range q.Tests {
		var s junitSuite
		if t.Document != nil {
			d := *t.Document
			d.Description = t.Name
			d.Complete = true // a failure is written below, in the test's own words
			s = junitOf(&d)
		}
		s.Name, s.Time = xmlText(t.Name), seconds(t.Seconds)
		class := xmlText(q.Plan + "." + t.Name)
		for i := range s.Cases {
			s.Cases[i].Classname = class
		}
		switch {
		case t.Outcome == Broken:
			s.Cases = append(s.Cases, junitCase{
				Name: "run", Classname: class, Time: s.Time,
				Error: &junitReason{Message: xmlText(t.Reason), Type: "error", Text: xmlText(t.Command + "\n" + t.Reason)},
			})
		case t.Outcome == Skipped:
			s.Cases = append(s.Cases, junitCase{Name: "run", Classname: class, Time: seconds(0), Skipped: &junitReason{Message: xmlText(t.Reason)}})
		case len(s.Cases) == 0 && len(t.LeftOut) == 0:
			s.Cases = append(s.Cases, junitCase{Name: "run", Classname: class, Time: s.Time})
		}
		for _, e := range t.LeftOut {
			s.Cases = append(s.Cases, junitCase{Name: xmlText(e), Classname: class, Time: seconds(0), Skipped: &junitReason{Message: leftOutReason}})
		}
		all.add(s)
	}
	return all.write(w)
}

// leftOutReason is why an expectation was not judged.
const leftOutReason = "left out on request (--leave-out)"

// QualificationHTML writes the page of all tests with the verdicts on top.
func QualificationHTML(w io.Writer, q *Qualification) error {
	p, err := newPage(q.Documents())
	if err != nil {
		return err
	}
	p.Title = title(strings.ToLower(q.Summary()[:strings.IndexByte(q.Summary(), ':')])) + ": qualification " + q.Plan
	p.Verdict = &pageVerdict{Text: q.Summary(), Good: q.Outcome == Passed}
	p.Verdicts = append(p.Verdicts, pageTableOf(q.verdicts()))
	if m := q.missed(); len(m.rows) > 0 {
		p.Verdicts = append(p.Verdicts, pageTableOf(m))
	}
	return p.write(w)
}
