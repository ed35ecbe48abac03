package fabric

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// mostUnsettled is how many links that cannot be judged are shown, the largest drops first.
const mostUnsettled = 20

// Compare tells what became worse between two runs, this week's matrix and last week's: paths as a whole, each host as a
// sender and as a receiver, each link; hosts together, and links together. Hosts are matched by name. Of the links
// only those that changed are in the result, and those with the largest drops of which nothing can be claimed: most were
// measured once or twice. The intervals hold the scatter of cells within a run, not from day to day.
func Compare(old, new *Document, o compare.Options) (*compare.Comparison, error) {
	o.Margin, o.Confidence = cmp.Or(o.Margin, stats.DefaultMargin), cmp.Or(o.Confidence, stats.DefaultConfidence)
	c := &compare.Comparison{
		Old: []string{old.name()}, New: []string{new.name()}, Confidence: o.Confidence, Margin: o.Margin, Procedure: stats.Procedure,
		Unlike: old.unlike(new),
	}
	if len(c.Unlike) > 0 && !o.Unlike {
		return nil, &compare.UnlikeError{Differences: c.Unlike}
	}
	for _, d := range []*Document{old, new} {
		if d.Stopped != "" {
			c.Incomplete = append(c.Incomplete, d.name())
		}
	}
	before := map[[3]string]series{}
	key := func(s series) [3]string { return [3]string{string(s.kind), s.name, s.rail} }
	for _, s := range old.series() {
		before[key(s)] = s
	}
	var links []compare.Point
	for _, a := range new.series() {
		b, known := before[key(a)]
		if !known {
			if a.kind == bySender {
				c.OnlyNew = append(c.OnlyNew, a.where())
			}
			continue
		}
		delete(before, key(a))
		p := old.Test.point(b, a, o.Confidence)
		switch a.kind {
		case byLink:
			links = append(links, p)
			continue
		case bySender:
			c.Hosts++
		case byHops, byReceiver:
		}
		c.Points = append(c.Points, p)
	}
	for _, b := range before {
		if b.kind == bySender {
			c.OnlyOld = append(c.OnlyOld, b.where())
		}
	}
	slices.Sort(c.OnlyOld)
	if len(c.Points) == 0 {
		return nil, fmt.Errorf("no host is in both runs: before there were %s, now %s", Fold(old.goodHosts()), Fold(new.goodHosts()))
	}
	compare.Conclude(c.Points, o.Margin, o.Confidence)
	compare.Conclude(links, o.Margin, o.Confidence) // apart, or a million links would leave nothing to be told of a host
	c.Points = append(c.Points, notable(links, o.Margin)...)
	c.Labels = old.changes(new)
	return c, nil
}

// notable are the links that changed, and the largest drops among those that cannot be judged.
func notable(links []compare.Point, margin float64) []compare.Point {
	var out, unsettled []compare.Point
	for _, p := range links {
		switch {
		case p.Word == stats.Worse || p.Word == stats.Better:
			out = append(out, p)
		case p.Word == stats.CannotTell && p.WorseBy > margin:
			unsettled = append(unsettled, p)
		}
	}
	slices.SortStableFunc(unsettled, func(a, b compare.Point) int { return cmp.Compare(b.WorseBy, a.WorseBy) })
	return append(out, unsettled[:min(len(unsettled), mostUnsettled)]...)
}

// Brief leaves out the hosts and links that are the same, for people to read; paths stay. It says how many it left out.
func Brief(c *compare.Comparison) *compare.Comparison {
	out := *c
	out.Points = nil
	same := 0
	for _, p := range c.Points {
		if p.Word == stats.Same && !strings.HasPrefix(p.Group, string(byHops)) {
			same++
			continue
		}
		out.Points = append(out.Points, p)
	}
	slices.SortStableFunc(out.Points, func(a, b compare.Point) int {
		paths := func(p compare.Point) int {
			if strings.HasPrefix(p.Group, string(byHops)) {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(paths(a), paths(b)), cmp.Compare(a.Group, b.Group), cmp.Compare(b.WorseBy, a.WorseBy))
	})
	out.Labels = append(slices.Clone(c.Labels), fmt.Sprintf("%s of hosts and links the same, not shown", plain.Plural(same, "figure")))
	return &out
}

func (s series) where() string { return s.name + " on " + orNone(s.rail) }

func orNone(rail string) string { return cmp.Or(rail, "its device") }

// point is one series in both runs, without a verdict.
func (t Test) point(b, a series, confidence float64) compare.Point {
	unit, scale, figure := "Gb/s", 1e-9, "bandwidth"
	if t.Latency() {
		unit, scale, figure = "us", 1e-3, "latency"
	}
	scaled := func(all []float64) []float64 { return plain.Each(all, func(v float64) float64 { return v * scale }) }
	return compare.Point{
		Group: fmt.Sprintf("%s, %s", a.kind, orNone(a.rail)), Row: a.name, Figure: figure, Unit: unit,
		Old: stats.Summarize(scaled(b.values), confidence), New: stats.Summarize(scaled(a.values), confidence),
		Effect: stats.Unpaired(b.values, a.values, confidence, t.better()),
	}
}

// name is a run in a few words.
func (d *Document) name() string {
	return fmt.Sprintf("%s of %s, %s", cmp.Or(d.Pattern, "run"), d.Began.UTC().Format("2006-01-02 15:04"), plain.Plural(len(d.Hosts), "host"))
}

// unlike is what decides the figures and differs.
func (d *Document) unlike(o *Document) []compare.Difference {
	var out []compare.Difference
	for _, f := range []struct {
		name     string
		old, new any
	}{
		{"operation", d.Test.Operation, o.Test.Operation},
		{"kind", d.Test.Kind, o.Test.Kind},
		{"transport", d.Test.Transport, o.Test.Transport},
		{"size", d.Test.SizeBytes, o.Test.SizeBytes},
		{"queue pairs", d.Test.QPs, o.Test.QPs},
		{"one way", d.Test.OneWay, o.Test.OneWay},
		{"software device", d.Software, o.Software},
		{"pattern", d.Pattern, o.Pattern},
	} {
		if f.old != f.new {
			out = append(out, compare.Difference{What: f.name, Old: fmt.Sprint(f.old), New: fmt.Sprint(f.new)})
		}
	}
	return out
}

// changes are what became of hosts and findings from one run to the next.
func (d *Document) changes(o *Document) []string {
	var out []string
	was := map[string]string{}
	for _, h := range d.Hosts {
		was[h.Name] = h.State
	}
	for _, h := range o.Hosts {
		if before, known := was[h.Name]; known && before != h.State {
			out = append(out, plain.Text(fmt.Sprintf("%s: %s, now %s %s", h.Name, before, h.State, h.Reason)))
		}
	}
	found := func(d *Document) map[string]bool {
		all := map[string]bool{}
		for _, f := range d.Findings {
			if f.Bad {
				all[f.Kind+": "+f.where()] = true
			}
		}
		return all
	}
	before, after := found(d), found(o)
	for f := range after {
		if !before[f] {
			out = append(out, plain.Text("new finding: "+f))
		}
	}
	for f := range before {
		if !after[f] {
			out = append(out, plain.Text("no longer found: "+f))
		}
	}
	slices.Sort(out)
	return out
}
