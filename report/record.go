package report

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Setup is the configuration of a record, without its size and run: records of one Setup make one table and one curve.
type Setup struct {
	Operation   string
	Kind        string
	Transport   string
	Direction   string
	QPs         int
	TxDepth     int
	PostList    int
	InlineBytes int
	Events      bool
	MTU         int
	HalfTrip    bool
	Immediate   bool
	Atomic      string
	Outstanding int
	SRQ         bool
	RateLimit   float64 // bit/s
	GapNs       float64
}

// Point is a Setup at one size: what repetitions share and what comparisons match. How often a message is signaled
// belongs here, as its default depends on the size.
type Point struct {
	Setup
	SizeBytes uint64
	CQMod     int
}

// Setup of the record.
func (r *Record) Setup() Setup {
	return Setup{
		Operation: r.Operation, Kind: r.Kind, Transport: r.Transport, Direction: r.Direction, QPs: r.QPs,
		TxDepth: r.TxDepth, PostList: r.PostList, InlineBytes: r.InlineBytes, Events: r.Events,
		MTU: r.MTU, HalfTrip: r.RoundTripHalf, Immediate: r.Immediate, Atomic: r.Atomic, Outstanding: r.Outstanding, SRQ: r.SRQ,
		RateLimit: r.RateLimitBitsPerS, GapNs: r.GapNs,
	}
}

// Point of the record.
func (r *Record) Point() Point {
	return Point{Setup: r.Setup(), SizeBytes: r.SizeBytes, CQMod: r.CQMod}
}

// IsLatency tells a latency test from a bandwidth test.
func (s Setup) IsLatency() bool { return s.Kind == "latency" }

// Title says the set-up in words: "write bandwidth, RC, 1 QP, MTU 1024, tx depth 128".
func (s Setup) Title() string {
	parts := []string{s.Operation + " " + s.Kind, s.Transport}
	switch {
	case s.IsLatency():
	case s.Direction == "both":
		parts = append(parts, "both directions")
	case s.Direction == "in":
		parts = append(parts, "inbound")
	}
	if s.QPs == 1 {
		parts = append(parts, "1 QP")
	} else {
		parts = append(parts, fmt.Sprintf("%d QPs", s.QPs))
	}
	if s.MTU > 0 {
		parts = append(parts, fmt.Sprintf("MTU %d", s.MTU))
	}
	if !s.IsLatency() && s.TxDepth > 0 {
		parts = append(parts, fmt.Sprintf("tx depth %d", s.TxDepth))
	}
	if s.PostList > 1 {
		parts = append(parts, fmt.Sprintf("posted in lists of %d", s.PostList))
	}
	if s.InlineBytes > 0 {
		parts = append(parts, fmt.Sprintf("inline %d B", s.InlineBytes))
	}
	if s.Immediate {
		parts = append(parts, "with immediate")
	}
	if s.Atomic == "compare-and-swap" {
		parts = append(parts, s.Atomic)
	}
	if s.Outstanding > 0 {
		parts = append(parts, fmt.Sprintf("%d outstanding", s.Outstanding))
	}
	if s.SRQ {
		parts = append(parts, "shared receive queue")
	}
	if s.RateLimit > 0 {
		parts = append(parts, fmt.Sprintf("at most %g Gb/s", s.RateLimit/1e9))
	}
	if s.GapNs > 0 {
		parts = append(parts, fmt.Sprintf("a pause of %v before each message", time.Duration(s.GapNs)))
	}
	if s.Events {
		parts = append(parts, "events")
	}
	return strings.Join(parts, ", ")
}

// String is the point in a few words: "write bandwidth RC 65536 B".
func (p Point) String() string {
	s := fmt.Sprintf("%s %s %s %d B", p.Operation, p.Kind, p.Transport, p.SizeBytes)
	if p.QPs > 1 {
		s += fmt.Sprintf(" %d QPs", p.QPs)
	}
	if p.Direction == "both" && !p.IsLatency() {
		s += " both directions"
	}
	return s
}

// group is the records of one set-up, in the order in which they were measured, gathered by size.
type group struct {
	setup Setup
	rows  []row
}

// row is the repetitions of one point.
type row struct {
	size  uint64
	cqMod int
	runs  []*Record
}

// signaled says how often messages are signaled in a group: "100", or "100 or 1" where it depends on the size.
func (g group) signaled() string {
	var out []string
	for _, r := range g.rows {
		if s := strconv.Itoa(max(r.cqMod, 1)); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return strings.Join(out, " or ")
}

// verified says which messages of a group had their data compared, for its title.
func (g group) verified() string {
	for _, r := range g.rows {
		for _, rec := range r.runs {
			switch rec.Verified {
			case "ends":
				return ", first and last message verified"
			case "all":
				return ", every message verified"
			}
		}
	}
	return ""
}

// groups gathers the records of a document by set-up and size, keeping the order of first appearance.
func groups(records []Record) []group {
	var out []group
	at := map[Setup]int{}
	for i := range records {
		r := &records[i]
		key := r.Setup()
		g, seen := at[key]
		if !seen {
			g = len(out)
			at[key] = g
			out = append(out, group{setup: key})
		}
		rows := &out[g].rows
		j := slices.IndexFunc(*rows, func(x row) bool { return x.size == r.SizeBytes && x.cqMod == r.CQMod })
		if j < 0 {
			j = len(*rows)
			*rows = append(*rows, row{size: r.SizeBytes, cqMod: r.CQMod})
		}
		(*rows)[j].runs = append((*rows)[j].runs, r)
	}
	return out
}

// values of one figure over the runs that have it.
func (r row) values(f func(*Record) (float64, bool)) []float64 {
	var out []float64
	for _, rec := range r.runs {
		if v, ok := f(rec); ok {
			out = append(out, v)
		}
	}
	return out
}

// latency of the row: of the only run, or the median of each figure over the runs, but for the least and the greatest of
// all samples.
func (r row) latency() *Latency {
	var all []*Latency
	for _, rec := range r.runs {
		if rec.Latency != nil {
			all = append(all, rec.Latency)
		}
	}
	if len(all) == 0 {
		return nil
	}
	median := func(f func(*Latency) *float64) *float64 {
		var vs []float64
		for _, l := range all {
			if v := f(l); v != nil {
				vs = append(vs, *v)
			}
		}
		if len(vs) == 0 {
			return nil
		}
		m := Summarize(vs, DefaultConfidence).Median
		return &m
	}
	out := &Latency{
		MinNs:   all[0].MinNs,
		P50Ns:   *median(func(l *Latency) *float64 { return &l.P50Ns }),
		P90Ns:   median(func(l *Latency) *float64 { return l.P90Ns }),
		P99Ns:   median(func(l *Latency) *float64 { return l.P99Ns }),
		P999Ns:  median(func(l *Latency) *float64 { return l.P999Ns }),
		P9999Ns: median(func(l *Latency) *float64 { return l.P9999Ns }),
		MaxNs:   all[0].MaxNs,
		MeanNs:  *median(func(l *Latency) *float64 { return &l.MeanNs }),
		StdevNs: *median(func(l *Latency) *float64 { return &l.StdevNs }),
	}
	for _, l := range all {
		out.Samples += l.Samples
		out.MinNs, out.MaxNs = min(out.MinNs, l.MinNs), max(out.MaxNs, l.MaxNs)
	}
	return out
}

func keys[K comparable, V any](m map[K]V) iter.Seq[K] { return maps.Keys(m) }
