package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/noncontig"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// key is what both sides must have in common: the whole plan, and the figure.
type key struct {
	point  report.Point
	grid   noncontig.Plan
	figure string
}

// series is the values of one figure at one point, over runs and documents.
type series struct {
	key
	group, row string
	by         string // what the field was by which is compared
	figure     figure.Figure
	values     []float64
	disturbed  int  // of the runs
	incomplete bool // a document it comes from was interrupted
}

func (s *series) String() string { return s.group + ", " + s.row + ": " + s.figure.Name }

// summary in the figure's unit; values that are not finite are not shown, the verdict tells of them.
func (s *series) summary(confidence float64) stats.Summary {
	var out []float64
	for _, v := range s.values {
		if v *= s.figure.Scale; !math.IsNaN(v) && !math.IsInf(v, 0) {
			out = append(out, v)
		}
	}
	if len(out) == 0 {
		return stats.Summary{}
	}
	return stats.Summarize(out, confidence)
}

// collection is one side's series in the order of first appearance.
type collection struct {
	series []*series
	at     map[key]*series
}

func (c *collection) find(k key) *series { return c.at[k] }

// collect gathers the figures of documents by point.
func collect(docs []*report.Document, figures []figure.Figure, by string) (*collection, error) {
	c := &collection{at: map[key]*series{}}
	bw, p50, p99 := mustFigures("bw", "p50", "p99")
	for _, d := range docs {
		for i := range d.Records {
			r := &d.Records[i]
			chosen := figures
			switch {
			case len(figures) > 0:
			case r.Kind == "latency":
				chosen = []figure.Figure{p50, p99}
			default:
				chosen = []figure.Figure{bw}
			}
			rest, value, _ := r.Point().Without(by)
			for _, f := range chosen {
				v, ok := f.Get(r)
				if !ok {
					continue
				}
				s, err := c.add(key{point: rest, figure: f.Name}, value, by, f, func() (string, string) {
					title := rest.Title()
					if r.CQMod > 1 {
						title += fmt.Sprintf(", signaled every %d", r.CQMod)
					}
					return title, fmt.Sprintf("%d B", r.SizeBytes)
				})
				if err != nil {
					return nil, err
				}
				s.take(v, r.Warnings, d)
			}
		}
		if d.Noncontig != nil && len(figures) == 0 {
			if err := c.addGrid(d, by); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// addGrid takes the goodput of a non-contiguous experiment.
func (c *collection) addGrid(d *report.Document, by string) error {
	n := d.Noncontig
	goodput := figure.Figure{Name: "goodput", Direction: stats.HigherIsBetter, Unit: "Gb/s", Scale: 1e-9}
	for i := range n.Points {
		p := &n.Points[i]
		rest, value, _ := n.Plan(p).Without(by)
		for j := range p.Runs {
			s, err := c.add(key{grid: rest, figure: goodput.Name}, value, by, goodput, func() (string, string) {
				return "non-contiguous, " + p.Shape + ", " + n.Setup.Cache, p.Layout + " " + p.Strategy
			})
			if err != nil {
				return err
			}
			s.take(p.Runs[j].GoodputBitsPerS, p.Runs[j].Warnings, d)
		}
	}
	return nil
}

// add finds or makes the series of a key.
func (c *collection) add(k key, value, by string, f figure.Figure, name func() (group, row string)) (*series, error) {
	s := c.at[k]
	if s == nil {
		s = &series{key: k, by: value, figure: f}
		s.group, s.row = name()
		c.at[k] = s
		c.series = append(c.series, s)
	}
	if s.by != value {
		return nil, fmt.Errorf("%s, %s has %s %s and %s: one of them is wanted on each side (or give one result alone: compare FILE --by %s)",
			s.group, s.row, by, quoteEmpty(s.by), quoteEmpty(value), by)
	}
	return s, nil
}

func (s *series) take(v float64, warnings []string, d *report.Document) {
	s.values = append(s.values, v)
	if figure.Disturbed(warnings) {
		s.disturbed++
	}
	s.incomplete = s.incomplete || !d.Complete
}

func mustFigures(a, b, c string) (x, y, z figure.Figure) {
	x, _ = figure.Named(a)
	y, _ = figure.Named(b)
	z, _ = figure.Named(c)
	return x, y, z
}

// fieldNames are all fields that --by knows: of plans, and of set-ups.
func fieldNames() []string {
	out := slices.Concat(report.PlanFields(), noncontig.PlanFields())
	for _, f := range facts() {
		out = append(out, fieldOf(f.what))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func fieldOf(what string) string { return strings.ReplaceAll(strings.ToLower(what), " ", "_") }

func checkBy(by string) error {
	if by == "" || slices.Contains(fieldNames(), by) {
		return nil
	}
	return fmt.Errorf("no field %q%s to compare by; there are %s", by, plain.Suggest(by, fieldNames()), strings.Join(fieldNames(), ", "))
}

// Split parts the records and grids of documents by the values of one field of their plans, in the order of first
// appearance: what 'compare FILE --by qps' compares.
func Split(docs []*report.Document, by string) (values []string, sides [][]*report.Document, err error) {
	if err := checkBy(by); err != nil {
		return nil, nil, err
	}
	side := func(value string) int {
		at := slices.Index(values, value)
		if at < 0 {
			at = len(values)
			values, sides = append(values, value), append(sides, nil)
		}
		return at
	}
	for _, d := range docs {
		parts := map[int]*report.Document{}
		part := func(value string) *report.Document {
			at := side(value)
			if parts[at] == nil {
				c := *d
				c.Records, c.Noncontig, c.Checks = nil, nil, nil
				parts[at] = &c
				sides[at] = append(sides[at], &c)
			}
			return parts[at]
		}
		for i := range d.Records {
			if _, value, ok := d.Records[i].Point().Without(by); ok {
				p := part(value)
				p.Records = append(p.Records, d.Records[i])
			}
		}
		for i := 0; d.Noncontig != nil && i < len(d.Noncontig.Points); i++ {
			if _, value, ok := d.Noncontig.Plan(&d.Noncontig.Points[i]).Without(by); ok {
				p := part(value)
				if p.Noncontig == nil {
					p.Noncontig = &noncontig.Grid{Setup: d.Noncontig.Setup}
				}
				p.Noncontig.Points = append(p.Noncontig.Points, d.Noncontig.Points[i])
			}
		}
	}
	if len(values) < 2 {
		return nil, nil, fmt.Errorf("there is nothing to compare by %s: it has %d values here", by, len(values))
	}
	return values, sides, nil
}
