package render_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/qualify"
	"github.com/gobw/gobw/report/render"
	"github.com/gobw/gobw/report/stats"
)

// saved is a result of report/testdata.
func saved(name string) *report.Document {
	d, err := report.Load("../testdata/" + name + ".json")
	if err != nil {
		panic(err)
	}
	return d
}

func parsed(t *testing.T, write func(w io.Writer) error) map[string]*family {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	f, err := parse(b.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, &b)
	}
	return f
}

const goodPage = "# TYPE a_seconds gauge\n# UNIT a_seconds seconds\n# HELP a_seconds " +
	"Time.\na_seconds{x=\"1\\n\\\"\"} 1e-06\na_seconds 2\n# EOF\n"

// brokenPages are what makes the page one that every reader of the specification refuses: what for what.
var brokenPages = map[string]string{ //nolint:gochecknoglobals // a table of two tests
	"# EOF\n": "", "x=": "1x=", "UNIT a_seconds seconds": "UNIT a_seconds bytes", "1e-06\n": "1e-06\n\n",
	"a_seconds 2": "a_seconds two",
	"a_seconds{":  "# HELP a_seconds Again.\na_seconds{", "a_seconds 2\n": "a_seconds{x=\"1\\n\\\"\"} 3\n", "\"} 1": " 1",
	"gauge": "counter",
}

func TestParserIsStrict(t *testing.T) {
	if _, err := parse(goodPage); err != nil {
		t.Fatal(err)
	}
	broken := maps.Clone(brokenPages)
	// which gauges of ours never have
	maps.Copy(broken, map[string]string{" 2\n": " 2 17\n", "\\n": "\\t", "# HELP a_seconds Time.\n": ""})
	for old, new := range broken {
		if _, err := parse(strings.Replace(goodPage, old, new, 1)); err == nil {
			t.Errorf("%q for %q is read", new, old)
		}
	}
}

// hostile is a text that every label may hold.
const hostile = "a\"b\\c\nd\x1b[31m\xff}{,= é"

func TestResults(t *testing.T) {
	d := saved("sample")
	d.Client.Host, d.Client.Device = hostile, hostile
	for i := range d.Records {
		d.Records[i].Pattern, d.Records[i].Threads = hostile, 2
	}
	d.Checks = []report.Check{
		{Expression: hostile, Point: "p", Verdict: stats.Verdict{Word: stats.Pass}}, {Expression: "bw > 1", Point: "p"},
	}
	f := parsed(t, func(w io.Writer) error { return render.Documents(w, "openmetrics", []*report.Document{d}) })
	for _, name := range []string{
		"gobw_result_info", "gobw_result_complete", "gobw_bandwidth_bytes_per_second", "gobw_expectation_met",
		"gobw_result_finished_timestamp_seconds",
	} {
		if f[name] == nil {
			t.Errorf("no %s in %v", name, names(f))
		}
	}
	two := parsed(t, func(w io.Writer) error {
		return render.Documents(w, "openmetrics", []*report.Document{d, saved("sample"), saved("sample")})
	})
	if n := len(two["gobw_result_complete"].samples); n != 3 {
		t.Errorf("%d of 3 results", n)
	}
	if a, b := len(f["gobw_bandwidth_bytes_per_second"].samples),
		len(two["gobw_bandwidth_bytes_per_second"].samples); b != 3*a || a == 0 {
		t.Errorf("%d points of one result and %d of three", a, b)
	}
}

func names(f map[string]*family) []string {
	var out []string
	for name := range f {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Figures are in base units: bytes a second, seconds, shares.
func TestUnits(t *testing.T) {
	r := report.Record{
		Plan:         report.Plan{Operation: "send", Kind: "bandwidth", Transport: "UD", SizeBytes: 1024, QPs: 1},
		MessagesPerS: 5e6,
	}
	r.Bandwidth.AverageBitsPerS = 8e9
	delivered, p99 := 0.75, 2000.0
	r.Delivered, r.Latency = &delivered, &report.Latency{
		Samples: 1000, P50Ns: 1500, P99Ns: &p99, MinNs: 1000, MaxNs: 9000, MeanNs: 1600,
	}
	d := &report.Document{Tool: "gobw", Complete: true, Finished: time.Unix(1700000000, 0), Records: []report.Record{r}}
	f := parsed(t, func(w io.Writer) error { return render.Documents(w, "openmetrics", []*report.Document{d}) })
	for name, want := range map[string]float64{
		"gobw_bandwidth_bytes_per_second": 1e9, "gobw_delivered_ratio": 0.75, "gobw_messages_per_second": 5e6,
		"gobw_result_finished_timestamp_seconds": 1.7e9,
	} {
		if f[name] == nil {
			t.Errorf("no %s", name)
			continue
		}
		for _, got := range f[name].samples {
			if math.Abs(got-want) > 1e-9*want {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
		}
	}
	if n := len(f["gobw_latency_seconds"].samples); n != 4 {
		t.Errorf("%d quantiles, want minimum, median, 0.99 and maximum", n)
	}
}

func TestOtherResults(t *testing.T) {
	grid := parsed(t, func(w io.Writer) error {
		return render.Documents(w, "openmetrics", []*report.Document{saved("grid")})
	})
	if grid["gobw_bandwidth_bytes_per_second"] == nil || len(grid["gobw_latency_seconds"].samples) == 0 {
		t.Errorf("a grid has %v", names(grid))
	}
	q := &qualify.Qualification{Plan: hostile, Outcome: stats.Fail, Tests: []qualify.Result{
		{Name: "a", Outcome: stats.Pass, Document: saved("sample")}, {Name: hostile, Outcome: stats.Fail},
	}}
	f := parsed(t, func(w io.Writer) error { return render.Qualification(w, "openmetrics", q) })
	if f["gobw_qualification_passed"] == nil || len(f["gobw_qualification_test_passed"].samples) != 2 ||
		f["gobw_bandwidth_bytes_per_second"] == nil {
		t.Errorf("a qualification has %v", names(f))
	}
}

func FuzzWrite(f *testing.F) {
	// A figure, how long the first of two texts is, and both.
	f.Add(
		append(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint64(nil, math.Float64bits(1.5)), uint16(len(hostile))),
			hostile+"a"...))
	testrun.Fuzz(f, func(t *testing.T, in []byte) {
		if len(in) < 10 {
			return
		}
		v, text := math.Float64frombits(binary.BigEndian.Uint64(in)), string(in[10:])
		first := min(int(binary.BigEndian.Uint16(in[8:])), len(text))
		one, two := text[:first], text[first:]
		var b bytes.Buffer
		d := &report.Document{
			Description: one, Failure: two,
			Checks: []report.Check{{Expression: one, Point: two}, {Expression: two, Point: one}, {Expression: one, Point: two}},
		}
		d.Records = []report.Record{
			{Plan: report.Plan{Operation: one, Layout: two, SizeBytes: 1}, Bandwidth: report.Bandwidth{AverageBitsPerS: v}},
		}
		if err := render.Documents(&b, "openmetrics", []*report.Document{d}); err != nil {
			t.Fatal(err)
		}
		if _, err := parse(b.String()); err != nil {
			t.Errorf("%v\n%s", err, &b)
		}
	})
}
