package trend

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// ParseWindow reads "14d", "36h" or "2026-11-01": what counts as new begins so long before now, or at the date.
func ParseWindow(text string, now time.Time) (time.Time, error) {
	text = strings.TrimSpace(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n < 100_000 {
			return now.Add(-time.Duration(n) * 24 * time.Hour), nil
		}
	}
	if span, err := time.ParseDuration(text); err == nil && span > 0 {
		return now.Add(-span), nil
	}
	if at, err := time.Parse(time.DateOnly, text); err == nil {
		return at, nil
	}
	return time.Time{}, fmt.Errorf("%q: want a time before now (7d, 36h) or a date (2026-11-01)", text)
}

// Since sets the state that is in force now against the reference, for all series together. The reference is what was
// accepted: the results since the acceptance, or all, up to the first change after which nobody accepted. Without such
// a change, the results since the given time are set against those of the reference before it. A gate judges it.
func (t *Trend) Since(since time.Time) *compare.Comparison {
	c := &compare.Comparison{
		Schema: compare.Schema, Old: []string{"accepted"}, New: []string{"since"},
		Confidence: t.Confidence, Margin: t.Margin, Procedure: t.Procedure,
		Documented: compare.Documented{Labels: t.Labels},
	}
	var judged []sides
	for i := range t.Series {
		s := &t.Series[i]
		if last := s.Points[len(s.Points)-1].Time; last.Before(since) {
			c.OnlyOld = append(c.OnlyOld, fmt.Sprintf("%s (last measured %s)", s.Name(), last.Format(time.DateOnly)))
			continue
		}
		two := s.sides(since, t.Accepted.Since, stats.LeastRuns(t.Confidence))
		p := s.between(two.old, two.new, t.Confidence)
		p.P = max(p.P, two.p)
		c.Points, judged = append(c.Points, p), append(judged, two)
	}
	for _, u := range t.unseen {
		if !u.at.Before(since) && !u.at.Before(t.Accepted.Since) {
			c.Unseen = append(c.Unseen, u.what)
		}
	}
	slices.Sort(c.Unseen)
	if len(c.Points) == 0 {
		c.OnlyOld, c.LeftOut = nil, []string{fmt.Sprintf("no result since %s (the newest is of %s)",
			since.UTC().Format(time.DateOnly), t.To.Format(time.DateOnly))}
	}
	c.Judge(t.accept)
	for i := range c.Points {
		t.tell(&c.Points[i], judged[i])
	}
	return c
}

// tell adds to a verdict's reason which results were compared, and notes since when a new state can be accepted.
func (t *Trend) tell(p *compare.Point, two sides) {
	if p.Cause == stats.TooFew || p.Cause == stats.NotFinite && p.Old.N == 0 {
		least := stats.LeastRuns(t.Confidence)
		p.Verdict = stats.Unknown(stats.TooFew, fmt.Sprintf("again with %d old results, and %[1]d new ones", least),
			"old results%s: %d, new results: %d",
			plain.When(!t.Accepted.Since.IsZero(), " since the accepted %s", day(t.Accepted.Since)), p.Old.N, p.New.N)
		return
	}
	if p.Word != stats.Worse && p.Word != stats.Better {
		return
	}
	first := two.new[0].Time
	p.Reason += fmt.Sprintf("; %s to %s against %s since %s", plain.Plural(len(two.old), "result"),
		day(two.old[len(two.old)-1].Time),
		plain.Plural(len(two.new), "result"), day(first))
	if t.Acceptable == nil || t.Acceptable.Before(first) {
		t.Acceptable = &first
	}
}

func day(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// sides are what a gate compares in one series.
type sides struct {
	old, new []Point
	p        float64 // the largest of the changes between them: their places were chosen for the difference
}

// sides finds the reference of a series, which begins with the accepted results, and the results to compare with it.
func (s *Series) sides(since, accepted time.Time, least int) sides {
	from := s.first(accepted)
	begin, start := max(s.first(since), from), from
	var open []Change
	for _, c := range s.Changes {
		switch {
		case c.At >= from+leastSegment:
			open = append(open, c)
		case c.At > from: // The accepted change, which more results have moved by a night or two.
			start = c.At
		}
	}
	if len(open) > 0 {
		out := sides{old: s.Points[start:open[0].At], new: s.Points[open[len(open)-1].At:]}
		for _, c := range open {
			out.p = max(out.p, c.P)
		}
		return out
	}
	// There are enough results for both sides.
	if middle := start + least; begin < middle && middle+least <= len(s.Points) {
		begin = middle
	}
	begin = max(begin, start)
	return sides{old: s.Points[start:begin], new: s.Points[begin:]}
}

// first is the index of the first point that is not before a time.
func (s *Series) first(at time.Time) int {
	i := slices.IndexFunc(s.Points, func(p Point) bool { return !p.Time.Before(at) })
	if i < 0 {
		return len(s.Points)
	}
	return i
}

// Values of points.
func Values(points []Point) []float64 {
	return plain.Each(points, func(p Point) float64 { return p.Value })
}

// sideOf is how results were measured.
func sideOf(name string, points []Point) compare.Side {
	s := compare.Side{Name: name, What: "results", Values: Values(points)}
	for _, p := range points {
		if p.Incomplete && s.Incomplete == "" {
			s.Incomplete = p.Name + " of " + p.Time.Format(time.DateOnly)
		}
		if p.Disturbed {
			s.Disturbed++
		}
	}
	return s
}
