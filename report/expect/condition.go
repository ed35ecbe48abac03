package expect

import (
	"fmt"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/stats"
)

// condition is an expectation of a whole result, of which one word says what it is.
type condition struct {
	word   string
	count  func(d *report.Document) (against, of int) // runs
	said   string                                     // of those that stand against it
	cause  stats.Cause
	reason string
	settle string
}

// conditions is the table of them. One holds where at most half of the runs stand against it.
func conditions() []condition {
	return []condition{
		{
			"quiet", figure.DisturbedRuns, "disturbed", stats.Disturbed,
			"other programs used the CPUs of %s", "measure again with --priority realtime (root)",
		},
	}
}

func conditionNamed(word string) *condition {
	for _, c := range conditions() {
		if c.word == word {
			return &c
		}
	}
	return nil
}

// judgeWhole tells whether the condition holds.
func (e *Expectation) judgeWhole(d *report.Document, accept stats.Accepted) report.Check {
	w := e.whole
	against, runs := w.count(d)
	c := report.Check{Expression: e.text, Point: "all", Actual: fmt.Sprintf("%d of %d runs %s", against, runs, w.said), Limit: "half of them"}
	switch c.Word = stats.Pass; {
	case runs == 0:
		c.Verdict = stats.Unknown(stats.Missing, "", "the test left no result to judge")
	case 2*against > runs && accept.Has(w.cause):
		c.Cause = w.cause
	case 2*against > runs:
		c.Verdict = stats.Unknown(w.cause, w.settle, w.reason, c.Actual)
	}
	return c
}
