package render_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/qualify"
	"github.com/gobw/gobw/report/render"
	"github.com/gobw/gobw/report/stats"
)

// debianPython is the one for which Debian packages Prometheus's parser; another may be first in the path.
const debianPython = "/usr/bin/python3"

// needPrometheus skips where Prometheus's parser is not installed.
func needPrometheus(t *testing.T) {
	t.Helper()
	if out, err := exec.Command(debianPython, "-c",
		"import prometheus_client.openmetrics.parser").CombinedOutput(); err != nil {
		t.Logf("%v: %s", err, out)
		testrun.Missing(t, "Prometheus's own parser (Debian's python3-prometheus-client)")
	}
}

// prometheus reads a page with the parsers of the Prometheus project.
func prometheus(page string) (map[string]*family, error) {
	cmd := exec.Command(debianPython, "testdata/prometheus.py")
	cmd.Stdin = strings.NewReader(page)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("prometheus_client: %w: %s", err, &said)
	}
	var read map[string]struct {
		Kind, Unit string
		Samples    [][2]json.RawMessage
	}
	if err := json.Unmarshal(out.Bytes(), &read); err != nil {
		return nil, err
	}
	families := map[string]*family{}
	for name, r := range read {
		f := &family{kind: r.Kind, unit: r.Unit, samples: map[string]float64{}}
		for _, s := range r.Samples {
			var labels [][2]string
			var number string
			if err := json.Unmarshal(s[0], &labels); err != nil {
				return nil, err
			}
			if err := json.Unmarshal(s[1], &number); err != nil {
				return nil, err
			}
			v, err := strconv.ParseFloat(number, 64)
			if err != nil {
				return nil, err
			}
			set := map[string]string{}
			for _, l := range labels {
				set[l[0]] = l[1]
			}
			f.samples[labelKey(set)] = v
		}
		families[name] = f
	}
	return families, nil
}

// pages are every kind of result, with the names that an attacker would choose, by what they are.
func pages(t *testing.T) map[string]func(w io.Writer) error {
	t.Helper()
	named := func(d *report.Document) *report.Document {
		d.Client.Host, d.Client.Device, d.Description, d.Failure = hostile, hostile, hostile, hostile
		d.Server = &report.Environment{Host: "fe80::1%eth0 \"quoted\"\r\n# EOF"}
		for i := range d.Records {
			d.Records[i].Pattern, d.Records[i].Threads = hostile, 2
			d.Records[i].Counters = map[string]int64{hostile: 7, "out_of_sequence": math.MaxInt64}
		}
		d.Checks = []report.Check{
			{Expression: hostile, Point: "p", Verdict: stats.Verdict{Word: stats.Pass}}, {Expression: "bw > 1", Point: hostile},
		}
		return d
	}
	of := func(keep func(r *report.Record) bool) func(w io.Writer) error {
		d := named(saved("sample"))
		var kept []report.Record
		for _, r := range d.Records {
			if keep(&r) {
				kept = append(kept, r)
			}
		}
		if len(kept) == 0 {
			t.Fatal("the sample has no such record")
		}
		d.Records = kept
		return func(w io.Writer) error { return render.Documents(w, "openmetrics", []*report.Document{d}) }
	}
	endless := named(saved("sample"))
	for i := range endless.Records {
		endless.Records[i].Bandwidth.AverageBitsPerS, endless.Records[i].MessagesPerS = math.Inf(1), math.NaN()
	}
	q := &qualify.Qualification{Plan: hostile, Outcome: stats.Fail, ExitCode: 1, Tests: []qualify.Result{
		{Name: "a", Outcome: stats.Pass, Document: named(saved("sample"))},
		{Name: hostile, Outcome: stats.Fail},
		{Name: "grid", Outcome: stats.Pass, Document: named(saved("grid"))},
	}}
	many := saved("sample") // hosts with the same names, which are no hosts' names
	for i := range many.Records {
		r := &many.Records[i]
		r.Pattern, r.Rail, r.Node, r.Side = "pairs", hostile, hostile, "sending"
	}
	for range 2 {
		many.Checks = append(many.Checks,
			report.Check{Expression: "the host is good", Point: hostile, Verdict: stats.Failure("slow", "", "")})
	}
	return map[string]func(w io.Writer) error{
		"bandwidth":  of(func(r *report.Record) bool { return r.Kind == "bandwidth" }),
		"latency":    of(func(r *report.Record) bool { return r.Kind == "latency" }),
		"sweep":      of(func(*report.Record) bool { return true }),
		"not finite": func(w io.Writer) error { return render.Documents(w, "openmetrics", []*report.Document{endless}) },
		"several": func(w io.Writer) error {
			return render.Documents(w, "openmetrics", []*report.Document{endless, saved("sample"), saved("sample")})
		},
		"nothing": func(w io.Writer) error { return render.Documents(w, "openmetrics", nil) },
		"noncontig": func(w io.Writer) error {
			return render.Documents(w, "openmetrics", []*report.Document{named(saved("grid"))})
		},
		"qualification": func(w io.Writer) error { return render.Qualification(w, "openmetrics", q) },
		"fabric":        func(w io.Writer) error { return render.Documents(w, "openmetrics", []*report.Document{many}) },
	}
}

// What we write is what Prometheus's own parsers read, in OpenMetrics and in the older format of the textfile
// collector: all the samples, and every label as it was meant.
func TestPrometheusReads(t *testing.T) {
	needPrometheus(t)
	for name, write := range pages(t) {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "sweep" && name != "qualification" {
				t.Skip("short: two pages; a Python starts for each, and TestResults and TestOtherResults hold all to " +
					"our own parser")
			}
			t.Parallel()
			var b bytes.Buffer
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			want, err := parse(b.String())
			if err != nil {
				t.Fatal(err)
			}
			got, err := prometheus(b.String())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(family{}), cmpopts.IgnoreFields(family{}, "help"),
				cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("our reader of the specification (-) and Prometheus's (+) differ:\n%s", diff)
			}
			if name != "nothing" && len(got) == 0 {
				t.Error("no family")
			}
		})
	}
}

// Broken pages are refused by Prometheus's parser as by ours: neither passes whatever it is given.
func TestPrometheusRefuses(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it judges the parsers, not the pages")
	}
	needPrometheus(t)
	if _, err := prometheus(goodPage); err != nil {
		t.Fatal(err)
	}
	for old, broken := range brokenPages {
		t.Run(broken, func(t *testing.T) {
			t.Parallel()
			page := strings.Replace(goodPage, old, broken, 1)
			if got, err := prometheus(page); err == nil {
				t.Errorf("%q for %q is read as %v", broken, old, got)
			}
		})
	}
}
