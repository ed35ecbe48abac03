package noncontig

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/noncontig"
	"github.com/gobw/gobw/report/plain"
)

// gridMeter tells on stderr how far a grid has come: the time it takes in lines, by the pace so far, and on a terminal the
// time left in a line that is written anew.
type gridMeter struct {
	bar         *output.Progress
	out         output.Streams
	config      output.Config
	done, total int
	started     time.Time
	told        time.Duration // the time that was told last; 0: none by pace
}

func newGridMeter(out output.Streams, c output.Config, total int) *gridMeter {
	return &gridMeter{bar: output.NewProgress(out, c.Quiet), out: out, config: c, total: total, started: time.Now()}
}

// The pace is told when it has shown in so many measurements, or so few and for so long; again when it has changed by half
// or more.
const (
	pacePoints    = 30
	pacePointsMin = 4
	paceTime      = 10 * time.Second
)

// show tells what is measured now, the time left by the pace so far and, if that is news, how long the whole grid takes.
func (g *gridMeter) show(p *noncontig.Point) {
	elapsed := time.Since(g.started)
	whole := time.Duration(float64(elapsed) * float64(g.total) / float64(max(g.done, 1)))
	known := g.done >= pacePoints || g.done >= pacePointsMin && elapsed >= paceTime
	if news := g.told == 0 || whole >= g.told*3/2 || whole <= g.told/2; known && news && !g.config.Quiet {
		g.told = whole
		g.bar.Clear()
		fmt.Fprintf(g.out.Err, "gobw: all %d measurements take about %v%s\n", g.total, whole.Round(time.Second), plain.When(g.config.Document() != "", "; Ctrl-C stops, --resume continues"))
	}
	left := plain.When(g.done > 0, "  %v left", (whole - elapsed).Round(time.Second))
	g.bar.Write(fmt.Sprintf("[%d/%d]%s  %s %s, %s", g.done+1, g.total, left, p.Shape, p.Strategy, p.Layout))
	g.done++
}

// round says after two rounds what spoils most of the runs, while there is time to start again.
func (g *gridMeter) round(run int, n *noncontig.Grid) {
	if g.config.Quiet || run != 2 || n.Setup.Priority != "" {
		return
	}
	if text := n.Disturbed(0.5, "measurements so far"); text != "" {
		g.bar.Clear()
		fmt.Fprintf(g.out.Err, "gobw: %s\n", text)
	}
}

// loadGrid loads a grid; nil where the file holds another kind of result.
func loadGrid(path string) (*report.Document, error) {
	doc, err := report.Load(path)
	if err == nil && doc.Noncontig == nil {
		return nil, nil //nolint:nilnil // another kind
	}
	return doc, err
}

// resume takes over what the earlier grid measured and leaves the rest to do.
func (e *experiment) resume() error {
	old, n := e.previous.Noncontig, e.doc.Noncontig
	a, b := old.Setup, n.Setup
	a.Runs, b.Runs = 0, 0
	a.FootprintBytes, b.FootprintBytes = 0, 0 // of the layouts, which may be others now
	a.SegmentBytes, b.SegmentBytes = a.Segment(), b.Segment()
	differ := plain.Each(plan.Differences(a, b), func(d plan.Difference) string { return fmt.Sprintf("%s was %s, is %s", d.Field, d.First, d.Second) })
	if len(differ) > 0 {
		return fmt.Errorf("--resume: the grid in %s was measured otherwise: %s", e.config.Output.ToResume(), strings.Join(differ, "; "))
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

// done tells whether a round is measured. Of one that lacks a strategy nothing is kept: what is measured now would not be back to
// back with the rest.
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
