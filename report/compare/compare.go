package compare

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/internal/series"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// Options are how to compare. The zero value takes the defaults shown.
type Options struct {
	Margin     float64        // the change up to which two figures are the same: 5 %
	Confidence float64        // of the verdicts, and of the intervals: 95 %
	Figures    []string       // "bw" for bandwidth tests, "p50" and "p99" for latency tests
	Unlike     bool           // compare unlike set-ups all the same
	By         string         // the one field of the plan that may differ: "qps"
	Accept     stats.Accepted // Disturbed: judge such points all the same
}

// Schema identifies a [Comparison] in JSON.
const Schema = "gobw.comparison/1"

// Comparison is what became of each figure between two sets of documents.
type Comparison struct {
	Schema     string            `json:"schema"`
	Old        []string          `json:"old"` // names of the documents
	New        []string          `json:"new"`
	Confidence float64           `json:"confidence"`
	Margin     float64           `json:"margin"`
	Procedure  string            `json:"procedure"` // how figures judged together are corrected
	By         string            `json:"by,omitempty"`
	Unlike     []Difference      `json:"unlike,omitempty"`  // that make set-ups incomparable
	Changed    []Difference      `json:"changed,omitempty"` // that a comparison may be about: versions, firmware
	Points     []Point           `json:"points"`
	OnlyOld    []string          `json:"only_old,omitempty"` // points that the other side does not have
	OnlyNew    []string          `json:"only_new,omitempty"`
	Unseen     []string          `json:"unseen,omitempty"`    // what new results should have, and why they have it not
	Otherwise  map[string]string `json:"otherwise,omitempty"` // of those: how the other side measured the same
	Checks     []report.Check    `json:"checks,omitempty"`    // what --expect says of it
	Sessions   bool              `json:"sessions,omitempty"`  // too few on a side: their runs are compared
	Finish     string            `json:"-"`                   // how to go on with what was interrupted
	Documented
}

// Documented is what a comparison or a trend says about its documents.
type Documented struct {
	Incomplete []string `json:"incomplete,omitempty"` // those that were interrupted
	LeftOut    []string `json:"left_out,omitempty"`   // those that were not used, and why
	Labels     []string `json:"labels,omitempty"`
}

// Note adds a document that is used.
func (t *Documented) Note(d *report.Document) {
	if !d.Complete {
		t.Incomplete = append(t.Incomplete, d.Name())
	}
	if d.Label != "" {
		t.Labels = plain.AddNew(t.Labels, d.Label)
	}
}

// Point is one figure at one point. Values are in Unit.
type Point struct {
	Group   string        `json:"group"` // the set-up
	Row     string        `json:"row"`   // the size, or the layout and strategy
	Figure  string        `json:"figure"`
	Unit    string        `json:"unit"`
	Old     stats.Summary `json:"old"`
	New     stats.Summary `json:"new"`
	WorseBy float64       `json:"worse_by"` // the change in the bad direction, negative where it got better
	stats.Effect
	stats.Verdict

	// Accepted is the verdict of a point with disturbed runs where --accept disturbed is given.
	Accepted stats.Verdict `json:"-"`

	sides [2]Side
}

// WithAccepted says what the verdict is if disturbed runs are accepted.
func (p *Point) WithAccepted() string {
	return fmt.Sprintf("with --accept disturbed the verdict is '%s'", p.Accepted.String())
}

// Control is the row of A against itself. The verdicts of the other rows take it into account.
const Control = "A against itself"

// UnlikeError refuses to compare set-ups that differ in what decides the figures.
type UnlikeError struct{ Differences []Difference }

func (e *UnlikeError) Error() string {
	lines := []string{"the set-ups are not alike:"}
	for _, d := range e.Differences {
		lines = append(lines, "  "+d.String())
	}
	return strings.Join(append(lines, "compare like with like, or give --unlike to compare all the same"), "\n")
}

// Documents matches the points of two sets of documents by their whole plan and judges all figures together.
func Documents(old, new []*report.Document, o Options) (*Comparison, error) {
	o.Margin, o.Confidence = cmp.Or(o.Margin, stats.DefaultMargin), cmp.Or(o.Confidence, stats.DefaultConfidence)
	if len(old) == 0 || len(new) == 0 {
		return nil, errors.New("a comparison needs results on both sides")
	}
	figures, err := Figures(o.Figures)
	if err != nil {
		return nil, err
	}
	if err := checkBy(o.By); err != nil {
		return nil, err
	}
	c := &Comparison{
		Schema: Schema, Confidence: o.Confidence, Margin: o.Margin, Procedure: stats.Procedure, By: o.By,
		Otherwise: map[string]string{}, Finish: "--resume",
	}
	old, c.LeftOut = Distinct(old)
	new, again := Distinct(new)
	c.LeftOut = append(c.LeftOut, again...)
	ofHosts := func(d *report.Document) bool { return d.Fabric != nil }
	if many := slices.ContainsFunc(old, ofHosts); many != slices.ContainsFunc(new, ofHosts) {
		kinds := map[bool]string{false: "a test between two ends", true: "a test of many hosts (gobw fabric)"}
		return nil, fmt.Errorf("OLD is %s and NEW is %s: they have no row in common; measure the same test for both",
			kinds[many], kinds[!many])
	} else if many {
		c.Finish = "measuring again" // gobw fabric has no --resume
	}
	for _, d := range slices.Concat(old, new) {
		if !d.Complete && d.Fabric == nil && len(d.Measured()) == 0 {
			return nil, fmt.Errorf("%s is INCOMPLETE and has no measurement: measure again, or leave it out", d.Name())
		}
	}
	c.Unlike, c.Changed = Differences(old, new)
	if len(c.Unlike) > 0 && !o.Unlike {
		return nil, &UnlikeError{c.Unlike}
	}
	starts := plain.Each(old, func(d *report.Document) int64 { return d.Started.UnixNano() })
	shared := slices.ContainsFunc(new,
		func(d *report.Document) bool { return slices.Contains(starts, d.Started.UnixNano()) })
	c.Old, c.New = plain.Each(old, (*report.Document).Name), plain.Each(new, (*report.Document).Name)
	for _, d := range slices.Concat(old, new) {
		c.Note(d)
	}
	before, err := series.Collect(old, figures, o.By)
	if err != nil {
		return nil, fmt.Errorf("the old side: %w", err)
	}
	after, err := series.Collect(new, figures, o.By)
	if err != nil {
		return nil, fmt.Errorf("the new side: %w", err)
	}
	c.match(before, after, o, shared)
	for i, p := range c.Points {
		if p.Cause == stats.Unclear && p.sides[0].What == "sessions" {
			c.Points[i].Settle = "more sessions on each side"
		}
		if ofHosts(old[0]) && (p.Cause == stats.Unclear || p.Cause == stats.TooFew) { // gobw fabric has no --runs
			c.Points[i].Settle = "a longer --time, or several runs on each side: a.json,b.json c.json,d.json"
		}
	}
	for _, f := range figures {
		if !slices.ContainsFunc(c.Points, func(p Point) bool { return p.Figure == f.Name }) {
			why := ""
			for _, s := range slices.Concat(before.All, after.All) {
				why = cmp.Or(why, plain.When(s.Figure == f.Name && s.Lacks != "", ": %s", s.Lacks))
			}
			c.LeftOut = append(c.LeftOut, f.Name+": not in both"+why)
		}
	}
	if len(c.Points) == 0 &&
		!slices.ContainsFunc(before.All, func(b *series.Series) bool { return len(figures) > 0 && after.Known(b) != nil }) {
		return nil, noCommonPoint(before, after, o.By)
	}
	return c, nil
}

// Distinct removes documents that are there twice, and says which.
func Distinct(docs []*report.Document) (kept []*report.Document, leftOut []string) {
	seen := map[string]*report.Document{}
	for _, d := range docs {
		id := fmt.Sprintf("%d %d %q %q %d", d.Started.UnixNano(), d.Finished.UnixNano(), d.Client.Host, d.Command,
			len(d.Records))
		if first := seen[id]; first != nil && !d.Started.IsZero() {
			leftOut = append(leftOut, d.Name()+": the same result as "+first.Name())
			continue
		}
		seen[id] = d
		kept = append(kept, d)
	}
	return kept, leftOut
}

// match makes a point of each series that both sides have, and judges them together. Where there are enough sessions,
// and both sides do not share one, each is one value.
func (c *Comparison) match(before, after *series.Collection, o Options, shared bool) { //nolint:revive // a fact
	for _, b := range before.Series {
		a := after.Find(b.Key)
		if a == nil {
			c.OnlyOld = append(c.OnlyOld, b.String())
			// how the other side measured the same row: of its series without a partner
			if _, differ := nearest(b, after,
				func(a *series.Series) bool { return a.Row == b.Row && before.Find(a.Key) == nil }); differ != nil {
				c.Otherwise[b.String()] = strings.Join(differ, "; ") + ": measure both with the same"
			}
			continue
		}
		group, row := b.Group, b.Row
		switch {
		case b.Row != a.Row: // by size
			row += " → " + a.Row
		case b.By != a.By:
			group += fmt.Sprintf(", %s %s → %s", o.By, cmp.Or(b.By, "none"), cmp.Or(a.By, "none"))
		}
		was, is := sideOf("old", b), sideOf("new", a)
		if enough := min(len(b.Sessions), len(a.Sessions)) >= stats.LeastRuns(o.Confidence); enough && !shared {
			was.take(b.Sessions)
			is.take(a.Sessions)
		} else if !shared {
			c.Sessions = true
		}
		c.Points = append(c.Points, NewPoint(group, row, b.Of, was, is, stats.Unpaired, o.Confidence))
	}
	for _, a := range after.Series {
		if before.Find(a.Key) == nil {
			c.OnlyNew = append(c.OnlyNew, a.String())
		}
	}
	// what other rows have, and this one on neither side; without --figure not each needs a p99
	for _, b := range before.All {
		a := after.Known(b)
		elsewhere := slices.ContainsFunc(c.Points, func(p Point) bool { return p.Figure == b.Figure })
		if len(b.Values) == 0 && a != nil && len(a.Values) == 0 && elsewhere && (b.Figure != "p99" || len(o.Figures) > 0) {
			c.Points = append(c.Points,
				NewPoint(b.Group, b.Row, b.Of, sideOf("old", b), sideOf("new", a), stats.Unpaired, o.Confidence))
		}
	}
	c.Judge(o.Accept)
}

// nearest is the series among others that differs in the fewest fields, and these fields; nil: none has the figure.
func nearest(s *series.Series, others *series.Collection, among func(*series.Series) bool) (near *series.Series,
	differ []string,
) {
	for _, o := range others.Series {
		if o.Figure == s.Figure && among(o) {
			if d := s.Point.Differences(o.Point); near == nil || len(d) < len(differ) {
				near, differ = o, d
			}
		}
	}
	return near, differ
}

// Side is one side of a point, and how it was measured.
type Side struct {
	Name, What string    // "old", "runs"
	Values     []float64 // in the figure's base unit
	Disturbed  int       // how many of them were
	Incomplete string    // what was interrupted; empty: nothing
	Lacks      string    // why a run is without the figure; empty: all have it
	Impossible string    // why the figure of a run cannot be true; empty: it can
}

// sideOf is a series as a side.
func sideOf(name string, s *series.Series) Side {
	return Side{
		Name: name, What: "runs", Values: s.Values, Disturbed: s.Disturbed,
		Incomplete: plain.When(s.Incomplete, "the %s side", name),
		Lacks:      s.Lacks, Impossible: s.Impossible,
	}
}

// take has the sessions count, and not their runs.
func (s *Side) take(sessions []series.Session) {
	s.What, s.Values, s.Disturbed = "sessions", nil, 0
	for _, one := range sessions {
		s.Values = append(s.Values, one.Value)
		if one.Disturbed {
			s.Disturbed++
		}
	}
}

// NewPoint compares a figure of two sides. effect computes their difference.
func NewPoint(group, row string, f figure.Figure, old, new Side,
	effect func(old, new []float64, confidence float64, better stats.Direction) stats.Effect, confidence float64,
) Point {
	shown := func(values []float64) stats.Summary { // the verdict tells of values that are not finite
		values = plain.Each(values, func(v float64) float64 { return v * f.Scale })
		if values = slices.DeleteFunc(values,
			func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }); len(values) == 0 {
			return stats.Summary{}
		}
		return stats.Summarize(values, confidence)
	}
	return Point{
		Group: group, Row: row, Figure: f.Name, Unit: f.Unit, Old: shown(old.Values), New: shown(new.Values),
		Effect: effect(old.Values, new.Values, confidence, f.Direction), sides: [2]Side{old, new},
	}
}

// Conclude judges points together, and makes them fit for JSON.
func Conclude(points []Point, margin, confidence float64) {
	effects := plain.Each(points, func(p Point) stats.Effect { return p.Effect })
	for i, v := range stats.Conclude(effects, margin, confidence) {
		points[i].Verdict, points[i].WorseBy = v, points[i].Finite()
	}
}

// Judge judges the points together. A point whose sides cannot be trusted cannot be told.
func (c *Comparison) Judge(accept stats.Accepted) {
	Conclude(c.Points, c.Margin, c.Confidence)
	for i := range c.Points {
		c.Points[i].Verdict = c.Points[i].trusted(accept, cmp.Or(c.Finish, "--resume"))
	}
}

// trusted is the verdict where both sides can be trusted.
func (p *Point) trusted(accept stats.Accepted, finish string) stats.Verdict {
	for _, s := range p.sides {
		if s.Incomplete != "" {
			return stats.Unknown(stats.Incomplete, finish+", or leave it out", "%s was interrupted", s.Incomplete)
		}
		if s.Impossible != "" {
			return stats.Unknown(stats.Impossible, "", "%s of a run cannot be true: %s", p.Figure, s.Impossible)
		}
	}
	if why := cmp.Or(p.sides[0].Lacks, p.sides[1].Lacks); why != "" { // those without it may be the slow ones
		return stats.Unknown(stats.Missing, "", "not every run has %s: %s", p.Figure, why)
	}
	if p.Word == stats.CannotTell && p.Cause != stats.Unclear {
		return p.Verdict
	}
	for _, s := range p.sides {
		if n := len(s.Values); 2*s.Disturbed > n && !accept.Has(stats.Disturbed) {
			p.Accepted = p.Verdict
			settle := "measuring again with " + plain.Realtime + plain.When(p.Word != stats.CannotTell, "; %s", p.WithAccepted())
			return stats.Unknown(stats.Disturbed, settle, "%.0f %% of the %s %s were disturbed",
				100*float64(s.Disturbed)/float64(n), s.Name, s.What)
		}
	}
	return p.Verdict
}

// figuresOf are the figures of all series, such as "p50, p99", or none.
func figuresOf(c *series.Collection) string {
	var names []string
	for _, s := range c.Series {
		names = plain.AddNew(names, s.Figure)
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}

// defaultsApart are the flags that make two tests alike if only fields differ whose defaults depend on transport, size
// or device; empty: another field differs, too.
func defaultsApart(differences []string) (flags string) {
	depth := slices.ContainsFunc(differences, func(d string) bool { return strings.HasPrefix(d, "tx_depth:") })
	for _, d := range differences {
		name, _, _ := strings.Cut(d, ":")
		flag, known := map[string]string{"tx_depth": " -t 1", "inline_bytes": " -I 0", "cq_mod": " -Q 100"}[name]
		if !known {
			return ""
		}
		if name != "cq_mod" || !depth { // the depth bounds it
			flags += flag
		}
	}
	return flags
}

// NotAloneError is that points differ in other fields than that of --by.
type NotAloneError struct {
	By, Old, New string
	Differences  []string
}

func (e *NotAloneError) Error() string {
	remedy := "Measure all with the same options"
	if flags := defaultsApart(e.Differences); flags != "" {
		remedy = "Defaults differ: measure all with" + flags
	}
	return fmt.Sprintf("%s %s cannot be compared with %s: %s. %s", e.By, e.New, e.Old,
		strings.Join(e.Differences, "; "), remedy)
}

// noCommonPoint says in which fields the first old series differs from the nearest of the new.
func noCommonPoint(before, after *series.Collection, by string) error {
	for _, b := range before.Series {
		near, differ := nearest(b, after, func(*series.Series) bool { return true })
		if near == nil {
			continue
		}
		if by != "" {
			return &NotAloneError{by, cmp.Or(b.By, "none"), cmp.Or(near.By, "none"), differ}
		}
		name, _, _ := strings.Cut(differ[0], ":")
		return fmt.Errorf("OLD and NEW have no common point. The nearest points differ in %s. "+
			"Measure with the same options%s", strings.Join(differ, "; "),
			plain.When(len(differ) == 1, ", or type 'compare OLD,NEW --by %s'", name))
	}
	return fmt.Errorf("OLD and NEW have no common figure (OLD: %s; NEW: %s): measure the same test for both",
		figuresOf(before), figuresOf(after))
}

// Figures finds figures by their names; one without a better side cannot be judged.
func Figures(names []string) ([]figure.Figure, error) {
	var out []figure.Figure
	for _, name := range names {
		f, ok := figure.Named(name)
		switch {
		case !ok && slices.Contains(figure.CounterNames(), name):
			f = figure.CounterOf("", name)
		case !ok:
			return nil, fmt.Errorf("no figure %q%s", name, plain.Choices(name, figure.Words()))
		case f.Direction == stats.Neither:
			return nil, fmt.Errorf("figure %q cannot be better or worse: compare bw, msgrate, p50 or p99", name)
		}
		out = append(out, f)
	}
	return out, nil
}
