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

// Since sets the state that is in force now against the one before the window, for all series together: the results since the
// last change against those of the state in which the window began. Where there was no change, the window's own results are
// set against those before. A gate judges it.
func (t *Trend) Since(since time.Time) *compare.Comparison {
	c := &compare.Comparison{
		Schema: compare.Schema, Old: []string{"before"}, New: []string{"since"}, Confidence: t.Confidence, Margin: t.Margin, Procedure: t.Procedure,
		Documented: compare.Documented{Labels: t.Labels},
	}
	for i := range t.Series {
		s := &t.Series[i]
		begin := slices.IndexFunc(s.Points, func(p Point) bool { return !p.Time.Before(since) })
		if begin < 0 {
			c.OnlyOld = append(c.OnlyOld, fmt.Sprintf("%s (last measured %s)", s.Name(), s.Points[len(s.Points)-1].Time.Format(time.DateOnly)))
			continue
		}
		before, after := s.states(begin, stats.LeastRuns(t.Confidence))
		p := s.between(before, after, t.Confidence)
		for _, ch := range s.Changes {
			if ch.At > begin {
				p.P = max(p.P, ch.P) // the place was chosen for its difference
			}
		}
		c.Points = append(c.Points, p)
	}
	if len(c.Points) == 0 {
		c.OnlyOld, c.LeftOut = nil, []string{fmt.Sprintf("no result since %s (the newest is of %s)", since.UTC().Format(time.DateOnly), t.To.Format(time.DateOnly))}
	}
	c.Judge(t.accept)
	for i := range c.Points {
		if p := &c.Points[i]; p.Cause == stats.TooFew || p.Cause == stats.NotFinite && p.Old.N == 0 {
			p.Verdict = stats.Unknown(stats.TooFew, fmt.Sprintf("with %d results before the date of --since, and %[1]d after it", stats.LeastRuns(t.Confidence)),
				"results before --since: %d, after it: %d", p.Old.N, p.New.N)
		}
	}
	return c
}

// states are the points of the state in which a window begins, and those of the state in force. Where the window began
// right after a change, it begins later, so that there are enough points to tell that state by.
func (s *Series) states(begin, least int) (before, since []Point) {
	bounds := s.Segments()
	start, end := 0, len(s.Points)
	for i := range len(bounds) - 1 {
		if bounds[i] <= begin {
			start, end = bounds[i], bounds[i+1]
		}
	}
	if end < len(s.Points) { // changed within the window
		return s.Points[start:end], s.Points[bounds[len(bounds)-2]:]
	}
	if middle := start + least; begin < middle && middle+least <= end {
		begin = middle
	}
	return s.Points[start:begin], s.Points[begin:]
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
