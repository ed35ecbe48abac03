package render

import (
	"cmp"
	"strconv"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// shareGrids show what each thread did, and on which device, at the sending end and at the other: a row for each size
// and thread. The table above has their total.
func shareGrids(g figure.Group) []table {
	var out []table
	add := func(title string, of func(*report.Record) []report.Share) {
		t := table{
			Title:  title + repetitions(g),
			Header: []string{"bytes", "thread", "device", "CPU", "QPs", "Gb/s", "MiB/s", "Mmsg/s"}, keys: 2,
		}
		for _, row := range g.Rows {
			for n, share := range of(row.Runs[0]) {
				var bits, rates []float64
				for _, r := range row.Runs {
					if shares := of(r); n < len(shares) {
						bits, rates = append(bits, shares[n].AverageBitsPerS), append(rates, shares[n].MessagesPerS)
					}
				}
				t.Rows = append(t.Rows, []string{
					strconv.FormatUint(row.Size, 10), strconv.Itoa(n + 1), share.Device,
					cmp.Or(plain.When(share.CPU >= 0, "%d", share.CPU), "-"), strconv.Itoa(share.QPs),
					plain.Number(stats.Median(bits) * 1e-9), plain.Number(stats.Median(bits) / 8 / (1 << 20)),
					plain.Number(stats.Median(rates) * 1e-6),
				})
			}
		}
		if t.dropEmpty(t.keys); len(t.Rows) > 0 {
			out = append(out, t)
		}
	}
	add("by thread", func(r *report.Record) []report.Share { return r.PerThread })
	add("by thread of the other end", func(r *report.Record) []report.Share { return r.PeerThreads })
	return out
}
