package fabric

import (
	"cmp"
	"slices"

	"github.com/gobw/gobw/report/stats"
)

// seriesKind is what the cells of a series have in common.
type seriesKind string

// Kinds of series, in their order.
const (
	byHops     seriesKind = "path"      // all cells of a hop class
	bySender   seriesKind = "sending"   // all that a host sent
	byReceiver seriesKind = "receiving" // all that a host received
	byLink     seriesKind = "link"      // all from one host to another
)

// series is one figure of a run that can be followed from run to run: by name, never by rank, because next week's job has
// other ranks.
type series struct {
	kind seriesKind
	name string // "node3", "node3 -> node7", "same leaf"
	rail string
	// values are the scheduled cells in the order of the rounds: bits/s, or median latencies in ns.
	values []float64
}

// seriesKey tells series apart.
type seriesKey struct {
	kind seriesKind
	name string
	rail int
}

// better is which way the test's figures are better.
func (t Test) better() stats.Direction {
	if t.Latency() {
		return stats.LowerIsBetter
	}
	return stats.HigherIsBetter
}

// series are the figures of a run: per rail and hop class, per host as sender and as receiver, and per link. Re-tests, which
// look at suspects alone, and rounds of many senders to one receiver are left out.
func (d *Document) series() []series {
	at := map[seriesKey]*series{}
	d.each(func(i int, kind seriesKind, name string) {
		k := seriesKey{kind, name, d.Cells.Rail[i]}
		if at[k] == nil {
			at[k] = &series{kind: kind, name: name, rail: d.rail(k.rail)}
		}
		at[k].values = append(at[k].values, d.Cells.Value[i])
	})
	order := []seriesKind{byHops, bySender, byReceiver, byLink}
	out := make([]series, 0, len(at))
	for _, s := range at {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b series) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.kind), slices.Index(order, b.kind)), cmp.Compare(a.rail, b.rail), cmp.Compare(a.name, b.name))
	})
	return out
}

// each names the series that each measured cell of the schedule belongs to.
func (d *Document) each(to func(cell int, kind seriesKind, name string)) {
	for i := range d.Cells.Len() {
		c := d.Cells
		r := d.Rounds[c.Round[i]]
		if c.State[i] != Measured || r.Retest || r.FanIn > 1 {
			continue
		}
		from, to2 := d.Hosts[c.From[i]], d.Hosts[c.To[i]]
		to(i, byHops, d.hops(from, to2))
		to(i, bySender, from.Name)
		to(i, byReceiver, to2.Name)
		to(i, byLink, from.Name+" -> "+to2.Name)
	}
}

// hops is the class of the path between two hosts.
func (d *Document) hops(a, b Host) string {
	switch {
	case len(d.Leaves) < 2:
		return "all"
	case a.Leaf == b.Leaf:
		return "same leaf"
	}
	return "between leaves"
}
