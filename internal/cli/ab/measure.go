package ab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/expect"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// measurement is what the rounds gave: number i of each belongs together.
type measurement struct {
	a, b, again []float64 // again: A once more, the control
	disturbed   int       // rounds with a disturbed run
	label       string
	ended       string // why before all pairs; empty: not
}

// arms of a round.
const (
	armA = iota
	armB
	armAgain
	arms
)

// isLook tells after which numbers of pairs the interval may end the measuring: 8, 11, 16, 23, 32, ..., each a root of two times
// the one before. Where every pair could end it, it would end where noise makes the interval too narrow.
func isLook(pairs int) bool {
	for at := 8.0; at < float64(pairs)+1; at *= math.Sqrt2 {
		if int(math.Round(at)) == pairs {
			return true
		}
	}
	return false
}

// lookShare is the share of the permitted error (5 % at a confidence of 95 %) with which each look's interval is made, so
// that what is left after all looks is what was permitted: see TestWidthKeepsItsPromise.
const lookShare = 0.6

// measure runs round after round, each in an order of its own, until there are enough. After an error the rounds before it
// stand.
func measure(ctx context.Context, out output.Streams, c config) (measurement, error) {
	return rounds(out, c, func(arm int) (outcome, error) {
		if arm == armB {
			return c.B.run(ctx, out, c.Figure)
		}
		return c.A.run(ctx, out, c.Figure)
	})
}

func rounds(out output.Streams, c config, run func(arm int) (outcome, error)) (measurement, error) {
	lot := rand.New(rand.NewPCG(c.Seed, 0))
	var m measurement
	for round := range c.Pairs {
		var got [arms]outcome
		for _, arm := range lot.Perm(arms) {
			var err error
			if got[arm], err = run(arm); err == nil {
				continue
			}
			if m.ended = "interrupted"; errors.Is(err, errTimeUp) && len(m.a) > 0 { // an end that was asked for
				m.ended, err = err.Error(), nil
			}
			return m, err
		}
		m.add(got)
		look := c.Width > 0 && isLook(len(m.a))
		if c.Output.Quiet && !look {
			continue
		}
		effect := m.effect(c)
		if !c.Output.Quiet {
			fmt.Fprintf(out.Err, "pair %d of %d: A %s, B %s%s\n", round+1, c.Pairs, c.Figure.InUnit(got[armA].value), c.Figure.InUnit(got[armB].value), soFar(effect))
		}
		if in := effect.Interval; look && in != nil && in.High-in.Low <= c.Width {
			m.ended = fmt.Sprintf("the interval is as narrow as %s", stats.Percent(c.Width))
			return m, nil
		}
	}
	return m, nil
}

// soFar is the interval after the latest pair.
func soFar(e stats.Effect) string {
	if e.Interval == nil {
		return ""
	}
	return fmt.Sprintf("; so far %+.1f %% (%+.1f %% to %+.1f %%)", 100*e.Change, 100*e.Interval.Low, 100*e.Interval.High)
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

// effect is that of B against A. The lot makes the two exchangeable, so that without a difference their ratio is symmetric
// whatever the noise; that of B to the mean of the round's two As would not be where the noise has a tail.
func (m *measurement) effect(c config) stats.Effect {
	return c.paired(m.a, m.b)
}

// control is that of A against itself.
func (m *measurement) control(c config) stats.Effect {
	return c.paired(m.a, m.again)
}

// paired is an effect whose interval has the confidence also where its width may have ended the measuring.
func (c config) paired(old, new []float64) stats.Effect {
	if c.Width == 0 {
		return stats.Paired(old, new, c.Confidence, c.Figure.Direction)
	}
	e := stats.Paired(old, new, 1-lookShare*(1-c.Confidence), c.Figure.Direction)
	if e.Interval != nil {
		e.Interval.Confidence = c.Confidence
	}
	return e
}

// comparison judges: the first point is B against A, the second the control.
func (m *measurement) comparison(c config) *compare.Comparison {
	margins := stats.Margins{Same: expect.Margin(c.Gate.Expect), Confidence: c.Confidence}
	effect, control := m.effect(c), m.control(c)
	verdict := stats.Conclude([]stats.Effect{effect}, margins)[0]
	controlled := stats.Conclude([]stats.Effect{control}, margins)[0]
	if (controlled.Word == stats.Better || controlled.Word == stats.Worse) && !c.Gate.Accept.Has(stats.Disturbed) {
		verdict = stats.Unknown(stats.Disturbed, "a quieter machine, longer tests, or --priority realtime in both commands where that is allowed",
			"the control, A against itself, differs by %+.1f %%, where nothing does", 100*control.Change)
	}
	out := &compare.Comparison{
		Old: []string{c.A.line}, New: []string{c.B.line}, Confidence: c.Confidence, Margin: margins.Same, Procedure: "one figure, in pairs",
		Points: []compare.Point{
			m.point(c, "B against A", m.b, effect, verdict),
			m.point(c, "A against itself", m.again, control, controlled),
		},
		Labels: []string{"A: " + c.A.line, "B: " + c.B.line},
	}
	if m.label != "" {
		out.Labels = append(out.Labels, m.label)
	}
	pairs := fmt.Sprintf("%d pairs", len(m.a))
	if m.ended != "" {
		pairs = fmt.Sprintf("%d of %d pairs (%s)", len(m.a), c.Pairs, m.ended)
	}
	out.Labels = append(out.Labels, fmt.Sprintf("%s, %d of them with a disturbed run; order drawn from --seed %d", pairs, m.disturbed, c.Seed))
	if m.ended == "interrupted" {
		out.Incomplete = append(out.Incomplete, fmt.Sprintf("ended after %d of %d pairs", len(m.a), c.Pairs))
	}
	return out
}

func (m *measurement) point(c config, row string, new []float64, e stats.Effect, v stats.Verdict) compare.Point {
	worse := e.Finite()
	return compare.Point{
		Group: "pairs", Row: row, Figure: c.Figure.Name, Unit: c.Figure.Unit, Old: summary(m.a, c), New: summary(new, c),
		WorseBy: worse, Effect: e, Verdict: v,
	}
}

// summary is the median in the figure's unit.
func summary(values []float64, c config) stats.Summary {
	scaled := plain.Each(values, func(v float64) float64 { return v * c.Figure.Scale })
	return stats.Summarize(scaled, c.Confidence)
}
