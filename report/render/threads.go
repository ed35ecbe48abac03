package render

import (
	"slices"
	"strconv"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
)

// shareGrids show what each device and each thread of a set-up did: a row per size and one of them, of the end that sends and
// of the other.
func shareGrids(g figure.Group) []table {
	var out []table
	rails, threads := g.Setup.Rails > 1, g.Setup.Threads > max(g.Setup.Rails, 1)
	for _, t := range []struct {
		several     bool
		title, part string
		of          func(*report.Record) []report.Share
	}{
		{rails, "by rail", "rail", func(r *report.Record) []report.Share { return r.PerRail }},
		{rails, "by rail of the other end", "rail", func(r *report.Record) []report.Share { return r.PeerRails }},
		{threads, "by thread", "thread", func(r *report.Record) []report.Share { return r.PerThread }},
		{threads, "by thread of the other end", "thread", func(r *report.Record) []report.Share { return r.PeerThreads }},
	} {
		if !t.several {
			continue
		}
		if table := shareGrid(g, t.title, t.part, t.of); len(table.Rows) > 0 {
			out = append(out, table)
		}
	}
	return out
}

// shareGrid is one table of parts: what stands above it is their total.
func shareGrid(g figure.Group, title, part string, of func(*report.Record) []report.Share) table {
	t := table{Title: title + repetitions(g), Header: []string{"bytes", part, "device", "CPU", "QPs", "Gb/s", "MiB/s", "Mmsg/s"}, keys: 3}
	if g.Setup.Rails < 2 {
		t.Header, t.keys = slices.Delete(t.Header, 2, 3), 2
	}
	for _, row := range g.Rows {
		for n, share := range of(row.Runs[0]) {
			median := func(f func(report.Share) float64, scale float64) string {
				return medianIn(figure.Figure{Get: func(r *report.Record) (float64, bool) {
					if shares := of(r); n < len(shares) {
						return f(shares[n]), true
					}
					return 0, false
				}}, scale)(row)
			}
			bits := func(s report.Share) float64 { return s.AverageBitsPerS }
			cpu := "-"
			if share.CPU >= 0 {
				cpu = strconv.Itoa(share.CPU)
			}
			cells := []string{strconv.FormatUint(row.Size, 10), strconv.Itoa(n + 1)}
			if g.Setup.Rails > 1 {
				cells = append(cells, share.Device)
			}
			t.Rows = append(t.Rows, append(cells, cpu, strconv.Itoa(share.QPs),
				median(bits, 1e-9), median(bits, 1.0/8/(1<<20)), median(func(s report.Share) float64 { return s.MessagesPerS }, 1e-6)))
		}
	}
	return t
}
