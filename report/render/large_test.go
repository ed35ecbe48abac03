package render

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/cputime"
	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/compare"
)

// large is a document of so many records: a hundred points each in many runs, with histograms.
func large(records int) *report.Document {
	latency := report.Latency{Samples: 5, MinNs: 1000, P50Ns: 1200, MaxNs: 2000, MeanNs: 1320}
	h := saved("sample").Records[6].Histogram
	d := &report.Document{
		Schema: report.SchemaVersion, Tool: "gobw", Complete: true, Records: make([]report.Record, records),
	}
	for i := range d.Records {
		r := &d.Records[i]
		*r = report.Record{
			Plan: report.Plan{
				Operation: "write", Kind: "bandwidth", Transport: "RC", SizeBytes: 1 << (i % 10), QPs: 1 + i/10%10,
			},
			Run: 1 + i/100, Latency: &latency, Histogram: h, Messages: 1000,
		}
		r.Bandwidth.AverageBitsPerS = 1e9 * float64(1+i%10) * (1 + 0.001*float64(i*7919%101))
		r.MessagesPerS = r.Bandwidth.AverageBitsPerS / 8 / float64(r.SizeBytes)
		r.Warnings = []string{
			"disturbed: the measuring thread waited 3 ms, 5 % of the time, for its CPU, on which other threads ran (4 times)",
		}
	}
	return d
}

// A hundred thousand records are read, compared and drawn, and the page stays one that a browser shows. Its size
// depends on the number of points, not of records: so few that 'make quick' has time for make the same page.
func TestHundredThousandRecords(t *testing.T) {
	records := 100_000
	switch {
	case testing.Short():
		records = 2_000
	case !testrun.Whole():
		records = 10_000
	}
	d := large(records)
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	step := func(name string, f func() error) {
		began := time.Now()
		if err := f(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Logf("%s: %v", name, time.Since(began).Round(time.Millisecond))
	}
	var docs []*report.Document
	step("read", func() error { docs, err = report.Parse("large.json", b); return err })
	step("compare", func() error { _, err := compare.Documents(docs, docs, compare.Options{}); return err })
	for _, f := range Formats() {
		if f.Name != "html" && f.Name != "table" && f.Name != "openmetrics" {
			continue
		}
		var out counter
		step(f.Name, func() error { return Documents(&out, f.Name, docs) })
		t.Logf("%s: %d KiB", f.Name, out>>10)
		if f.Name == "html" && out > 2<<20 {
			t.Errorf("the page has %d KiB", out>>10)
		}
	}
}

// A sweep over many sizes costs as much for each of them as one over few: a table has a row for each, a picture a
// point.
func TestManySizes(t *testing.T) {
	testrun.OnlyWhole(t, "it compares times")
	page := func(sizes int) time.Duration {
		d := large(10 * sizes)
		for i := range d.Records {
			r := &d.Records[i]
			r.Kind, r.SizeBytes, r.QPs, r.Run, r.Histogram = "latency", uint64(i/10+1), 1, i%10+1, nil
		}
		before := cputime.Process()
		var out counter
		if err := Documents(&out, "html", []*report.Document{d}); err != nil {
			t.Fatal(err)
		}
		took := cputime.Process() - before
		t.Logf("%d sizes: %v, %d KiB", sizes, took, out>>10)
		return took
	}
	page(100)
	if few, many := page(500), page(4000); many > 24*few+time.Second { // 8 times as many
		t.Errorf("500 sizes take %v, 4000 take %v", few, many)
	}
}

// counter counts what is written.
type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}
