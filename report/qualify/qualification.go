package qualify

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// Outcome is how a test of a qualification ended: a gate's word, or why it has none.
type Outcome = stats.Word

// Outcomes of tests without a verdict.
const (
	Broken  Outcome = "error"   // the test did not complete
	Skipped Outcome = "skipped" // not run: not asked for, or an earlier test lost the peer or the device
)

// Qualification is a plan that was run: each test with its document and verdict.
type Qualification struct {
	Schema   string    `json:"schema"`
	Plan     string    `json:"plan"` // its name
	File     string    `json:"file,omitempty"`
	Version  string    `json:"version"`
	Command  []string  `json:"command"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	Label    string    `json:"label,omitempty"`
	Name     string    `json:"name,omitempty"` // what --label says
	Outcome  Outcome   `json:"outcome"`
	ExitCode int       `json:"exit_code"`
	Tests    []Result  `json:"tests"`
}

// Result is one test of a qualification.
type Result struct {
	Name     string           `json:"name"`
	Command  string           `json:"command"` // as one would type it
	Outcome  Outcome          `json:"outcome"`
	Reason   string           `json:"reason,omitempty"`
	ExitCode int              `json:"exit_code"` // as if it ran alone; 0 of one that was skipped
	Seconds  float64          `json:"seconds"`
	LeftOut  []string         `json:"left_out,omitempty"` // expectations of the plan that were not judged (--leave-out)
	Document *report.Document `json:"document,omitempty"`
}

// Disturbed tells whether most of a test's runs say that something else had their CPU.
func (r *Result) Disturbed() bool {
	if r.Document == nil {
		return false
	}
	disturbed, runs := figure.DisturbedRuns(r.Document)
	return 2*disturbed > runs
}

// Documents of the tests that have one.
func (q *Qualification) Documents() []*report.Document {
	var out []*report.Document
	for i := range q.Tests {
		if d := q.Tests[i].Document; d != nil {
			d.Description = cmp.Or(d.Description, q.Tests[i].Name)
			out = append(out, d)
		}
	}
	return out
}

// Load reads a saved qualification; nil where the file holds something else.
func Load(path string) (*Qualification, error) {
	q, err := report.LoadAs[Qualification](path, report.QualificationSchema)
	if q == nil || err != nil {
		return nil, err
	}
	for _, d := range q.Documents() {
		if err := d.Check(path); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// LeftOut counts the expectations that were not judged.
func (q *Qualification) LeftOut() int {
	n := 0
	for _, t := range q.Tests {
		n += len(t.LeftOut)
	}
	return n
}

// Summary is the verdict in one line.
func (q *Qualification) Summary() string {
	counts, busy := map[Outcome]int{}, 0
	for i := range q.Tests {
		if counts[q.Tests[i].Outcome]++; q.Tests[i].Disturbed() {
			busy++
		}
	}
	var parts []string
	for _, o := range []struct {
		outcome Outcome
		said    string
	}{
		{stats.Pass, "passed"},
		{stats.Fail, "failed"},
		{stats.CannotTell, "cannot tell"},
		{Broken, "did not complete"},
		{Skipped, "skipped"},
	} {
		if n := counts[o.outcome]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o.said))
		}
	}
	text := fmt.Sprintf("%s: plan %s: %s", strings.ToUpper(string(q.Outcome)), q.Plan, strings.Join(parts, ", "))
	return text + plain.When(busy > 0, " (%d disturbed)", busy) +
		plain.When(q.ExitCode != 0, "; exit status %d", q.ExitCode)
}
