package noncontig

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/noncontig"
	"github.com/gobw/gobw/report/plain"
)

// loadGrid loads a grid; nil where the file holds another kind of result.
func loadGrid(path string) (*report.Document, error) {
	doc, err := report.Load(path)
	if err == nil && doc.Noncontig == nil {
		return nil, nil //nolint:nilnil // another kind
	}
	return doc, err
}

// flagOf names the flags that set what a grid has under another name.
var flagOf = map[string]string{
	"min_seconds": "--duration (-D) in seconds", "window": "--tx-depth (-t)", "segment_bytes": "--segment",
}

// resume takes over what the earlier grid measured and leaves the rest to do.
func (e *experiment) resume() error {
	old, n := e.previous.Noncontig, e.doc.Noncontig
	a, b := old.Setup, n.Setup
	a.Runs, b.Runs = 0, 0
	a.FootprintBytes, b.FootprintBytes = 0, 0 // of the layouts, which may be others now
	a.SegmentBytes, b.SegmentBytes = a.Segment(), b.Segment()
	differ := plain.Each(plan.Differences(a, b), func(d plan.Difference) string {
		return fmt.Sprintf("%s was %s, is %s", cmp.Or(flagOf[d.Field], d.Field), d.First, d.Second)
	})
	if was, is := digest(old), digest(n); was != is {
		differ = append(differ, fmt.Sprintf("it moved %s, now %s", was, is))
	}
	if len(differ) > 0 {
		return fmt.Errorf("--resume: the grid in %s was measured otherwise: %s", e.config.Output.ToResume(),
			strings.Join(differ, "; "))
	}
	before := e.previous
	e.doc.Started, e.doc.Client, e.doc.Server, e.doc.Label = before.Started, before.Client, before.Server, before.Label
	for i := range old.Points {
		p := &old.Points[i]
		at := slices.IndexFunc(n.Points, func(q noncontig.Point) bool { return samePoint(p, &q) })
		if at < 0 {
			n.Points = append(n.Points, *p)
			continue
		}
		n.Points[at].Runs = p.Runs
	}
	e.todo = slices.DeleteFunc(e.todo, e.done)
	return nil
}

// digest names what a grid moves.
func digest(n *noncontig.Grid) string {
	if n.List == nil {
		return "layouts"
	}
	return fmt.Sprintf("the list with the digest %.12s", n.List.Digest)
}

// done tells whether a round is measured. Of one that lacks a strategy nothing is kept: what is measured now
// would not be back to back with the rest.
func (e *experiment) done(r round) bool {
	if r.run < 0 {
		return false
	}
	if !slices.ContainsFunc(r.arms, func(a arm) bool { return !slices.ContainsFunc(e.point(a).Runs, r.has) }) {
		return true
	}
	for _, a := range r.arms {
		e.point(a).Runs = slices.DeleteFunc(e.point(a).Runs, r.has)
	}
	return false
}
