package figure

import (
	"cmp"
	"fmt"
	"slices"

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

// Without -Q messages above this size have a completion each, as in perftest.
const signaledAbove = 8192

// Signaled says how often a completion comes: every "100 messages", or "100 messages (above 8 KiB: every message)"
// where that rule explains the rows, or else "1 to 100 messages".
func (g Group) Signaled() string {
	every := func(r Row) int { return max(r.CQMod, 1) }
	order := func(a, b Row) int { return cmp.Compare(every(a), every(b)) }
	least, most := every(slices.MinFunc(g.Rows, order)), every(slices.MaxFunc(g.Rows, order))
	switch {
	case most == 1:
		return "message"
	case least == most:
		return fmt.Sprintf("%d messages", most)
	case slices.ContainsFunc(g.Rows, func(r Row) bool {
		return every(r) != most && r.Size <= signaledAbove || every(r) != 1 && r.Size > signaledAbove
	}):
		return fmt.Sprintf("%d to %d messages", least, most)
	}
	return fmt.Sprintf("%d messages (above %s: every message)", most, plain.Bytes(signaledAbove))
}

// Groups gathers the records of a document by set-up and size, keeping the order of first appearance.
func Groups(records []report.Record) []Group {
	var all []*report.Record
	for i := range records {
		all = append(all, &records[i])
	}
	rows := plain.Each(plain.Grouped(all, func(r *report.Record) report.Plan { return r.Plan }),
		func(runs []*report.Record) Row {
			return Row{Size: runs[0].SizeBytes, CQMod: runs[0].CQMod, Runs: runs}
		})
	setups := plain.Grouped(rows, func(r Row) report.Plan { return r.Runs[0].Setup() })
	return plain.Each(setups, func(rows []Row) Group { return Group{rows[0].Runs[0].Setup(), rows} })
}

// Values of one figure over the runs that have it.
func (r Row) Values(f Figure) []float64 {
	var out []float64
	for _, rec := range r.Runs {
		if v, missing := f.Get(rec); missing == "" {
			out = append(out, v)
		}
	}
	return out
}

// Told is a figure of all runs together as tables tell it: the median, but the number of time samples of all. False: no
// run has it.
func (r Row) Told(f Figure) (v float64, has bool) {
	values := r.Values(f)
	if len(values) == 0 {
		return 0, false
	}
	if f.Name == "samples" {
		for _, n := range values {
			v += n
		}
		return v, true
	}
	return stats.Median(values), true
}
