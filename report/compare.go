package report

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// CompareVerdict says whether a figure changed.
type CompareVerdict string

// Verdicts of a comparison. Same means that no difference was shown at the level asked for, not that there is none.
const (
	Better     CompareVerdict = "better"
	Worse      CompareVerdict = "worse"
	Same       CompareVerdict = "same"
	TooFewRuns CompareVerdict = "too few runs"
)

// CompareOptions are how to compare. The zero value takes the defaults shown.
type CompareOptions struct {
	// Alpha is the chance of calling equal figures different: 0.01, so that a gate over many points stays quiet.
	Alpha      float64
	Confidence float64  // of the intervals: 0.95
	Figures    []string // "bw" for bandwidth tests, "p50" and "p99" for latency tests
	Unlike     bool     // compare unlike set-ups all the same
}

// Comparison is what became of each figure between two sets of documents.
type Comparison struct {
	Old        []string          `json:"old"` // names of the documents
	New        []string          `json:"new"`
	Alpha      float64           `json:"alpha"`
	Unlike     []SetupDifference `json:"unlike,omitempty"`  // that make set-ups incomparable
	Changed    []SetupDifference `json:"changed,omitempty"` // that a comparison may be about: versions, firmware
	Points     []ComparedPoint   `json:"points"`
	Geomeans   []Geomean         `json:"geomeans,omitempty"`
	OnlyOld    []string          `json:"only_old,omitempty"` // points that the other side does not have
	OnlyNew    []string          `json:"only_new,omitempty"`
	Incomplete []string          `json:"incomplete,omitempty"` // documents that were interrupted
	Labels     []string          `json:"labels,omitempty"`
}

// SetupDifference is one thing that is not the same on both sides.
type SetupDifference struct {
	What string `json:"what"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

func (d SetupDifference) String() string {
	return fmt.Sprintf("%s: %s before, %s now", d.What, quoteEmpty(d.Old), quoteEmpty(d.New))
}

func quoteEmpty(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// ComparedPoint is one figure at one point. Values are in Unit.
type ComparedPoint struct {
	Group   string         `json:"group"` // the set-up
	Row     string         `json:"row"`   // the size, or the layout and strategy
	Figure  string         `json:"figure"`
	Unit    string         `json:"unit"`
	Old     Summary        `json:"old"`
	New     Summary        `json:"new"`
	Change  float64        `json:"change"`   // (new - old) / old, of the medians
	WorseBy float64        `json:"worse_by"` // the change in the bad direction, negative where it got better
	P       float64        `json:"p"`        // two-sided Mann-Whitney
	Verdict CompareVerdict `json:"verdict"`
}

// Geomean is the geometric mean of new over old medians of one figure, over all its points.
type Geomean struct {
	Figure  string  `json:"figure"`
	Points  int     `json:"points"`
	Ratio   float64 `json:"ratio"`
	WorseBy float64 `json:"worse_by"`
}

// UnlikeError refuses to compare set-ups that differ in what decides the figures.
type UnlikeError struct{ Differences []SetupDifference }

func (e *UnlikeError) Error() string {
	lines := []string{"the set-ups are not alike:"}
	for _, d := range e.Differences {
		lines = append(lines, "  "+d.String())
	}
	return strings.Join(append(lines, "compare like with like, or give --unlike to compare all the same"), "\n")
}

// series is the values of one figure at one point, over runs and documents.
type series struct {
	group, row string
	figure     figureDefinition
	values     []float64
}

func (s series) key() string { return s.group + "\x00" + s.row + "\x00" + s.figure.name }

// Compare matches the points of two sets of documents by configuration and tests each figure for a difference.
func Compare(old, new []*Document, o CompareOptions) (*Comparison, error) {
	if o.Alpha == 0 {
		o.Alpha = 0.01
	}
	if o.Confidence == 0 {
		o.Confidence = DefaultConfidence
	}
	if len(old) == 0 || len(new) == 0 {
		return nil, errors.New("a comparison needs results on both sides")
	}
	for _, name := range o.Figures {
		if _, ok := figureNamed(name); !ok {
			return nil, fmt.Errorf("no figure %q%s", name, suggest(name, figureWords()))
		}
	}
	c := &Comparison{Alpha: o.Alpha}
	c.Unlike, c.Changed = differences(old, new)
	if len(c.Unlike) > 0 && !o.Unlike {
		return nil, &UnlikeError{c.Unlike}
	}
	for i, d := range slices.Concat(old, new) {
		if i < len(old) {
			c.Old = append(c.Old, name(d))
		} else {
			c.New = append(c.New, name(d))
		}
		if !d.Complete {
			c.Incomplete = append(c.Incomplete, name(d))
		}
		if d.Label != "" && !slices.Contains(c.Labels, d.Label) {
			c.Labels = append(c.Labels, d.Label)
		}
	}
	before, after := collect(old, o.Figures), collect(new, o.Figures)
	ratios := map[string][]float64{}
	var order []figureDefinition
	for _, b := range before {
		at := slices.IndexFunc(after, func(s series) bool { return s.key() == b.key() })
		if at < 0 {
			c.OnlyOld = append(c.OnlyOld, b.String())
			continue
		}
		p, err := comparePoint(b, after[at], o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b, err)
		}
		c.Points = append(c.Points, p)
		if p.Old.Median > 0 && p.New.Median > 0 {
			if len(ratios[p.Figure]) == 0 {
				order = append(order, b.figure)
			}
			ratios[p.Figure] = append(ratios[p.Figure], p.New.Median/p.Old.Median)
		}
	}
	for _, a := range after {
		if !slices.ContainsFunc(before, func(s series) bool { return s.key() == a.key() }) {
			c.OnlyNew = append(c.OnlyNew, a.String())
		}
	}
	if len(c.Points) == 0 {
		return nil, noCommonPoint(c)
	}
	for _, f := range order {
		g := Geomean{Figure: f.name, Points: len(ratios[f.name]), Ratio: GeometricMean(ratios[f.name])}
		g.WorseBy = -float64(f.direction) * (g.Ratio - 1)
		c.Geomeans = append(c.Geomeans, g)
	}
	return c, nil
}

func noCommonPoint(c *Comparison) error {
	first := func(s []string) string {
		if len(s) == 0 {
			return "nothing"
		}
		return s[0]
	}
	return fmt.Errorf("no point is in both: before there is %s (of %d), now %s (of %d); measure the same sizes and options",
		first(c.OnlyOld), len(c.OnlyOld), first(c.OnlyNew), len(c.OnlyNew))
}

func (s series) String() string { return s.group + ", " + s.row + ": " + s.figure.name }

func comparePoint(old, new series, o CompareOptions) (ComparedPoint, error) {
	scaled := func(vs []float64) []float64 {
		out := make([]float64, len(vs))
		for i, v := range vs {
			out[i] = v * old.figure.scale
		}
		return out
	}
	a, b := scaled(old.values), scaled(new.values)
	p := ComparedPoint{
		Group: old.group, Row: old.row, Figure: old.figure.name, Unit: old.figure.unit,
		Old: Summarize(a, o.Confidence), New: Summarize(b, o.Confidence), Verdict: Same,
	}
	_, rank, err := MannWhitney(a, b)
	if err != nil {
		return p, err
	}
	p.P = rank
	if p.Old.Median != 0 {
		p.Change = p.New.Median/p.Old.Median - 1
	} else if p.New.Median != 0 {
		p.Change = math.Copysign(1, p.New.Median)
	}
	p.WorseBy = -float64(old.figure.direction) * p.Change
	switch {
	case SmallestP(len(a), len(b)) >= o.Alpha:
		p.Verdict = TooFewRuns
	case p.P < o.Alpha && p.WorseBy > 0:
		p.Verdict = Worse
	case p.P < o.Alpha && p.WorseBy < 0:
		p.Verdict = Better
	}
	return p, nil
}

// collect gathers the figures of documents by point, in the order of first appearance.
func collect(docs []*Document, figures []string) []series {
	var out []series
	add := func(s series, v float64) {
		at := slices.IndexFunc(out, func(x series) bool { return x.key() == s.key() })
		if at < 0 {
			at = len(out)
			out = append(out, s)
		}
		out[at].values = append(out[at].values, v)
	}
	for _, d := range docs {
		for i := range d.Records {
			r := &d.Records[i]
			for _, name := range chosen(r, figures) {
				f, _ := figureNamed(name)
				if v, ok := f.get(r); ok {
					title := r.Setup().Title()
					if r.CQMod > 1 {
						title += fmt.Sprintf(", signaled every %d", r.CQMod)
					}
					add(series{group: title, row: fmt.Sprintf("%d B", r.SizeBytes), figure: f}, v)
				}
			}
		}
		if d.Noncontig == nil {
			continue
		}
		goodput := figureDefinition{name: "goodput", direction: higherIsGood, unit: "Gb/s", scale: 1e-9}
		for i := range d.Noncontig.Points {
			p := &d.Noncontig.Points[i]
			for _, run := range p.Runs {
				add(series{group: "non-contiguous, " + p.Shape + ", " + d.Noncontig.Setup.Cache, row: p.Layout + " " + p.Strategy, figure: goodput}, run.GoodputBitsPerS)
			}
		}
	}
	return out
}

func chosen(r *Record, figures []string) []string {
	switch {
	case len(figures) > 0:
		return figures
	case r.Kind == "latency":
		return []string{"p50", "p99"}
	}
	return []string{"bw"}
}

// differences between set-ups: those that make figures incomparable, and those a comparison may be about.
func differences(old, new []*Document) (unlike, changed []SetupDifference) {
	type fact struct {
		what   string
		refuse bool
		get    func(e *Environment) string
	}
	facts := []fact{
		{"CPU", true, func(e *Environment) string { return e.CPU }},
		{"architecture", true, func(e *Environment) string { return e.Arch }},
		{"number of CPUs", true, func(e *Environment) string { return fmt.Sprint(e.CPUs) }},
		{"device", true, func(e *Environment) string { return e.Device }},
		{"provider", true, func(e *Environment) string { return e.Provider }},
		{"link rate", true, func(e *Environment) string { return number(e.LinkBitsPerS/1e9) + " Gb/s" }},
		{"link layer", true, func(e *Environment) string { return e.LinkLayer }},
		{"PCIe width", true, func(e *Environment) string { return fmt.Sprint(e.PCILinkWidth) }},
		{"emulated fabric", true, func(e *Environment) string { return e.Fabric }},
		{"host", false, func(e *Environment) string { return e.Host }},
		{"system", false, func(e *Environment) string { return e.OS }},
		{"governor", false, func(e *Environment) string { return e.Governor }},
		{"pinned CPU", false, func(e *Environment) string { return fmt.Sprint(e.PinnedCPU) }},
		{"driver", false, func(e *Environment) string { return e.Driver }},
		{"firmware", false, func(e *Environment) string { return e.Firmware }},
		{"gobw", false, func(e *Environment) string { return e.Version }},
		{"Go", false, func(e *Environment) string { return e.GoVersion }},
	}
	if a, b := labels(old), labels(new); a != b {
		unlike = append(unlike, SetupDifference{What: "label", Old: a, New: b})
	}
	for _, end := range []struct {
		name string
		of   func(d *Document) *Environment
	}{
		{"client", func(d *Document) *Environment { return &d.Client }},
		{"server", func(d *Document) *Environment { return d.Server }},
	} {
		all := func(docs []*Document, f fact) string {
			var values []string
			for _, d := range docs {
				if e := end.of(d); e != nil {
					if v := f.get(e); !slices.Contains(values, v) {
						values = append(values, v)
					}
				}
			}
			slices.Sort(values)
			return strings.Join(values, " and ")
		}
		for _, f := range facts {
			a, b := all(old, f), all(new, f)
			if a == b && (!f.refuse || !strings.Contains(a, " and ") || f.what == "CPU") {
				continue
			}
			d := SetupDifference{What: end.name + " " + f.what, Old: a, New: b}
			if f.refuse {
				unlike = append(unlike, d)
			} else {
				changed = append(changed, d)
			}
		}
	}
	return unlike, changed
}

// labels of documents, each once: software devices and emulated fabrics are named there.
func labels(docs []*Document) string {
	var out []string
	for _, d := range docs {
		if !slices.Contains(out, d.Label) {
			out = append(out, d.Label)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " and ")
}
