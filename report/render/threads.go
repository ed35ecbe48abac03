package render

import (
	"strconv"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/plain"
)

// threadGrids show what each thread of a set-up did: a row per size and thread, of the end that sends and of the other.
func threadGrids(g figure.Group) []grid {
	if g.Setup.Threads < 2 {
		return nil
	}
	var out []grid
	for _, end := range []struct {
		title string
		of    func(*report.Record) []report.Share
	}{
		{"by thread", func(r *report.Record) []report.Share { return r.PerThread }},
		{"by thread of the other end", func(r *report.Record) []report.Share { return r.PeerThreads }},
	} {
		if t := threadGrid(g, end.title, end.of); len(t.rows) > 0 {
			out = append(out, t)
		}
	}
	return out
}

func threadGrid(g figure.Group, title string, of func(*report.Record) []report.Share) grid {
	t := grid{title: title + repetitions(g), header: []string{"bytes", "thread", "CPU", "QPs", "Gb/s", "MiB/s", "Mmsg/s"}, keys: 2}
	for _, row := range g.Rows {
		for n := range of(row.Runs[0]) {
			figureOf := func(f func(report.Share) float64) func(*report.Record) (float64, bool) {
				return func(r *report.Record) (float64, bool) {
					if shares := of(r); n < len(shares) {
						return f(shares[n]), true
					}
					return 0, false
				}
			}
			bits := figureOf(func(s report.Share) float64 { return s.AverageBitsPerS })
			rate := figureOf(func(s report.Share) float64 { return s.MessagesPerS })
			share := of(row.Runs[0])[n]
			cpu := "-"
			if share.CPU >= 0 {
				cpu = strconv.Itoa(share.CPU)
			}
			t.rows = append(t.rows, []string{
				strconv.FormatUint(row.Size, 10), strconv.Itoa(n + 1), cpu, strconv.Itoa(share.QPs),
				medianOf(bits, 1e-9)(row), medianOf(bits, 1.0/8/(1<<20))(row), medianOf(rate, 1e-6)(row),
			})
		}
	}
	return t
}

// scalingGrid shows what more threads brought.
func scalingGrid(steps []report.Step) grid {
	g := grid{title: "what more threads bring", header: []string{"bytes", "threads", "Mmsg/s", "gain", "verdict", "knee"}, keys: 2}
	for _, s := range steps {
		gain, verdict, knee := "-", "-", ""
		if s.Verdict != nil {
			gain, verdict = plain.Number(s.Gain)+"x", s.Verdict.String()
		}
		if s.Knee {
			knee = "here"
		}
		g.rows = append(g.rows, []string{
			strconv.FormatUint(s.SizeBytes, 10), strconv.Itoa(s.Threads), plain.Number(s.MessagesPerS / 1e6), gain, verdict, knee,
		})
	}
	return g
}
