package fabric

import (
	"cmp"
	"encoding/json"
	"io"
	"slices"

	"github.com/gobw/gobw/report/stats"
)

// SeriesKind is what the cells of a series have in common.
type SeriesKind string

// Kinds of series, in their order.
const (
	ByHops     SeriesKind = "path"      // all cells of a hop class
	BySender   SeriesKind = "sending"   // all that a host sent
	ByReceiver SeriesKind = "receiving" // all that a host received
	ByLink     SeriesKind = "link"      // all from one host to another
)

// Series is one figure of a run that can be followed from run to run: by name, never by rank, because next week's job has
// other ranks.
type Series struct {
	Kind SeriesKind `json:"kind"`
	Name string     `json:"name"` // "node3", "node3 -> node7", "same leaf"
	Rail string     `json:"rail"`
	// Values are the scheduled cells in the order of the rounds: bits/s, or median latencies in ns.
	Values []float64 `json:"values"`
	Median float64   `json:"median"`
	// Found is what the run's judge said of the host or link, such as "slow host"; empty: nothing.
	Found string `json:"found,omitempty"`
}

// seriesKey tells series apart.
type seriesKey struct {
	kind SeriesKind
	name string
	rail int
}

// Better is which way the test's figures are better.
func (t Test) Better() stats.Direction {
	if t.Latency() {
		return stats.LowerIsBetter
	}
	return stats.HigherIsBetter
}

// Series are the figures of a run: per rail and hop class, per host as sender and as receiver, and per link. Re-tests, which
// look at suspects alone, and rounds of many senders to one receiver are left out.
func (d *Document) Series() []Series {
	at := map[seriesKey]*Series{}
	d.each(func(i int, kind SeriesKind, name string) {
		k := seriesKey{kind, name, d.Cells.Rail[i]}
		if at[k] == nil {
			at[k] = &Series{Kind: kind, Name: name, Rail: d.rail(k.rail)}
		}
		at[k].Values = append(at[k].Values, d.Cells.Value[i])
	})
	for _, f := range d.Findings {
		if f.Kind == "not reproduced" {
			continue
		}
		for _, kind := range []SeriesKind{BySender, ByReceiver, ByLink} {
			name := f.From
			if kind == ByLink {
				name += " -> " + f.To
			}
			is := kind == ByLink && f.Subject == "link" || kind == BySender && (f.Subject == "sender" || f.Subject == "host") ||
				kind == ByReceiver && (f.Subject == "receiver" || f.Subject == "host")
			if s := at[seriesKey{kind, name, f.Rail}]; is && s != nil {
				s.Found = f.Kind
			}
		}
	}
	order := []SeriesKind{ByHops, BySender, ByReceiver, ByLink}
	out := make([]Series, 0, len(at))
	for _, s := range at {
		s.Median = stats.Summarize(s.Values, stats.DefaultConfidence).Median
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b Series) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)), cmp.Compare(a.Rail, b.Rail), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// each names the series that each measured cell of the schedule belongs to.
func (d *Document) each(to func(cell int, kind SeriesKind, name string)) {
	for i := range d.Cells.Len() {
		c := d.Cells
		r := d.Rounds[c.Round[i]]
		if c.State[i] != Measured || r.Retest || r.FanIn > 1 {
			continue
		}
		from, to2 := d.Hosts[c.From[i]], d.Hosts[c.To[i]]
		to(i, ByHops, d.hops(from, to2))
		to(i, BySender, from.Name)
		to(i, ByReceiver, to2.Name)
		to(i, ByLink, from.Name+" -> "+to2.Name)
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

// IsDocument tells from its beginning whether a file is a document of this package; no more of it is read than that takes.
func IsDocument(r io.Reader) bool {
	dec := json.NewDecoder(io.LimitReader(r, 256))
	for _, want := range []json.Token{json.Delim('{'), "format", Format} {
		if got, err := dec.Token(); err != nil || got != want {
			return false
		}
	}
	return true
}
