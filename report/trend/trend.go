package trend

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/internal/series"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// Trend is each figure over many results.
type Trend struct {
	Schema     string    `json:"schema"`
	Results    int       `json:"results"`
	From       time.Time `json:"from"`
	To         time.Time `json:"to"`
	Confidence float64   `json:"confidence"`
	Margin     float64   `json:"margin"`
	Procedure  string    `json:"procedure"` // how series judged together are corrected
	Series     []Series  `json:"series"`
	// Accepted is from when on results are the reference of a gate; its zero value: all of them are.
	Accepted Acceptance `json:"accepted,omitzero"`
	// Acceptable is the beginning of the newest state that a gate found to differ from the reference.
	Acceptable *time.Time `json:"acceptable,omitempty"`
	compare.Documented

	accept stats.Accepted
	unseen []unseen
}

// unseen is what a night should have and has not.
type unseen struct {
	at   time.Time
	what string // in words, and why
}

// schema identifies a [Trend] in JSON.
const schema = "gobw.trend/1"

// Series is one figure of one plan on one set-up. Values are in Unit.
type Series struct {
	Group   string          `json:"group"` // the plan
	Row     string          `json:"row"`   // the size, or the layout and strategy
	Place   string          `json:"place"` // the set-up: device, machine
	Figure  string          `json:"figure"`
	Unit    string          `json:"unit"`
	Better  stats.Direction `json:"better"`
	Points  []Point         `json:"points"` // by time
	Changes []Change        `json:"changes,omitempty"`

	of figure.Figure // in its unit
}

// Name of the series in a few words.
func (s *Series) Name() string { return s.Group + ", " + s.Row + ": " + s.Figure }

// Point is one night: the median over its runs, and of counters and shares the worst.
type Point struct {
	Time       time.Time `json:"time"`
	Name       string    `json:"name"` // of the first result
	Value      float64   `json:"value"`
	Runs       int       `json:"runs"`
	Disturbed  bool      `json:"disturbed,omitempty"`
	Incomplete bool      `json:"incomplete,omitempty"`

	doc *report.Document
}

// Change is where a series goes from one state to another. Old has the results since the previous change, New those up
// to the next one. P is that of the permutation test.
type Change struct {
	At      int                  `json:"at"`    // index of the first result after it
	First   time.Time            `json:"first"` // when that was measured
	Name    string               `json:"name"`
	Changed []compare.Difference `json:"changed,omitempty"` // versions, firmware, host: between the results beside it
	compare.Point
}

// Documents orders results by their time and finds where figures changed. Each set-up has series of its own, also with
// Options.Unlike.
func Documents(docs []*report.Document, o compare.Options) (*Trend, error) {
	o.Margin, o.Confidence = cmp.Or(o.Margin, stats.DefaultMargin), cmp.Or(o.Confidence, stats.DefaultConfidence)
	figures, err := compare.Figures(o.Figures)
	if err != nil {
		return nil, err
	}
	t := &Trend{Schema: schema, Confidence: o.Confidence, Margin: o.Margin, Procedure: stats.Procedure, accept: o.Accept}
	docs = t.usable(docs)
	if len(docs) == 0 {
		return nil, errors.New("no result says when it was measured: " + strings.Join(t.LeftOut, "; "))
	}
	t.Results, t.From, t.To = len(docs), docs[0].Started.UTC(), docs[len(docs)-1].Started.UTC()
	if err := t.gather(docs, figures); err != nil {
		return nil, err
	}
	if len(t.Series) == 0 {
		return nil, errors.New("the results have none of the figures")
	}
	t.find(o)
	return t, nil
}

// usable are the documents that have a time, without repetitions, in order of time.
func (t *Trend) usable(docs []*report.Document) []*report.Document {
	var out []*report.Document
	for _, d := range docs {
		if d.Started.IsZero() || d.Started.Year() > 9999 || d.Started.Year() < 1 { // JSON has no such years
			t.LeftOut = append(t.LeftOut, d.Name()+": it does not say when it was measured")
			continue
		}
		if !d.Complete && len(d.Measured()) == 0 {
			t.unseen = append(t.unseen, unseen{d.Started, fmt.Sprintf("%s of %s: %s", d.Name(), day(d.Started),
				cmp.Or(d.Failure, "it was interrupted"))})
		}
		out = append(out, d)
	}
	slices.SortStableFunc(out, func(a, b *report.Document) int { return a.Started.Compare(b.Started) })
	out, twice := compare.Distinct(out)
	t.LeftOut = append(t.LeftOut, twice...)
	return out
}

// place is a series' key.
type place struct {
	series.Key
	setUp string
}

// nightLasts is the length of a night. Results of one night are one sample, because they depend on each other: a
// machine that is slow tonight is slow in each of them.
const nightLasts = 6 * time.Hour

// nights groups results in the order of their time: those of one set-up and one night.
func nights(docs []*report.Document) [][]*report.Document {
	var out [][]*report.Document
	newest := map[string]int{} // by set-up
	for _, d := range docs {
		setUp := compare.SetUp(d)
		i, known := newest[setUp]
		if !known || d.Started.Sub(out[i][0].Started) >= nightLasts {
			i = len(out)
			newest[setUp], out = i, append(out, nil)
		}
		out[i] = append(out[i], d)
	}
	return out
}

// gather makes the series.
func (t *Trend) gather(docs []*report.Document, figures []figure.Figure) error {
	at, lacks := map[place]int{}, map[place][]unseen{}
	for _, together := range nights(docs) {
		d := together[0]
		for _, one := range together {
			t.Note(one)
		}
		found, err := series.Collect(together, figures, "")
		if err != nil {
			return fmt.Errorf("%s: %w", d.Name(), err)
		}
		setUp := compare.SetUp(d)
		for _, s := range found.All {
			k := place{s.Key, setUp}
			if s.Lacks != "" {
				lacks[k] = append(lacks[k],
					unseen{d.Started, fmt.Sprintf("%s of %s (%s): %s", s, d.Name(), day(d.Started), s.Lacks)})
			}
			if len(s.Values) == 0 {
				continue
			}
			v := s.Of.OverRuns(s.Values) * s.Of.Scale
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.LeftOut = append(t.LeftOut, fmt.Sprintf("%s: %s is not a finite number", d.Name(), s))
				continue
			}
			i, ok := at[k]
			if !ok {
				i = len(t.Series)
				at[k] = i
				inUnit := s.Of
				inUnit.Scale = 1
				t.Series = append(t.Series, Series{
					Group: s.Group, Row: s.Row, Place: setUp,
					Figure: s.Of.Name, Unit: s.Of.Unit, Better: s.Of.Direction, of: inUnit,
				})
			}
			t.Series[i].Points = append(t.Series[i].Points, Point{
				Time: d.Started.UTC(), Name: d.Name(), Value: v, Runs: len(s.Values), Incomplete: s.Incomplete,
				Disturbed: float64(s.Disturbed) > 0.5*float64(len(s.Values)), doc: d,
			})
		}
	}
	for k := range at { // what other nights have
		t.unseen = append(t.unseen, lacks[k]...)
	}
	return nil
}

// Bounds of the orders drawn: for a long series fewer, so that it takes seconds, but enough to tell at all.
const (
	leastPermutations, mostPermutations = 199, 200_000
	mostSteps                           = 30_000_000
)

// find divides each series, and keeps the changes of those that stand among all (Benjamini-Hochberg over the first,
// largest change of each): the more series there are the more orders each test draws, so that one change among them can
// stand. Each draws the same orders, so that another series beside one changes nothing.
func (t *Trend) find(o compare.Options) {
	alpha := 1 - o.Confidence
	divides := make([]*divide, len(t.Series))
	firsts := make([]split, len(t.Series))
	ps := make([]float64, len(t.Series))
	for i := range t.Series {
		values := Values(t.Series[i].Points)
		wanted := max(999, int(25*float64(len(t.Series))/alpha))
		wanted = max(leastPermutations, min(wanted, mostPermutations, mostSteps/max(len(values), 1)))
		divides[i] = newDivide(values, alpha, wanted, rand.New(rand.NewPCG(0, 0)))
		ps[i] = 1
		if s, ok := divides[i].next(0, len(values)); ok {
			firsts[i], ps[i] = s, s.p
		}
	}
	for i, p := range stats.BenjaminiHochberg(ps) {
		if p <= stats.Level(o.Confidence, max(len(ps), 2)) { // one series is many places to split it
			t.Series[i].settle(divides[i].all(0, len(t.Series[i].Points), firsts[i]), o)
		}
	}
}

// settle describes the changes: each between the states beside it.
func (s *Series) settle(splits []split, o compare.Options) {
	bounds := slices.Concat([]int{0}, plain.Each(splits, func(s split) int { return s.at }), []int{len(s.Points)})
	var states []compare.Point
	for i, sp := range splits {
		p := s.between(s.Points[bounds[i]:sp.at], s.Points[sp.at:bounds[i+2]], o.Confidence)
		p.P = sp.p // the place was chosen for its difference, which the permutation test knows and a rank test does not
		states = append(states, p)
	}
	compare.Conclude(states, o.Margin, o.Confidence)
	for i, state := range states {
		last, first := s.Points[splits[i].at-1], s.Points[splits[i].at]
		_, changed := compare.Differences([]*report.Document{last.doc}, []*report.Document{first.doc})
		s.Changes = append(s.Changes,
			Change{At: splits[i].at, First: first.Time, Name: first.Name, Changed: changed, Point: state})
	}
}

// between compares some results of the series with later ones.
func (s *Series) between(before, after []Point, confidence float64) compare.Point {
	return compare.NewPoint(s.Group, s.Row, s.of, sideOf("earlier", before), sideOf("new", after), stats.Unpaired,
		confidence)
}

// Segments are the bounds of the states: indices of points, from each to before the next; the last is their number.
func (s *Series) Segments() []int {
	return slices.Concat([]int{0}, plain.Each(s.Changes, func(c Change) int { return c.At }), []int{len(s.Points)})
}
