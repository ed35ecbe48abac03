package render

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// shareGrids show what each device and each thread did, at the sending end and at the other: a row for each size and
// thread. The table above has their total. If each device has one thread, there is no table of devices.
func shareGrids(g figure.Group) []table {
	var out []table
	add := func(title, part string, of func(*report.Record) []report.Share) {
		t := table{
			Title: title + repetitions(g), Header: []string{"bytes", part, "device", "CPU", "QPs", "Gb/s", "MiB/s", "Mmsg/s"},
			keys: 2,
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
	if rails := g.Setup.Rails; rails > 1 && g.Setup.Threads > rails {
		add("by rail", "rail", func(r *report.Record) []report.Share { return ofRails(r.PerThread, rails) })
		add("by rail of the other end", "rail",
			func(r *report.Record) []report.Share { return ofRails(r.PeerThreads, rails) })
	}
	add("by thread", "thread", func(r *report.Record) []report.Share { return r.PerThread })
	add("by thread of the other end", "thread", func(r *report.Record) []report.Share { return r.PeerThreads })
	return out
}

// ofRails adds up the threads of each rail. Thread i belongs to rail i modulo rails.
func ofRails(threads []report.Share, rails int) []report.Share {
	out := slices.Clone(threads[:min(rails, len(threads))])
	for i, t := range threads[len(out):] {
		s := &out[i%rails]
		s.CPU, s.QPs = -1, s.QPs+t.QPs
		s.AverageBitsPerS, s.MessagesPerS = s.AverageBitsPerS+t.AverageBitsPerS, s.MessagesPerS+t.MessagesPerS
	}
	return out
}
