package figure

import (
	"cmp"
	"fmt"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// Group is the records of one set-up, in the order in which they were measured, gathered by size.
type Group struct {
	Setup report.Plan
	Rows  []Row
}

// Row is the repetitions of one point.
type Row struct {
	Size  uint64
	CQMod int
	Runs  []*report.Record
}

// Signaled says how often a completion comes: every "100 messages", or "100 messages (from 16 KiB: every message)" where it depends on
// the size.
func (g Group) Signaled() string {
	messages := func(every int) string { return cmp.Or(plain.When(every > 1, "%d messages", every), "message") }
	var out string
	last := 0
	for _, r := range g.Rows {
		if every := max(r.CQMod, 1); last == 0 {
			out, last = messages(every), every
		} else if every != last {
			out, last = out+fmt.Sprintf(" (from %s: every %s)", plain.Bytes(float64(r.Size)), messages(every)), every
		}
	}
	return out
}

// Groups gathers the records of a document by set-up and size, keeping the order of first appearance.
func Groups(records []report.Record) []Group {
	type place struct{ group, row int }
	var out []Group
	groups := map[report.Plan]int{}
	rows := map[report.Plan]place{}
	for i := range records {
		r := &records[i]
		at, seen := rows[r.Plan]
		if !seen {
			setup := r.Setup()
			g, known := groups[setup]
			if !known {
				g = len(out)
				groups[setup] = g
				out = append(out, Group{Setup: setup})
			}
			at = place{g, len(out[g].Rows)}
			rows[r.Plan] = at
			out[g].Rows = append(out[g].Rows, Row{Size: r.SizeBytes, CQMod: r.CQMod})
		}
		row := &out[at.group].Rows[at.row]
		row.Runs = append(row.Runs, r)
	}
	return out
}

// Values of one figure over the runs that have it.
func (r Row) Values(f func(*report.Record) (float64, bool)) []float64 {
	var out []float64
	for _, rec := range r.Runs {
		if v, ok := f(rec); ok {
			out = append(out, v)
		}
	}
	return out
}

// Latency of the row: of the only run, or the median of each figure over the runs, but for the least and the greatest of
// all samples.
func (r Row) Latency() *report.Latency {
	var all []*report.Latency
	for _, rec := range r.Runs {
		if rec.Latency != nil {
			all = append(all, rec.Latency)
		}
	}
	return report.MergeLatencies(all, stats.Median)
}
