package render

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/cputime"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/noncontig"
	"github.com/gobw/gobw/report/plot"
	"github.com/gobw/gobw/report/qualify"
	"github.com/gobw/gobw/report/stats"
)

// hostile is text as a stranger's file may hold it.
const hostile = "=cmd|'/c x'!A0 \x1b]0;owned\x07\x1b[31m \u009b31m \u202ereversed\n\\input{/etc/passwd} " +
	"</text><script>alert(1)</script> ]]> & % ^^M\rPASS"

// hostileDocument has it in every text of a record and its surroundings.
func hostileDocument() *report.Document {
	d := saved("repeated")
	d.Tool, d.Version, d.Label, d.Description, d.Failure, d.Complete = hostile, hostile, hostile, hostile, hostile, false
	d.Command, d.Warnings = []string{hostile}, []string{hostile}
	d.Client.Host, d.Client.Device, d.Client.Provider, d.Client.Firmware, d.Client.GID = hostile, hostile, hostile,
		hostile, hostile
	d.Server = &d.Client
	d.Checks = []report.Check{
		{
			Expression: hostile, Point: hostile, Actual: hostile,
			Verdict: stats.Failure(stats.Cause(hostile), hostile, "%s", hostile),
		},
	}
	for i := range d.Records {
		r := &d.Records[i]
		r.Operation, r.Transport, r.Direction, r.Atomic, r.Verified, r.Warnings = "../../"+
			hostile, hostile, hostile, hostile, hostile, []string{hostile}
		r.SizeBytes = uint64(i/3 + 1)
	}
	d.Noncontig = saved("grid").Noncontig
	for i := range d.Noncontig.Points {
		p := &d.Noncontig.Points[i]
		p.Shape, p.Stride, p.Layout = "../../"+p.Shape+hostile, hostile, p.Layout+hostile
	}
	d.Noncontig.Setup = noncontig.Setup{Device: hostile, Transport: hostile, Cache: hostile, Kernel: hostile}
	d.Noncontig.Analyze()
	return d
}

// Text from a file reaches a terminal without control characters, and stays text in every language.
func TestHostileText(t *testing.T) {
	control := regexp.MustCompile("[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f\u202a-\u202e]")
	d := hostileDocument()
	for _, f := range Formats() {
		t.Run(f.Name, func(t *testing.T) {
			var b bytes.Buffer
			if err := Documents(&b, f.Name, []*report.Document{d}); err != nil {
				t.Fatal(err)
			}
			if f.Name != "json" && f.Name != "html" {
				if at := control.FindStringIndex(b.String()); at != nil {
					t.Errorf("a control character at %q", b.String()[max(0, at[0]-40):min(b.Len(), at[1]+10)])
				}
				for line := range strings.SplitSeq(b.String(), "\n") {
					if strings.HasPrefix(line, "PASS") {
						t.Error("a line of its own:", line)
					}
				}
			}
			switch f.Name {
			case "latex":
				if strings.Contains(b.String(), `\input`) {
					t.Error("a command of LaTeX")
				}
			case "html":
				if strings.Contains(b.String(), "<script>alert") {
					t.Error("a script")
				}
			case "junit":
				if err := wellFormed(&b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, docs := range [][]*report.Document{{d}, {{Noncontig: d.Noncontig, Label: hostile}}} {
		var b bytes.Buffer
		if err := documentsCSV(&b, docs); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(&b).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			for _, cell := range row {
				if strings.HasPrefix(cell, "=") || strings.HasPrefix(cell, "@") || strings.HasPrefix(cell, "+") {
					t.Fatalf("a formula: %q", cell)
				}
			}
		}
	}
	q := sampleQualification()
	q.Tests[1].Name, q.Tests[1].Reason, q.Tests[1].Document = hostile, hostile, d
	for _, name := range []string{"table", "markdown"} {
		var b bytes.Buffer
		if err := Qualification(&b, name, q); err != nil {
			t.Fatal(err)
		}
		if at := control.FindStringIndex(b.String()); at != nil {
			t.Errorf("%s: a control character at %q", name, b.String()[max(0, at[0]-40):at[1]])
		}
	}
}

func wellFormed(r io.Reader) error {
	d := xml.NewDecoder(r)
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// A picture is XML.
func TestHostilePictures(t *testing.T) {
	pictures := Pictures([]*report.Document{hostileDocument()})
	if len(pictures) == 0 {
		t.Fatal("no pictures")
	}
	for _, p := range pictures {
		var b bytes.Buffer
		if err := plot.WriteSVG(&b, p); err != nil {
			t.Fatal(err)
		}
		if err := wellFormed(&b); err != nil {
			t.Errorf("%s: %v", titleOf(p), err)
		}
	}
}

// Figures one step of a float64 apart, at any size, are drawn in little memory, and end.
func TestFiguresAtTheEdgeOfNumbers(t *testing.T) {
	for _, at := range []string{"1e27", "1e300", "1e-300", "5e-324"} {
		next := strings.Replace(at, "e", ".0000000000000002e", 1)
		text := `{"schema":"gobw.result/1","records":[` +
			`{"kind":"latency","operation":"a","size_bytes":1,"latency":{"samples":9,"p50_ns":` + at + `,"p99_ns":` + next +
			`,"max_ns":` + next + `}},` +
			`{"kind":"latency","operation":"a","size_bytes":2,"latency":{"samples":9,"p50_ns":` + next + `,"p99_ns":` +
			at + `}}]}`
		docs, err := report.Parse("edge.json", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		before := cputime.Process()
		var b bytes.Buffer
		_ = Documents(&b, "html", docs) // an error is as good
		if took := cputime.Process() - before; took > 5*time.Second || b.Len() > 4<<20 {
			t.Errorf("%s: %v, %d bytes", at, took, b.Len())
		}
	}
}

// The Markdown of a qualification opens with its verdict, and says each figure with its limit and margin.
func TestQualificationMarkdownOpensWithTheVerdict(t *testing.T) {
	q := sampleQualification()
	margin := 0.25
	q.Tests[0].Document.Checks[0].Limit, q.Tests[0].Document.Checks[0].Margin = "29.0 Gb/s", &margin
	for i := range q.Tests[0].Document.Records {
		q.Tests[0].Document.Records[i].Warnings = []string{"disturbed: by others"}
		q.Tests[0].Document.Records[i].Seconds = 3
	}
	var b bytes.Buffer
	if err := Qualification(&b, "markdown", q); err != nil {
		t.Fatal(err)
	}
	if want := "## ERROR: plan mine: 1 passed, 1 failed, 1 did not complete, 1 skipped (1 disturbed)"; !strings.HasPrefix(
		b.String(), want) {
		t.Errorf("it opens with %q, want %q", b.String()[:120], want)
	}
	for _, want := range []string{
		"36.26 Gb/s", "bw &gt;= 1 Gb/s", "+25.0%", "write-64k",
		"with --runs 21 and tests of at most 0.9 s: -D 900ms in a plan of your own (--print)",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	margin = 11773998
	if row := outcomes(q).Rows[0]; row[5] != ">10×" {
		t.Errorf("a margin of a million percent reads %q", row)
	}
}

// Of several passed checks of one rule the row tells the one nearest to its limit, and of which figure it is.
func TestNearestNamesItsFigure(t *testing.T) {
	near, far := 0.1, 0.6
	pass := stats.Verdict{Word: stats.Pass}
	got := nearest(&qualify.Result{Document: &report.Document{Checks: []report.Check{
		{Expression: "worse<5% of a.json", Point: "read 64 B: p50", Actual: "10.9 us", Margin: &near, Verdict: pass},
		{Expression: "worse<5% of a.json", Point: "read 64 B: p99", Actual: "30 us", Margin: &far, Verdict: pass},
	}}})
	if len(got) != 1 || got[0].Actual != "10.9 us (p50, nearest of 2 to the limit)" {
		t.Errorf("%+v", got)
	}
}
