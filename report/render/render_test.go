package render

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/internal/sample"
	"github.com/gobw/gobw/report/plot"
)

var Update = flag.Bool("update", false, "write the golden files again") //nolint:gochecknoglobals // a flag of the test

// golden compares got with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *Update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run the test with -update)", err)
	}
	if diff := cmp.Diff(strings.Split(string(got), "\n"), strings.Split(string(want), "\n")); diff != "" {
		t.Errorf("%s differs (look at it, then -update):\n%s", path, diff)
	}
}

func TestFormats(t *testing.T) {
	for _, f := range Formats() {
		for name, docs := range map[string][]*report.Document{
			"sample":   {sample.Document()},
			"repeated": {sample.Repeated(1)},
			"two":      {sample.Repeated(1), sample.Repeated(0.9)},
		} {
			t.Run(f.Name+"/"+name, func(t *testing.T) {
				var b bytes.Buffer
				if err := f.All(&b, docs); err != nil {
					t.Fatal(err)
				}
				golden(t, name+f.Extension, b.Bytes())
				if err := f.All(failing{}, docs); !errors.Is(err, io.ErrShortWrite) {
					t.Errorf("a failing writer gives %v", err)
				}
			})
		}
	}
}

// failing refuses every write.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestEveryFormatSaysTheLabelAndTheFailure(t *testing.T) {
	d := sample.Document()
	d.Complete, d.Failure = false, "the peer was lost"
	d.Label = "software device: not a NIC"
	for _, f := range Formats() {
		if f.Name == "jsonl" || f.Name == "csv" { // lines of records: label and completeness have columns
			continue
		}
		var b bytes.Buffer
		if err := f.Render(&b, d); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{d.Label, d.Failure} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s does not say %q", f.Name, want)
			}
		}
	}
}

func TestTableFits(t *testing.T) {
	for _, d := range []*report.Document{sample.Document(), sample.Repeated(1)} {
		var b bytes.Buffer
		if err := documentAs("table")(&b, d); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 && !strings.Contains(line, "p99") && !strings.Contains(line, "──") {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
}

func TestCSVParses(t *testing.T) {
	var b bytes.Buffer
	d := sample.Document()
	if err := documentsCSV(&b, []*report.Document{d}); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != 1+len(d.Records) {
		t.Errorf("%d lines, want a header and %d records", len(lines), len(d.Records))
	}
	if got, want := len(lines[0]), len(csvColumns()); got != want {
		t.Errorf("%d columns, want %d", got, want)
	}
}

func TestJSONLinesParse(t *testing.T) {
	var b bytes.Buffer
	d := sample.Document()
	if err := documentJSONLines(&b, d); err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(b.String()) {
		var r report.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, d.Records[n]); diff != "" {
			t.Error(diff)
		}
		n++
	}
	if n != len(d.Records) {
		t.Errorf("%d lines, want %d", n, len(d.Records))
	}
}

func TestJUnitParses(t *testing.T) {
	d := sample.Document()
	d.Complete, d.Failure = false, "peer said: \x1b[31mno\x00"
	var b bytes.Buffer
	if err := documentsJUnit(&b, []*report.Document{d}); err != nil {
		t.Fatal(err)
	}
	var got junitSuites
	if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Tests != 3 || got.Failures != 1 || got.Errors != 1 {
		t.Errorf("%d tests, %d failures, %d errors; want 3, 1, 1", got.Tests, got.Failures, got.Errors)
	}
}

func TestEscapes(t *testing.T) {
	nasty := "a|b_c*d`e<f>&g[h]{i}$j%k#l~m^n\\o\np"
	if got := escapeMarkdown(nasty); strings.Contains(strings.ReplaceAll(got, `\|`, ""), "|") || strings.Contains(got, "\n") {
		t.Errorf("Markdown: %s", got)
	}
	want := `a\textbar{}b\_c*d` + "`" + `e\textless{}f\textgreater{}\&g[h]\{i\}\$j\%k\#l\textasciitilde{}m\textasciicircum{}n\textbackslash{}o p`
	if got := escapeLaTeX(nasty); got != want {
		t.Errorf("LaTeX: %s, want %s", got, want)
	}
	if got, want := escapeLaTeX("measure with --priority realtime"), "measure with -{}-priority realtime"; got != want {
		t.Errorf("LaTeX: %s, want %s", got, want)
	}
	d := sample.Document()
	d.Client.CPU = nasty
	d.Description = "<script>alert(1)</script>"
	d.Warnings = []string{nasty}
	var b bytes.Buffer
	if err := documentsHTML(&b, []*report.Document{d}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "<script>alert") {
		t.Error("HTML lets a script through")
	}
}

func TestFormatNamed(t *testing.T) {
	if f, err := FormatNamed("md"); err != nil || f.Name != "markdown" {
		t.Errorf("md: %v, %v", f.Name, err)
	}
	if _, err := FormatNamed("tabel"); err == nil || !strings.Contains(err.Error(), `did you mean "table"?`) {
		t.Errorf("tabel: %v", err)
	}
}

func TestPictures(t *testing.T) {
	for _, tt := range []struct {
		name string
		docs []*report.Document
		want []string
	}{
		{"sample", []*report.Document{sample.Document()}, []string{
			"write-bandwidth", "write-message-rate", "write-bandwidth-over-time", "send-latency", "send-latency-histogram", "send-latency-percentiles",
		}},
		{"one size", []*report.Document{sample.Repeated(1)}, nil},
		{"none", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, p := range Pictures(tt.docs) {
				got = append(got, p.Name)
				for _, write := range []func(io.Writer, plot.Figure) error{plot.WriteSVG, plot.WriteInlineSVG} {
					if err := write(io.Discard, p.Figure); err != nil {
						t.Error(err)
					}
				}
				if dir := os.Getenv("PLOT_OUT"); dir != "" {
					var b bytes.Buffer
					if err := plot.WritePNG(&b, p.Figure, 1.5); err != nil {
						t.Error(err)
					}
					if err := os.WriteFile(filepath.Join(dir, p.Name+".png"), b.Bytes(), 0o644); err != nil {
						t.Error(err)
					}
				}
			}
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTableSaysWhatWasAsked has a verified run with accounted CPU time and a long title: all are seen in 80 columns.
func TestTableSaysWhatWasAsked(t *testing.T) {
	d := sample.Document()
	r := &d.Records[4] // has CPU figures
	r.Direction, r.Events, r.Verified = "both", true, "ends"
	d.Records, d.Checks = d.Records[4:5], nil
	var b bytes.Buffer
	if err := documentAs("table")(&b, d); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n    first and last message verified, signaled every 100\n", "cpu ns/msg", " 970.0"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	for line := range strings.Lines(b.String()) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}
