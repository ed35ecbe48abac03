package render

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plot"
)

// overlay is a sweep of two sizes, of which a test changes what it likes.
func overlay(change func(*report.Document)) *report.Document {
	d := &report.Document{
		Tool: "gobw", Version: "1", Complete: true, Started: time.Unix(1, 0),
		Client: report.Environment{Host: "alpha", Device: "mlx5_0", OS: "Linux"},
	}
	for _, size := range []uint64{64, 4096, 65536} {
		for run := range 6 {
			d.Records = append(d.Records, report.Record{
				Plan: report.Plan{
					Operation: "write", Kind: "bandwidth", Transport: "RC", Direction: "out", SizeBytes: size, QPs: 1,
					TxDepth: 128, MTU: 4096,
				},
				Run: run + 1, Messages: 100, Bandwidth: report.Bandwidth{AverageBitsPerS: float64(size)*1e6 + float64(run)},
				MessagesPerS: 100,
			})
		}
	}
	change(d)
	return d
}

// Curves are named by the document, where there are several, and by what differs in the set-up.
func TestOverlaysAreNamedByWhatDiffers(t *testing.T) {
	set := func(f func(r *report.Record)) func(*report.Document) {
		return func(d *report.Document) {
			for i := range d.Records {
				f(&d.Records[i])
			}
		}
	}
	for _, tt := range []struct {
		name string
		b    func(*report.Document)
		want [2]string
	}{
		{"nothing", func(*report.Document) {}, [2]string{"old.json", "new.json"}},
		{
			"depths", set(func(r *report.Record) { r.TxDepth = 16 }),
			[2]string{"old.json, tx depth 128", "new.json, tx depth 16"},
		},
		{"threads", set(func(r *report.Record) { r.Threads = 4 }), [2]string{"old.json, 1 thread", "new.json, 4 threads"}},
		{
			"verification", set(func(r *report.Record) { r.Verified = "all" }),
			[2]string{"old.json, not verified", "new.json, all verified"},
		},
		{
			"a usual value", set(func(r *report.Record) { r.SL = 3 }),
			[2]string{"old.json, service level 0", "new.json, service level 3"},
		},
	} {
		older, newer := overlay(func(*report.Document) {}), overlay(tt.b)
		older.Description, newer.Description = "old.json", "new.json"
		c := Pictures([]*report.Document{older, newer})[0].(*plot.Chart)
		if len(c.Series) != 2 || c.Series[0].Name != tt.want[0] || c.Series[1].Name != tt.want[1] {
			t.Errorf("%s: %d curves, %q and %q; want %q", tt.name, len(c.Series), c.Series[0].Name,
				c.Series[len(c.Series)-1].Name, tt.want)
		}
		older.Records = append(older.Records, newer.Records...)
		older.Description = ""
		c = Pictures([]*report.Document{older})[0].(*plot.Chart)
		if want := strings.TrimPrefix(strings.TrimPrefix(tt.want[0], "old.json"), ", "); c.Series[0].Name != want {
			t.Errorf("%s within a document: %q, want %q", tt.name, c.Series[0].Name, want)
		}
	}
}

// A size without a figure breaks the line, and the chart says what its bands are.
func TestChartsSayBandsAndKeepGaps(t *testing.T) {
	d := overlay(func(d *report.Document) {
		for i := range d.Records {
			d.Records[i].Kind = "latency"
			d.Records[i].Latency = &report.Latency{Samples: 1000, P50Ns: 1000 + float64(i), MinNs: 1, MaxNs: 2000}
			if d.Records[i].SizeBytes != 4096 {
				p99 := 1500.0
				d.Records[i].Latency.P99Ns = &p99
			}
		}
	})
	c := Pictures([]*report.Document{d})[0].(*plot.Chart)
	if !strings.Contains(c.Note, "Bands: 95 % intervals of the medians") {
		t.Errorf("the note is %q", c.Note)
	}
	p99 := c.Series[1]
	if p99.Name != "p99" || len(p99.Y) != 3 || !math.IsNaN(p99.Y[1]) {
		t.Fatalf("%q: %v; want a gap at 4096", p99.Name, p99.Y)
	}
	var svg strings.Builder
	c.Series = []plot.Series{{Name: "gap", X: []float64{64, 4096, 65536}, Y: []float64{1, math.NaN(), 2}}}
	if err := plot.WriteSVG(&svg, c); err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq(svg.String(), "<path") {
		if strings.Contains(part, `stroke="#1f6fb4" stroke-width="2"`) && strings.Count(part, "L") > 1 {
			t.Errorf("a line bridges the gap: %s", part)
		}
	}
}

// TestPicturesCompareResults: three results of several sizes are one curve each, whatever was inline, and pictures of a
// row each show one size of all three.
func TestPicturesCompareResults(t *testing.T) {
	var docs []*report.Document
	for _, transport := range []string{"RC", "UC", "UD"} {
		docs = append(docs, overlay(func(d *report.Document) {
			d.Description = transport
			for i := range d.Records {
				r := &d.Records[i]
				r.Kind, r.Transport = "latency", transport
				r.Latency = &report.Latency{Samples: 2000, P50Ns: 1000, P99Ns: new(2000.0)}
				r.Series = &report.Series{IntervalS: 0.01, Messages: []float64{900, 900, 900}, Bytes: []float64{9e6, 9e6, 9e6}}
				if r.SizeBytes < 100 {
					r.InlineBytes = 236
				}
			}
		}))
	}
	names := func(f plot.Figure) []string {
		var out []string
		for _, s := range f.(*plot.Chart).Series {
			out = append(out, s.Name)
		}
		return out
	}
	pictures := Pictures(docs)
	if len(pictures) != 2 {
		t.Fatalf("%d pictures, want latency over size and round trips over time", len(pictures))
	}
	for i, want := range [][]string{
		{"RC, RC, p50", "UC, UC, p50", "UD, UD, p50", "RC, RC, p99", "UC, UC, p99", "UD, UD, p99"},
		{"RC, RC, 64 B", "UC, UC, 64 B", "UD, UD, 64 B"},
	} {
		if got := names(pictures[i]); !slices.Equal(got, want) {
			t.Errorf("picture %d has %q, want %q", i+1, got, want)
		}
	}
}
