// Package series gathers the figures of documents by what must agree for them to be compared.
package series

import (
	"cmp"
	"fmt"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/plain"
)

// Key is what figures must have in common: the whole plan, and the name of the figure.
type Key struct {
	Point  report.Plan
	Figure string
}

// Series is the values of one figure at one point, over runs and documents, in the figure's base unit.
type Series struct {
	Key
	Group, Row string // the set-up in words; the size, or the layout and strategy
	By         string // what the field was by which is compared
	Of         figure.Figure
	Values     []float64
	Disturbed  int    // of the runs
	Incomplete bool   // a document it comes from was interrupted
	Lacks      string // why a run is without the figure; empty: all have it
	Impossible string // why the figure of a run cannot be true; empty: it can
	Sessions   []Session

	told, disturbed int // values and disturbed runs that are in a session
}

// Session is the runs of one document: one value, since they are not independent of each other.
type Session struct {
	Value     float64
	Disturbed bool // more than half of the runs
}

// end makes a session of the runs that are in none.
func (s *Series) end() {
	if runs := s.Values[s.told:]; len(runs) > 0 {
		s.Sessions = append(s.Sessions, Session{s.Of.OverRuns(runs), 2*(s.Disturbed-s.disturbed) > len(runs)})
		s.told, s.disturbed = len(s.Values), s.Disturbed
	}
}

func (s *Series) String() string { return s.Group + ", " + s.Row + ": " + s.Of.Name }

// Collection is the series of some documents in the order of first appearance.
type Collection struct {
	Series []*Series // those that have values
	All    []*Series
	at     map[Key]*Series
}

// Find is the series of a key that has values, or nil.
func (c *Collection) Find(k Key) *Series {
	if s := c.at[k]; s != nil && len(s.Values) > 0 {
		return s
	}
	return nil
}

// Known is the series at the point of another one, with values or without, or nil.
func (c *Collection) Known(s *Series) *Series { return c.at[s.Key] }

// Collect gathers the figures of documents by point. Without names these are bw of bandwidth tests, p50 and p99 of
// latency tests. by names the one field of the plan that is no part of the key.
func Collect(docs []*report.Document, figures []figure.Figure, by string) (*Collection, error) {
	c := &Collection{at: map[Key]*Series{}}
	for _, d := range docs {
		for _, r := range d.Measured() {
			chosen := figures
			switch {
			case len(figures) > 0:
			case r.IsLatency():
				chosen = []figure.Figure{figure.Of("p50"), figure.Of("p99")}
			default:
				chosen = []figure.Figure{figure.Of("bw")}
			}
			rest, value, _ := r.Without(by)
			for _, f := range chosen {
				k := Key{Point: rest, Figure: f.Name}
				s := c.at[k]
				if s == nil {
					table, row := rest.Row()
					s = &Series{Key: k, Group: table.Title(), Row: row, Of: f}
					s.Group += plain.When(r.CQMod > 1 && !r.IsLatency(), ", completion every %d messages", r.CQMod)
					if by == "size_bytes" {
						s.Row = value + " B"
					}
					c.at[k], c.All = s, append(c.All, s)
				}
				v, missing := f.Get(&r)
				if missing != "" {
					s.Lacks, s.Impossible = missing, cmp.Or(s.Impossible, f.Impossible(&r))
					continue
				}
				if len(s.Values) == 0 {
					s.By, c.Series = value, append(c.Series, s)
				}
				if s.By != value {
					return nil, fmt.Errorf("it has %s %s and %s, and a side has one value only; try 'compare OLD,NEW --by %s'", by,
						cmp.Or(s.By, "none"), cmp.Or(value, "none"), by)
				}
				s.Values = append(s.Values, v)
				if figure.Disturbed(r.Warnings) {
					s.Disturbed++
				}
				s.Incomplete = s.Incomplete || !d.Complete
			}
		}
		for _, s := range c.Series {
			s.end()
		}
	}
	return c, nil
}
