package report_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/render"
)

// each gives, for every field of a plan, a plan in which it has another value than in the first.
func eachField(t *testing.T, visit func(name string, usual, other report.Plan)) {
	t.Helper()
	usual := report.Plan{
		Operation: "write", Kind: "bandwidth", Transport: "RC", Direction: "out", SizeBytes: 64, QPs: 1, MTU: 1024,
		TxDepth: 128, CQMod: 1, PostList: 1,
	}
	for f := range reflect.TypeFor[report.Plan]().Fields() {
		other := usual
		switch v := reflect.ValueOf(&other).Elem().FieldByIndex(f.Index); v.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Float64:
			v.SetFloat(3e9)
		case reflect.Int:
			v.SetInt(7)
		case reflect.Uint64:
			v.SetUint(7)
		default:
			t.Errorf("%s: a %s is no plain value", f.Name, v.Kind())
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		visit(name, usual, other)
	}
}

// A field of the plan is in the key, in every rendering that tells plans apart, and in words.
func TestPlanFieldIsEverywhere(t *testing.T) {
	render := func(format string, p report.Plan) string {
		var b strings.Builder
		if err := render.Documents(&b, format,
			[]*report.Document{{Complete: true, Records: []report.Record{{Plan: p, Run: 1}}}}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	eachField(t, func(name string, usual, other report.Plan) {
		a, was, ok := usual.Without(name)
		b, is, _ := other.Without(name)
		if usual == other || !ok || a != b || was == is {
			t.Errorf("%s: %q and %q tell no plans apart", name, was, is)
		}
		if usual.InWords(name) == other.InWords(name) {
			t.Errorf("%s: both are %q in words", name, other.InWords(name))
		}
		if header, _, _ := strings.Cut(render("csv", other), "\n"); !strings.Contains(","+header+",", ","+name+",") {
			t.Errorf("%s is no column: %s", name, header)
		}
		for _, format := range []string{"csv", "openmetrics"} {
			if render(format, usual) == render(format, other) {
				t.Errorf("%s is not in %s", name, format)
			}
		}
		inTitle := name != "size_bytes" && name != "cq_mod" && name != "half_round_trip" // columns, and the unit of a table
		if inTitle && usual.Title() == other.Title() {
			t.Errorf("%s is not in the title %q", name, other.Title())
		}
	})
}

func TestPlanInWords(t *testing.T) {
	p := report.Plan{
		Operation: "write", Kind: "bandwidth", Transport: "RC", Direction: "both", SizeBytes: 65536, QPs: 4, MTU: 4096,
		TxDepth: 128, PostList: 16, RateLimitBitsPerS: 2.5e9, Events: true,
	}
	if got, want := p.Title(), "write bandwidth, RC, direction both, 4 QPs, MTU 4096, tx depth 128, post list 16, "+
		"at most 2.50 Gb/s, events"; got != want {
		t.Errorf("title %q, want %q", got, want)
	}
	if got, want := p.String(), "write bandwidth RC 65536 B, direction both, 4 QPs, post list 16, "+
		"at most 2.50 Gb/s, events"; got != want {
		t.Errorf("in short %q, want %q", got, want)
	}
	p = report.Plan{
		Operation: "send", Kind: "latency", Transport: "UD", Direction: "both", SizeBytes: 2, QPs: 1, MTU: 1024, TxDepth: 1,
		PostList: 1, GapNs: 5e6, Timestamps: "device",
	}
	if got, want := p.Title(),
		"send latency, UD, 1 QP, MTU 1024, 5ms pause before each message, by the device's clock"; got != want {
		t.Errorf("title %q, want %q", got, want)
	}
	if got, want := p.InWords("events")+", "+p.InWords("gap_ns")+", "+
		p.InWords("rails"), "polling, 5ms pause before each message, 1 rail"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
