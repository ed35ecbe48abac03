package ab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/expect"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// measurement is what the rounds gave: number i of each belongs together.
type measurement struct {
	a, b, again []float64 // again: A once more, the control
	disturbed   int       // rounds with a disturbed run
	label       string
	ended       string // why it ended before all pairs; empty: it did not
	leftOut     int    // rounds without the figure
	why         string // the figure is missing there
}

// arms of a round.
const (
	armA = iota
	armB
	armAgain
	arms
)

// rounds measures round after round, each in random order, until there are enough. After an error it returns the rounds
// before it. It calls kept after each round.
func rounds(out output.Streams, c config, kept func(measurement),
	run func(arm int) (outcome, error),
) (measurement, error) {
	var m measurement
rounds:
	for round := range c.Pairs {
		var got [arms]outcome
		for _, arm := range rand.Perm(arms) {
			var err error
			if got[arm], err = run(arm); err == nil {
				continue
			}
			missing, is := errors.AsType[*figure.MissingError](err)
			if is && len(m.a) > 0 { // the figure was there before: this test was too short for it
				m.leftOut, m.why = m.leftOut+1, missing.Error()
				fmt.Fprintf(out.Err, "pair %d of %d left out: %v\n", round+1, c.Pairs, err)
				continue rounds
			}
			if m.ended = "a test failed"; errors.Is(err, context.Canceled) {
				m.ended = "interrupted"
			}
			return m, err
		}
		m.add(got)
		kept(m)
		if c.Output.Quiet {
			continue
		}
		p, text := m.point(c, "", m.b), ""
		if in := p.Interval; in != nil {
			text = fmt.Sprintf("; so far %+.1f %% (%+.1f %% to %+.1f %%)", 100*p.Change, 100*in.Low, 100*in.High)
		}
		fmt.Fprintf(out.Err, "pair %d of %d: A %s, B %s%s\n", round+1, c.Pairs, c.Figure.InUnit(got[armA].value),
			c.Figure.InUnit(got[armB].value), text)
	}
	return m, nil
}

func (m *measurement) add(got [arms]outcome) {
	m.a, m.b, m.again = append(m.a, got[armA].value), append(m.b, got[armB].value), append(m.again, got[armAgain].value)
	for _, o := range got {
		if o.label != "" {
			m.label = o.label
		}
	}
	if got[armA].disturbed || got[armB].disturbed {
		m.disturbed++
	}
}

// mostLeftOut is the part of the pairs, one in so many, that may be left out.
const mostLeftOut = 10

// comparison judges: the first point is B against A, the second the control, A against itself.
func (m *measurement) comparison(c config) *compare.Comparison {
	out := &compare.Comparison{
		Schema: compare.Schema, Old: []string{c.A.line}, New: []string{c.B.line}, Confidence: c.Confidence,
		Margin: expect.Margin(c.Gate.Expect), Procedure: "one figure, in pairs",
		Points:     []compare.Point{m.point(c, "B against A", m.b), m.point(c, compare.Control, m.again)},
		Documented: compare.Documented{Labels: []string{"A: " + c.A.line, "B: " + c.B.line}},
	}
	for i := range out.Points {
		compare.Conclude(out.Points[i:i+1], out.Margin, c.Confidence)
		if p := &out.Points[i]; len(m.a) < c.Pairs && (p.Cause == stats.TooFew || p.Cause == stats.Unclear) {
			p.Settle = cmp.Or(plain.When(m.ended != "", "again: %s", m.ended), "longer tests: raise -n or -D")
		}
	}
	if control := out.Points[1]; (control.Word == stats.Better || control.Word == stats.Worse) &&
		!c.Gate.Accept.Has(stats.Disturbed) {
		remedy := "longer tests, or " + plain.Realtime
		if machine.Priority() == "realtime" {
			remedy = "a quieter machine"
		}
		out.Points[0].Verdict = stats.Unknown(stats.Disturbed, remedy,
			"A differs from itself by %+.1f %%, which should be 0", 100*control.Change)
	}
	if m.leftOut*mostLeftOut > m.leftOut+len(m.a) {
		out.Points[0].Verdict = stats.Unknown(stats.Missing, "longer tests: raise -n or -D",
			"%d of %d pairs are left out, and may be those of the slow tests: %s", m.leftOut, m.leftOut+len(m.a), m.why)
	}
	if m.label != "" {
		out.Labels = append(out.Labels, m.label)
	}
	pairs := plain.Plural(len(m.a), "pair")
	if len(m.a) < c.Pairs {
		pairs = fmt.Sprintf("%d of %d pairs (%s)", len(m.a), c.Pairs, cmp.Or(m.ended, m.why))
	}
	out.Labels = append(out.Labels, fmt.Sprintf("%s, %d of them with a disturbed run", pairs, m.disturbed))
	if m.ended != "" {
		out.Incomplete = append(out.Incomplete, fmt.Sprintf("ended after %d of %d pairs", len(m.a), c.Pairs))
	}
	return out
}

// point compares runs with those of A. They are measured in random order, so without a difference log(B/A) is symmetric
// about 0. B against the mean of both As would not be symmetric if the noise is skewed.
func (m *measurement) point(c config, row string, other []float64) compare.Point {
	return compare.NewPoint("pairs", row, c.Figure, compare.Side{Values: m.a}, compare.Side{Values: other}, stats.Paired,
		c.Confidence)
}
