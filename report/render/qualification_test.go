package render

import (
	"bytes"
	"encoding/xml"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/qualify"
	"github.com/gobw/gobw/report/stats"
)

func sampleQualification() *qualify.Qualification {
	start := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	passed := saved("repeated")
	passed.Checks = []report.Check{
		{
			Expression: "bw >= 1 Gb/s", Point: "write bandwidth RC 65536 B", Actual: "36.26 Gb/s",
			Verdict: stats.Verdict{Word: stats.Pass},
		},
	}
	broken := saved("sample")
	broken.Records, broken.Checks, broken.Complete, broken.Failure = nil, nil, false, "the peer was lost"
	return &qualify.Qualification{
		Schema: report.QualificationSchema, Plan: "mine", Version: "v0.1.0",
		Command: []string{"gobw", "qualify", "mine.yaml", "--peer", "beta"},
		Started: start, Finished: start.Add(time.Minute), Label: "software device, not a NIC", Outcome: qualify.Broken,
		ExitCode: 4,
		Tests: []qualify.Result{
			{
				Name: "write-64k", Command: "gobw write -s 64K", Outcome: stats.Pass, Seconds: 3.1, Document: passed,
				LeftOut: []string{"bw >= 0.9*line"},
			},
			{Name: "sweep", Command: "gobw write -a", Outcome: stats.Fail, Seconds: 12, Document: saved("sample")},
			{
				Name: "read-64k", Command: "gobw read -s 64K", Outcome: qualify.Broken, Seconds: 0.7,
				Reason: "the peer was lost <connection reset>", Document: broken,
			},
			{Name: "send-64k", Command: "gobw send -s 64K", Outcome: qualify.Skipped, Reason: "the peer was lost in read-64k"},
		},
	}
}

func TestQualificationFormats(t *testing.T) {
	q := sampleQualification()
	for file, render := range map[string]func(*bytes.Buffer) error{
		"qualification.txt": func(b *bytes.Buffer) error { return Qualification(b, "table", q) },
		"qualification.xml": func(b *bytes.Buffer) error { return Qualification(b, "junit", q) },
	} {
		var b bytes.Buffer
		if err := render(&b); err != nil {
			t.Fatal(err)
		}
		golden(t, file, b.Bytes())
	}
	var b bytes.Buffer
	if err := Qualification(&b, "junit", q); err != nil {
		t.Fatal(err)
	}
	var got suites
	if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Suites) != 4 || got.Tests != 6 || got.Failures != 1 || got.Errors != 1 || got.Skipped != 2 {
		t.Errorf("%d suites, %d tests, %d failures, %d errors, %d skipped; want 4, 6, 1, 1, 2", len(got.Suites), got.Tests,
			got.Failures, got.Errors, got.Skipped)
	}
}

// TestQualificationOfManyWarnings: what is written of a test with more warnings than a file may have is read again.
func TestQualificationOfManyWarnings(t *testing.T) {
	d := &report.Document{Warnings: []string{strings.Repeat("x", 70_000)}}
	q := &qualify.Qualification{Tests: []qualify.Result{{Name: "a", Document: d}}}
	path := filepath.Join(t.TempDir(), "x.json")
	if err := report.WriteFile(path, func(w io.Writer) error { return Qualification(w, "json", q) }); err != nil {
		t.Fatal(err)
	}
	read, err := qualify.Load(path)
	if err != nil || len(read.Tests[0].Document.Warnings) != 1 || q.Tests[0].Document != d {
		t.Errorf("%v", err)
	}
}
