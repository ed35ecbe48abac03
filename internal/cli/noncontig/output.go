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
	bar     *output.Progress
	out     output.Streams
	quiet   bool
	remedy  string // what to do where it takes too long
	total   int
	started time.Time
	told    time.Duration // the time that was told last; 0: none by pace
}

func newGridMeter(out output.Streams, c output.Config, total int) *gridMeter {
	remedy := plain.When(c.Document() != "", "; Ctrl-C stops, --resume continues")
	return &gridMeter{bar: output.NewProgress(out, c.Quiet), out: out, quiet: c.Quiet, remedy: remedy, total: total, started: time.Now()}
}

// The pace is told when it has shown in so many measurements, or so few and for so long; again when it has changed by half
// or more.
const (
	pacePoints    = 30
	pacePointsMin = 4
	paceTime      = 10 * time.Second
)

// show tells what is measured now, and the time left by the pace so far.
func (g *gridMeter) show(i int, p *noncontig.Point) {
	elapsed := time.Since(g.started)
	whole := time.Duration(float64(elapsed) * float64(g.total) / float64(max(i, 1)))
	if i >= pacePoints || i >= pacePointsMin && elapsed >= paceTime {
		g.pace(whole)
	}
	g.bar.Write(fmt.Sprintf("[%d/%d] %s %s, %s", i+1, g.total, p.Shape, p.Strategy, p.Layout) + plain.When(i > 0, "  %v left", (whole-elapsed).Round(time.Second)))
}

// round says after two rounds what spoils most of the runs, while there is time to start again.
func (g *gridMeter) round(run int, n *noncontig.Grid) {
	if g.quiet || run != 2 || n.Setup.Priority != "" {
		return
	}
	if text := n.Disturbed(0.5); text != "" {
		g.bar.Clear()
		fmt.Fprintf(g.out.Err, "gobw: %s\n", text)
	}
}

// pace tells how long the whole grid takes, if that is news.
func (g *gridMeter) pace(whole time.Duration) {
	if g.quiet || g.told > 0 && whole < g.told*3/2 && whole > g.told/2 {
		return
	}
	g.told = whole
	g.bar.Clear()
	fmt.Fprintf(g.out.Err, "gobw: %d measurements, about %v%s\n", g.total, whole.Round(time.Second), g.remedy)
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
	e.dropBroken()
	e.todo = slices.DeleteFunc(e.todo, func(m measurement) bool {
		return m.run >= 0 && slices.ContainsFunc(n.Points[m.point].Runs, func(r noncontig.Run) bool { return r.Round == m.run+1 })
	})
	return nil
}

// dropBroken drops the rounds of which a strategy is missing: what is measured now is not back to back with the rest of them.
func (e *experiment) dropBroken() {
	n := e.doc.Noncontig
	type round struct{ cell, run int }
	missing := map[round]bool{}
	for i := range e.todo {
		m := &e.todo[i]
		if m.run >= 0 && !slices.ContainsFunc(n.Points[m.point].Runs, func(r noncontig.Run) bool { return r.Round == m.run+1 }) {
			missing[round{m.cell, m.run}] = true
		}
	}
	for i := range e.todo {
		m := &e.todo[i]
		p := &n.Points[m.point]
		p.Runs = slices.DeleteFunc(p.Runs, func(r noncontig.Run) bool { return r.Round == m.run+1 && missing[round{m.cell, m.run}] })
	}
}
