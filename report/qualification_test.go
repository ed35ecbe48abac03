package report

import (
	"bytes"
	"encoding/xml"
	"path/filepath"
	"testing"
	"time"
)

func sampleQualification() *Qualification {
	start := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	passed := repeatedDocument(1)
	passed.Checks = []Check{{Expression: "bw >= 1 Gb/s", Point: "write bandwidth RC 65536 B", Actual: "36.26 Gb/s", Passed: true}}
	broken := sampleDocument()
	broken.Records, broken.Checks, broken.Complete, broken.Failure = nil, nil, false, "the peer was lost"
	return &Qualification{
		Schema: QualificationVersion, Plan: "mine", Version: "v0.1.0", Command: []string{"gobw", "qualify", "mine.yaml", "--peer", "beta"},
		Started: start, Finished: start.Add(time.Minute), Label: "software device, not a NIC", Outcome: Broken, ExitCode: 4,
		Tests: []QualificationTest{
			{Name: "write-64k", Command: "gobw write -s 64K", Outcome: Passed, Seconds: 3.1, Document: passed, LeftOut: []string{"bw >= 0.9*line"}},
			{Name: "sweep", Command: "gobw write -a", Outcome: Failed, Seconds: 12, Reason: "1 of 2 expectations missed", Document: sampleDocument()},
			{Name: "read-64k", Command: "gobw read -s 64K", Outcome: Broken, Seconds: 0.7, Reason: "the peer was lost <connection reset>", Document: broken},
			{Name: "send-64k", Command: "gobw send -s 64K", Outcome: Skipped, Reason: "the peer was lost in read-64k"},
		},
	}
}

func TestQualificationFormats(t *testing.T) {
	q := sampleQualification()
	for file, render := range map[string]func(*bytes.Buffer) error{
		"qualification.txt":  func(b *bytes.Buffer) error { return QualificationTable(b, q) },
		"qualification.xml":  func(b *bytes.Buffer) error { return QualificationJUnit(b, q) },
		"qualification.html": func(b *bytes.Buffer) error { return QualificationHTML(b, q) },
	} {
		var b bytes.Buffer
		if err := render(&b); err != nil {
			t.Fatal(err)
		}
		golden(t, file, b.Bytes())
	}
	var b bytes.Buffer
	if err := QualificationJUnit(&b, q); err != nil {
		t.Fatal(err)
	}
	var got junitSuites
	if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Suites) != 4 || got.Tests != 6 || got.Failures != 1 || got.Errors != 1 || got.Skipped != 2 {
		t.Errorf("%d suites, %d tests, %d failures, %d errors, %d skipped; want 4, 6, 1, 1, 2", len(got.Suites), got.Tests, got.Failures, got.Errors, got.Skipped)
	}
}

// TestBaselineOfPlan: a baseline of many tests is asked for the one of the same name, and for the same layout of a grid,
// whichever strategy won there.
func TestBaselineOfPlan(t *testing.T) {
	same, other := repeatedDocument(1), repeatedDocument(2)
	same.Description, other.Description = "write", "steady"
	grid := func(strategy string, bits float64) *Document {
		d := repeatedDocument(1)
		d.Records, d.Description = nil, "grid"
		for _, s := range []string{"pack", "gather-write"} {
			p := NoncontigPoint{Shape: "gather", Strategy: s, Layout: "vector:block=64,num=8,stride=128", SizeBytes: 512}
			v := bits / 2
			if s == strategy {
				v = bits
			}
			for range 6 {
				p.Runs = append(p.Runs, NoncontigRun{Messages: 100, Seconds: 1, GoodputBitsPerS: v})
			}
			if d.Noncontig == nil {
				d.Noncontig = &Noncontig{Setup: NoncontigSetup{Transport: "RC"}}
			}
			d.Noncontig.Points = append(d.Noncontig.Points, p)
		}
		return d
	}
	file := filepath.Join(t.TempDir(), "base.json")
	base := &Qualification{Plan: "p", Tests: []QualificationTest{
		{Name: "steady", Document: other}, {Name: "write", Document: same}, {Name: "grid", Document: grid("pack", 8e9)},
	}}
	if err := SaveQualification(file, base); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		test string
		d    *Document
		want bool
	}{
		{"write", repeatedDocument(1), true},
		{"steady", repeatedDocument(1), false}, // half of what it was
		{"", repeatedDocument(1), false},       // the median of both
		{"grid", grid("gather-write", 7.8e9), true},
		{"grid", grid("gather-write", 7e9), false},
	} {
		e, err := ParseExpectation("bw within 5% of '"+file+"'", ExpectationOptions{Test: tt.test})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range e.Evaluate(tt.d, Judgement{}) {
			if c.Passed != tt.want {
				t.Errorf("%q: passed %t, want %t: %s %s", tt.test, c.Passed, tt.want, c.Actual, c.Reason)
			}
		}
	}
}
