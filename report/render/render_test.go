package render

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plot"
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

// repeated is six runs of two tests at a share of their rate.
func repeated(share float64) *report.Document {
	d := saved("repeated")
	for i := range d.Records {
		d.Records[i].Bandwidth.AverageBitsPerS *= share
		d.Records[i].Seconds /= share
		d.Records[i].MessagesPerS *= share
	}
	return d
}

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
	one, runs := []*report.Document{saved("sample")}, []*report.Document{saved("repeated")}
	for _, f := range Formats() {
		t.Run(f.Name, func(t *testing.T) {
			var b bytes.Buffer
			if err := Documents(&b, f.Name, one); err != nil {
				t.Fatal(err)
			}
			if f.Name != "html" && f.Name != "svg" { // their parts are tested as such
				golden(t, "sample"+f.Endings[0], b.Bytes())
			}
			if err := Documents(failing{}, f.Name, one); !errors.Is(err, io.ErrShortWrite) {
				t.Errorf("a failing writer gives %v", err)
			}
		})
	}
	var b bytes.Buffer
	if err := Documents(&b, "table", slices.Concat(runs, runs)); err != nil {
		t.Fatal(err)
	}
	golden(t, "two.txt", b.Bytes())
}

// failing refuses every write.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestEveryFormatSaysTheLabelAndTheFailure(t *testing.T) {
	d := saved("sample")
	d.Complete, d.Failure = false, "the peer was lost"
	d.Label = "software device: not a NIC"
	for _, f := range Formats() {
		// label and completeness have columns; a picture says them where there is room
		if slices.Contains([]string{"csv", "svg"}, f.Name) {
			continue
		}
		var b bytes.Buffer
		if err := Documents(&b, f.Name, []*report.Document{d}); err != nil {
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
	for _, d := range []*report.Document{saved("sample"), saved("repeated")} {
		var b bytes.Buffer
		if err := Documents(&b, "table", []*report.Document{d}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 && !strings.Contains(line, "p99") &&
				!strings.Contains(line, "──") {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
}

func TestCSVParses(t *testing.T) {
	var b bytes.Buffer
	d := saved("sample")
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
	at := slices.Index(lines[0], "average_bits_per_s")
	if want := strconv.FormatFloat(d.Records[0].Bandwidth.AverageBitsPerS, 'g', -1, 64); at < 0 || lines[1][at] != want {
		t.Errorf("%v: no %s at column %d", lines[1], want, at)
	}
}

func TestJUnitParses(t *testing.T) {
	d := saved("sample")
	d.Complete, d.Failure = false, "peer said: \x1b[31mno\x00"
	var b bytes.Buffer
	if err := Documents(&b, "junit", []*report.Document{d}); err != nil {
		t.Fatal(err)
	}
	var got suites
	if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Tests != 3 || got.Failures != 1 || got.Errors != 1 {
		t.Errorf("%d tests, %d failures, %d errors; want 3, 1, 1", got.Tests, got.Failures, got.Errors)
	}
}

func TestEscapes(t *testing.T) {
	nasty := "a|b_c*d`e<f>&g[h]{i}$j%k#l~m^n\\o\np"
	if got := escapeMarkdown(nasty); strings.Contains(strings.ReplaceAll(got, `\|`, ""), "|") ||
		strings.Contains(got, "\n") {
		t.Errorf("Markdown: %s", got)
	}
	if got := escapeMarkdown("see https://x.example, www.x.example and @octocat"); regexp.MustCompile(
		`://|www\.|@\w`).MatchString(got) {
		t.Errorf("Markdown: %s: GitHub makes links of it and calls people", got)
	}
	want := `a\textbar{}b\_c*d` + "`" +
		`e\textless{}f\textgreater{}\&g[h]\{i\}\$j\%k\#l\textasciitilde{}m\textasciicircum{}n\textbackslash{}o p`
	if got := escapeLaTeX(nasty); got != want {
		t.Errorf("LaTeX: %s, want %s", got, want)
	}
	if got, want := escapeLaTeX("measure with --priority realtime"), "measure with -{}-priority realtime"; got != want {
		t.Errorf("LaTeX: %s, want %s", got, want)
	}
	d := saved("sample")
	d.Client.CPU = nasty
	d.Description = "<script>alert(1)</script>"
	d.Warnings = []string{nasty}
	var b bytes.Buffer
	if err := Documents(&b, "html", []*report.Document{d}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "<script>alert") {
		t.Error("HTML lets a script through")
	}
}

func TestFormatNamed(t *testing.T) {
	all := DocumentFormats()
	for name, want := range map[string]string{"md": "markdown", "latex": "latex", "prom": "openmetrics"} {
		if f, err := FormatNamed(all, name); err != nil || f != want {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
	for path, want := range map[string]string{"a.JSON": "json", "a": "json", "a.om": "openmetrics", "x.y/a.txt": "table"} {
		if f, err := FormatOfFile(all, path); err != nil || f != want {
			t.Errorf("%s: %v, %v", path, f, err)
		}
	}
	if _, err := FormatNamed(all, "tabel"); err == nil || !strings.Contains(err.Error(), `did you mean "table"?`) {
		t.Errorf("tabel: %v", err)
	}
	for path, want := range map[string]string{
		"-": "--format", "a.pdf": "rsvg-convert x.svg -f pdf -o a.pdf", "a.doc": ".html",
	} {
		if _, err := FormatOfFile(all, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := FormatOfFile(ComparisonFormats(), "a.csv"); err == nil || strings.Contains(err.Error(), ".html") {
		t.Errorf("a comparison as CSV: %v", err)
	}
}

func TestPictures(t *testing.T) {
	for _, tt := range []struct {
		name string
		docs []*report.Document
		want []string
	}{
		{"sample", []*report.Document{saved("sample")}, []string{
			"Write bandwidth over message size", "Write message rate over message size", "Write bandwidth over time",
			"Send latency over message size", "Send half round trip latency: histogram",
			"Send half round trip latency by percentile",
		}},
		{"one size", []*report.Document{saved("repeated")}, nil},
		{"none", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, p := range Pictures(tt.docs) {
				got = append(got, titleOf(p))
				if err := plot.WriteInlineSVG(io.Discard, p); err != nil {
					t.Error(err)
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
	d := saved("sample")
	r := &d.Records[4] // has CPU figures
	r.Direction, r.Events, r.Verified = "both", true, "ends"
	d.Records, d.Checks = d.Records[4:5], nil
	var b bytes.Buffer
	if err := Documents(&b, "table", []*report.Document{d}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"first\n    and last message verified", "cpu ns/msg", " 970.0"} {
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

// noteless asks for figures and failures alone.
type noteless struct{ bytes.Buffer }

func (*noteless) WithoutNotes() {}

// However many rows and runs are disturbed, a table is followed by one line for each kind of note, of both ends
// together.
func TestOneLineForEachKindOfNote(t *testing.T) {
	d := saved("sample")
	d.Records, d.Checks, d.Warnings = d.Records[:6], nil, nil
	for i := range d.Records {
		d.Records[i].Warnings = []string{
			[]string{
				fmt.Sprintf("peer: short: 3 ms; a test needs 10.00 ms; try -n %d", 5000+(i+2)%6),
				"short: 100 messages; a test needs 1280 (10 x messages in flight); try -n 1300",
			}[i%2],
			fmt.Sprintf("disturbed: other programs took %d %% of the measuring CPU; try 'chrt -r 1' before the command (needs "+
				"root, or 'ulimit -r 1')", 10+i),
			fmt.Sprintf("peer: disturbed: other programs took %d %% of the measuring CPU; try 'chrt -r 1' before the command "+
				"(needs root, or 'ulimit -r 1')", 20+i),
		}
		if i < 2 {
			d.Records[i].Warnings = append(d.Records[i].Warnings, "noisy: the rate moved")
		}
	}
	d.Complete, d.Failure = false, "the peer is gone"
	d.Records[5].Warnings = append(d.Records[5].Warnings, "incomplete: the peer is gone")
	var b bytes.Buffer
	if err := Documents(&b, "table", []*report.Document{d}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if strings.Count(text, d.Failure) != 1 || !strings.Contains(text, "disturbed, incomplete\n") {
		t.Errorf("what failed is said not once, above:\n%s", text)
	}
	for _, want := range []string{
		"disturbed (6 of 6 rows): other programs took 25 % of the measuring CPU", "noisy (2 of 6 rows): the rate moved",
		"short (6 of 6 rows): 3 ms; a test needs 10.00 ms; try -n 5004\n", "short, disturbed, noisy\n",
	} {
		if strings.Count(text, want) < 1 {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	var quiet noteless
	if err := Documents(&quiet, "table", []*report.Document{d}); err != nil ||
		strings.Contains(quiet.String(), "disturbed (") || !strings.Contains(quiet.String(), "1048576") {
		t.Errorf("--quiet: %v\n%s", err, &quiet)
	}
	_, below, _ := strings.Cut(text, "1048576")
	if n := strings.Count(below, "disturbed (6 of 6 rows): "); n != 1 {
		t.Errorf("disturbed is said %d times below the figures:\n%s", n, text)
	}
	if n := strings.Count(strings.TrimSpace(below), "\n"); n > 6 {
		t.Errorf("%d lines of notes:\n%s", n, below)
	}
}

// Each cause has a line of its own, though its kind be another's: what the device counted and the quota come first.
func TestOneLineForEachCause(t *testing.T) {
	d := saved("sample")
	d.Records, d.Checks, d.Warnings = d.Records[:2], nil, nil
	for i := range d.Records {
		d.Records[i].Warnings = []string{
			"noisy: the rate varied by up to 283 % within a run (interquartile range); try -D 10 --runs 6",
			"disturbed: other programs took 41 % of the measuring CPU; try 'chrt -r 1' before the command (needs root, " +
				"or 'ulimit -r 1')",
			fmt.Sprintf("disturbed: the CPU quota of this process's control group ran out %d times, for %d ms; raise the quota",
				10+i, 800+i),
			fmt.Sprintf("noisy: resent_pkts by %d: packets were sent again", 3546+i),
			"peer: noisy: packet_seq_err by 12: the other end missed packets",
		}
	}
	var b bytes.Buffer
	if err := Documents(&b, "markdown", []*report.Document{d}); err != nil {
		t.Fatal(err)
	}
	last := 0
	for _, want := range []string{
		"the CPU quota of this process's control group ran out 10 times", "resent_pkts by 3547: packets were sent again",
		"packet_seq_err by 12", "the rate varied by up to 283 %", "other programs took 41 %",
	} {
		text := strings.ReplaceAll(b.String(), `\`, "")
		at := strings.Index(text, want)
		if at < last || strings.Count(text, want) != 1 {
			t.Errorf("%q is at %d, behind %d, in\n%s", want, at, last, &b)
		}
		last = max(at, last)
	}
}

// Slow tests have units that fit them: no 0.0000282 Mmsg/s, and no exponent.
func TestUnitsFit(t *testing.T) {
	d := saved("repeated")
	for i := range d.Records {
		r := &d.Records[i]
		r.Bandwidth.AverageBitsPerS, r.MessagesPerS, r.Seconds = 225, 28.2, 0
	}
	var b bytes.Buffer
	if err := Documents(&b, "table", []*report.Document{d}); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); !strings.Contains(text, "kb/s") || !strings.Contains(text, "kmsg/s") ||
		!strings.Contains(text, "0.0282") || strings.Contains(text, "e-0") {
		t.Errorf("%s", text)
	}
	if got := percent(1192.8); got != "×1194" {
		t.Errorf("a change of 119281 %% is %q", got)
	}
}

// A page opens with the verdict on its expectations; one that cannot be told is not missed.
func TestPageVerdict(t *testing.T) {
	d := saved("sample")
	d.Checks = []report.Check{
		{Verdict: stats.Verdict{Word: stats.Pass}}, {Verdict: stats.Unknown(stats.Unclear, "", "noise")},
	}
	var b bytes.Buffer
	if err := Documents(&b, "html", []*report.Document{d}); err != nil ||
		!strings.Contains(b.String(), "CANNOT TELL: 1 of 2 expectations met.") {
		t.Errorf("%v in %.200s", err, &b)
	}
}
