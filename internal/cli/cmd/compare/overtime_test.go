package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/render"
)

// runTrend runs the command as a user would.
func runCompare(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := NewCommand("gobw", output.Streams{Out: &out, Err: &errs})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err := cmd.Execute()
	exit.Complain(&errs, "gobw", err)
	return out.String(), errs.String(), exit.Code(err)
}

// TestMain has all tests run in the night of the newest result.
func TestMain(m *testing.M) {
	now = func() time.Time { return time.Date(2026, 10, 30, 2, 0, 1, 0, time.UTC) }
	m.Run()
}

// nights saves so many results into a directory, under names that do not sort by time. The newest is of 30 October.
func nights(t *testing.T, count int, gbs func(n int) float64) string {
	t.Helper()
	dir := t.TempDir()
	for n := range count {
		d := &report.Document{
			Schema: report.SchemaVersion, Tool: "gobw", Complete: true,
			Started: time.Date(2026, 10, 31-count+n, 2, 0, 0, 0, time.UTC),
			Client:  report.Environment{Device: "mlx5_0", Host: "alpha", Version: fmt.Sprintf("v%d", 1+n/20)},
		}
		r := report.Record{
			Plan: report.Plan{
				Operation: "write", Kind: "bandwidth", Transport: "RC", Direction: "out", SizeBytes: 65536, QPs: 1,
			},
			Run: 1,
		}
		r.Bandwidth.AverageBitsPerS = gbs(n) * 1e9 * (1 + 0.002*float64(n*7919%11-5))
		d.Records = []report.Record{r}
		if err := report.Save(filepath.Join(dir, fmt.Sprintf("run-%03d.json", n*37%101)), d); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func steady(int) float64 { return 90 }

func dropped(n int) float64 {
	if n >= 25 {
		return 80
	}
	return 90
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestOverTime(t *testing.T) {
	dir := nights(t, 30, dropped)
	out, _, code := runCompare(t, dir)
	if code != 0 {
		t.Fatalf("exit status %d\n%s", code, out)
	}
	for _, want := range []string{
		"2026-10-26", "-11", "30 results from 2026-10-01 to 2026-10-30", "E-divisive", "worse", "run-", "Benjamini-Hochberg",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	for line := range strings.Lines(out) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	again, _, _ := runCompare(t, dir)
	if again != out {
		t.Errorf("twice the same results, and not the same text:\n%s\n%s", out, again)
	}
}

// Two results cannot say that nothing changed, and one that was interrupted is named.
func TestFewNights(t *testing.T) {
	dir := nights(t, 2, steady)
	name := filepath.Join(dir, "run-000.json")
	d, err := report.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	d.Complete = false
	if err := report.Save(name, d); err != nil {
		t.Fatal(err)
	}
	out, _, _ := runCompare(t, dir)
	for _, want := range []string{"needs 6", "INCOMPLETE: run-000"} {
		if !strings.Contains(out, want) || strings.Contains(out, "never") {
			t.Errorf("no %q, or \"never\", in:\n%s", want, out)
		}
	}
}

func TestGateOverTime(t *testing.T) {
	good, bad, long := nights(t, 30, steady), nights(t, 30, dropped), nights(t, 60, dropped)
	told, wordless := nights(t, 60, dropped), nights(t, 30, dropped)
	write(t, filepath.Join(told, "accepted"), "# of rack 7\n2026-09-26 another cable\n")
	write(t, filepath.Join(wordless, "accepted"), "2026-09-26\n")
	for _, tt := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"steady", []string{good, "--expect", "worse<5%"}, exit.Passed, ""},
		{"dropped", []string{bad, "--expect", "worse<5%"}, exit.Missed, "worse"},
		{"dropped by less than asked", []string{bad, "--expect", "worse<20%"}, exit.Passed, ""},
		{
			"dropped before the window",
			[]string{long, "--expect", "worse<5%", "--since", "14d"},
			exit.Missed,
			"since 2026-09-26",
		},
		{"accepted", []string{long, "--expect", "worse<5%", "--accept-since", "2026-09-26 another cable"}, exit.Passed, ""},
		{
			"accepted too early",
			[]string{long, "--expect", "worse<5%", "--accept-since", "2026-09-06"},
			exit.Missed,
			"since 2026-09-26",
		},
		{"accepted in a file", []string{told, "--expect", "worse<5%"}, exit.Passed, ""},
		{
			"accepted last night",
			[]string{bad, "--expect", "worse<5%", "--accept-since", "2026-10-30 ?"},
			exit.Undecided,
			"old results since the accepted 2026-10-30: 0",
		},
		{"accepted without a date", []string{bad, "--accept-since", "a new cable"}, exit.Usage, "want a date and a reason"},
		{"an accepted pair", []string{bad, bad, "--accept-since", "2026-10-01 x"}, exit.Usage, "needs a directory"},
		{"a file without a reason", []string{wordless, "--expect", "worse<5%"}, exit.Usage, "accepted:1: no reason"},
		{
			"stopped before the window",
			[]string{good, "--expect", "worse<5%", "--since", "2026-11-20"},
			exit.Undecided,
			"no result since 2026-11-20 (the newest is of 2026-10-30)",
		},
		{"too few", []string{nights(t, 5, steady), "--expect", "worse<5%"}, exit.Undecided, "too-few"},
		{"the first night", []string{nights(t, 1, steady), "--expect", "worse<5%"}, exit.Undecided, "too-few"},
		{"no such directory", []string{"nowhere"}, exit.Usage, "nowhere"},
		{"nothing named", nil, exit.Usage, "a directory of results"},
		{"wrong rule", []string{good, "--expect", "slower"}, exit.Usage, "slower"},
		{"wrong window", []string{good, "--since", "yesterday"}, exit.Usage, "yesterday"},
		{"a window of results, not of nights", []string{good, "--since", "7"}, exit.Usage, "want a time"},
		{"a window of two results", []string{good, good, "--since", "7d"}, exit.Usage, "a directory of results"},
		{"wrong figure", []string{good, "--figure", "bandwitch"}, exit.Usage, "bandwidth"},
		{"a figure without a better side", []string{good, "--figure", "seconds"}, exit.Usage, "cannot be better or worse"},
		{"wrong format", []string{good, "--format", "cvs"}, exit.Usage, "cvs"},
		{"wrong ending", []string{good, "--save", "x.doc"}, exit.Usage, ".html"},
		{"wrong confidence", []string{good, "--confidence", "1"}, exit.Usage, "confidence"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, errs, code := runCompare(t, tt.args...)
			if code != tt.code || !strings.Contains(errs, tt.says) {
				t.Errorf("exit status %d, want %d with %q\n%s%s", code, tt.code, tt.says, out, errs)
			}
		})
	}
}

// The report shows what was accepted and why, and before that how to accept.
func TestAcceptanceIsShown(t *testing.T) {
	dir := nights(t, 60, dropped)
	before, _, _ := runCompare(t, dir, "--since", "7d")
	write(t, filepath.Join(dir, "accepted"), "2026-09-26 another cable, T-7\n")
	after, _, _ := runCompare(t, dir, "--since", "7d")
	flat := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if want := "--accept-since '2026-09-26 REASON'"; !strings.Contains(flat(before), want) ||
		strings.Contains(flat(after), want) {
		t.Errorf("%q before it is accepted, not after:\n%s\n%s", want, before, after)
	}
	if want := "results since 2026-09-26: another cable, T-7 (" + dir +
		"/accepted:1)"; !strings.Contains(flat(after), want) {
		t.Errorf("no %q in:\n%s", want, after)
	}
}

// A job that stopped is not good: --since counts from now, not from the newest result.
func TestSinceIsBeforeNow(t *testing.T) {
	of := now
	defer func() { now = of }()
	now = func() time.Time { return time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC) }
	dir := nights(t, 30, steady)
	for _, args := range [][]string{{dir, "--since", "7d", "--expect", "worse<5%"}, {dir, "--expect", "worse<5%"}} {
		out, errs, code := runCompare(t, args...)
		if code != exit.Undecided || !strings.Contains(errs, "no result since 2026-11-20 (the newest is of 2026-10-30)") ||
			strings.Contains(errs, "the new result does not have it") ||
			strings.Contains(errs,
				"--expect judges what is new since 2026-11-20: --since 7d is the default") != (len(args) == 3) {
			t.Errorf("%v: exit status %d\n%s%s", args, code, out, errs)
		}
	}
}

// A directory loses the file that is broken, and no other; a gate does not pass over a broken result, but over what is
// none.
func TestBrokenFiles(t *testing.T) {
	dir := nights(t, 30, steady)
	write(t, filepath.Join(dir, "package.json"), `{"name": "x"}`)
	_, errs, code := runCompare(t, dir, "--expect", "worse<5%")
	if code != exit.Passed || !strings.Contains(errs, "left out: "+filepath.Join(dir, "package.json")) {
		t.Errorf("a foreign file: exit status %d\n%s", code, errs)
	}
	write(t, filepath.Join(dir, "cut.json"), `{"schema": "gobw.result/1", "records": [`)
	out, errs, code := runCompare(t, dir, "--expect", "worse<5%")
	if code != exit.Undecided || !strings.Contains(errs, "cut.json cannot be read") ||
		!strings.Contains(out, "30 results") {
		t.Errorf("a broken file: exit status %d\n%s%s", code, out, errs)
	}
	if _, _, code = runCompare(t, filepath.Join(dir, "cut.json")); code != exit.Usage {
		t.Errorf("a broken file that is named: exit status %d", code)
	}
}

func TestFormats(t *testing.T) {
	dir, to := nights(t, 30, dropped), t.TempDir()
	for _, name := range []string{"t.html", "t.md", "t.tex", "t.json", "t.txt"} {
		path := filepath.Join(to, name)
		if _, errs, code := runCompare(t, dir, "--save", path, "--since", "7d"); code != 0 {
			t.Fatalf("%s: exit status %d\n%s", name, code, errs)
		}
		b, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(b, []byte("2026-10-26")) {
			t.Errorf("%s: %v\n%s", name, err, b)
		}
		if name == "t.json" {
			var v struct {
				Series []struct{ Changes []struct{ At int } }
				Since  *struct{}
			}
			if err := json.Unmarshal(b, &v); err != nil || len(v.Series) != 1 || len(v.Series[0].Changes) != 1 ||
				v.Series[0].Changes[0].At != 25 || v.Since == nil {
				t.Errorf("%v, %+v", err, v)
			}
		}
		if name == "t.html" && (!bytes.Contains(b, []byte("<svg")) || bytes.Contains(b, []byte("http"+"://cdn"))) {
			t.Error("the page has no picture")
		}
	}
}

// Results of tests of many hosts are series, too: their paths and their hosts.
func TestFabric(t *testing.T) {
	dir := t.TempDir()
	for n := range 20 {
		d := &report.Document{
			Schema: report.SchemaVersion, Tool: "gobw", Complete: true, Started: time.Date(2026, 10, 11+n, 0, 0, 0, 0, time.UTC),
			Fabric: &matrix.Matrix{Pattern: "pairs", Rails: []string{"mlx5_0"}},
		}
		for run := range 4 {
			r := report.Record{Run: run + 1, Plan: report.Plan{
				Operation: "write", Kind: "bandwidth", Transport: "RC", Direction: "both", SizeBytes: 65536, QPs: 1,
				Pattern: "pairs", Rail: "mlx5_0", Node: "node3", Side: "sending",
			}}
			r.Bandwidth.AverageBitsPerS = dropped(n+10) * 1e9 * (1 + 0.001*float64((n*31+run)%13))
			d.Records = append(d.Records, r)
		}
		if err := report.Save(filepath.Join(dir, fmt.Sprintf("f%02d.json", n)), d); err != nil {
			t.Fatal(err)
		}
	}
	out, errs, code := runCompare(t, dir, "--expect", "worse<5%", "--since", "7d")
	if code != exit.Missed || !strings.Contains(out, "2026-10-26") || !strings.Contains(out, "node3") ||
		strings.Count(out, "same: within") != 1 {
		t.Errorf("exit status %d\n%s%s", code, out, errs)
	}
}

// What a file says does not reach the terminal as it is.
func TestHostileFiles(t *testing.T) {
	dir := t.TempDir()
	for n := range 12 {
		d := &report.Document{
			Schema: report.SchemaVersion, Tool: "\x1b[31m", Complete: true, Started: time.Unix(int64(n)*86400, 0),
			Label: "\x1b]0;x\a", Description: "../../x\x1b[2J",
		}
		r := report.Record{
			Plan: report.Plan{
				Operation: "../../../tmp/x\x1b[31m</script><svg onload=x>", Kind: "bandwidth", Transport: "RC", SizeBytes: 1,
			},
		}
		r.Bandwidth.AverageBitsPerS = 1e300 * float64(1-2*(n%2))
		d.Records = []report.Record{r}
		if err := report.Save(filepath.Join(dir, fmt.Sprint(n, ".json")), d); err != nil {
			t.Fatal(err)
		}
	}
	for _, format := range render.TrendFormats() {
		out, errs, code := runCompare(t, dir, "--format", format, "--since", "3d")
		if code != 0 || strings.Contains(out+errs, "\x1b") || format == "html" && strings.Contains(out, "<svg onload") {
			t.Errorf("%s: exit status %d\n%s%s", format, code, out, errs)
		}
	}
}
