package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/qualify"
	"github.com/gobw/gobw/report/stats"
)

// killed starts a command and kills it (kill -9) as soon as a file is as wanted.
func killed(t *testing.T, dir string, ready func() bool, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "gobw", args...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	late := time.After(2 * time.Minute)
	for {
		select {
		case <-look.C:
			if ready() {
				_ = cmd.Process.Kill()
				t.Logf("killed: %v", <-ended)
				return
			}
		case err := <-ended:
			t.Fatalf("it ended before it could be killed: %v\n%s", err, &out)
		case <-late:
			_ = cmd.Process.Kill()
			t.Fatalf("no checkpoint in 2 minutes, %v\n%s", <-ended, &out)
		}
	}
}

func finish(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "gobw", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// A qualification that was killed goes on after its last finished test.
func TestKilledQualificationResumes(t *testing.T) {
	dir := t.TempDir()
	plan := func(second string) {
		text := fmt.Sprintf("name: p\ntests:\n  - {name: one, run: gobw write -n 100 --warmup 0, expect: "+
			"bw >= 1 kb/s}\n  - {name: two, run: gobw write %s, expect: bw >= 1 kb/s}\n", second)
		if err := os.WriteFile(filepath.Join(dir, "p.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "q.json")
	line := []string{"qualify", "p.yaml", "-d", "roce0", "--loopback", "--peer-timeout", "60s"}
	plan("-D 300 --warmup 0")
	killed(t, dir, func() bool { _, err := os.Stat(path); return err == nil }, append(line, "--save", "q.json")...)
	before, err := qualify.Load(path)
	if err != nil || before == nil || len(before.Tests) != 1 {
		t.Fatalf("%v, %+v", err, before)
	}
	plan("-n 100 --warmup 0")
	finish(t, dir, append(line, "--save", "q.json", "--resume")...)
	after, err := qualify.Load(path)
	if err != nil || after.Outcome != stats.Pass || len(after.Tests) != 2 {
		t.Fatalf("%v, %+v", err, after)
	}
	if a, b := before.Tests[0].Document.Started, after.Tests[0].Document.Started; !a.Equal(b) {
		t.Errorf("the first test was measured again: at %v, then at %v", a, b)
	}
}

// A grid that was killed goes on after its last finished point, and another grid is refused by the flag that differs.
func TestKilledGridResumes(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it measures for seconds")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "grid.json")
	line := []string{
		"noncontig", "--loopback", "-d", "roce0", "--peer-timeout", "60s", "--blocks", "64,4K", "--runs", "2", "--save",
		"grid.json",
	}
	runs := func() map[string][]float64 {
		d, err := report.Load(path)
		if err != nil || d.Noncontig == nil {
			return nil
		}
		out := map[string][]float64{}
		for _, p := range d.Noncontig.Points {
			for _, r := range p.Runs {
				key := p.Shape + " " + p.Strategy + " " + p.Layout
				out[key] = append(out[key], r.GoodputBitsPerS)
			}
		}
		return out
	}
	killed(t, dir, func() bool { return len(runs()) > 1 }, append(line, "-D", "100ms")...)
	before := runs()
	cmd := exec.CommandContext(t.Context(), "gobw", append(line, "-D", "101ms", "--resume")...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); statusOf(err) != 2 ||
		!strings.Contains(string(out), "--duration (-D) in seconds was 0.1, is 0.101") {
		t.Errorf("another grid: %v\n%s", err, out)
	}
	finish(t, dir, append(line, "-D", "100ms", "--resume")...)
	after := runs()
	if len(after) <= len(before) && len(after) < 10 {
		t.Errorf("%d points before and %d after", len(before), len(after))
	}
	for key, values := range before {
		if len(after[key]) != 2 || after[key][0] != values[0] {
			t.Errorf("%s: %v before, %v after", key, values, after[key])
		}
	}
}

// A search that was killed is not finished: without --resume its file is not replaced, and with it no test is measured
// twice.
func TestKilledSearchResumes(t *testing.T) {
	dir := t.TempDir()
	type saved struct {
		Complete bool
		Failure  string
		Steps    []struct {
			Point   []int
			Figures struct{ Value float64 }
		}
	}
	load := func() (s saved) {
		if b, err := os.ReadFile(filepath.Join(dir, "s.json")); err == nil {
			_ = json.Unmarshal(b, &s) // half a file has no steps
		}
		return s
	}
	line := []string{"search", "best", "write --loopback -d roce0 -s 4K --peer-timeout 60s", "--only", "cq-mod,tx-depth"}
	line = append(line, "--test-time", "10ms", "--save", "s.json")
	killed(t, dir, func() bool { return len(load().Steps) >= 20 }, line...)
	before := load()
	if before.Complete || before.Failure == "" {
		t.Errorf("killed after %d tests, and complete: %v, %q", len(before.Steps), before.Complete, before.Failure)
	}
	again := exec.CommandContext(t.Context(), "gobw", line...)
	again.Dir = dir
	if out, err := again.CombinedOutput(); statusOf(err) != 2 || !strings.Contains(string(out), "--resume") {
		t.Errorf("once more without --resume: %v\n%s", err, out)
	}
	finish(t, dir, append(line, "--resume")...)
	after := load()
	if n := len(before.Steps); !after.Complete || len(after.Steps) <= n ||
		!reflect.DeepEqual(after.Steps[:n], before.Steps) {
		t.Errorf("after %d tests resumed to %d, complete: %v", n, len(after.Steps), after.Complete)
	}
}

// A sweep that was killed goes on after its last finished run, and another sweep is refused by the flag that differs.
func TestKilledSweepResumes(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it measures for seconds")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "s.json")
	line := []string{
		"write", "--loopback", "-d", "roce0", "--peer-timeout", "60s", "-s", "64,4K,64K", "--runs", "3", "--save", "s.json",
	}
	load := func() *report.Document {
		d, err := report.Load(path)
		if err != nil {
			return &report.Document{}
		}
		return d
	}
	killed(t, dir, func() bool { return len(load().Records) >= 2 }, append(line, "-D", "300ms")...)
	before := load()
	if before.Complete || before.Failure == "" || len(before.Records) >= 9 {
		t.Fatalf("killed with %d records, complete: %v, %q", len(before.Records), before.Complete, before.Failure)
	}
	cmd := exec.CommandContext(t.Context(), "gobw", append(line, "-D", "301ms", "-q", "2", "--resume")...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); statusOf(err) != 2 ||
		!strings.Contains(string(out), "--duration was 300ms, is 301ms; --qp was not given, is 2") {
		t.Errorf("another sweep: %v\n%s", err, out)
	}
	finish(t, dir, append(line, "--resume", "-D", "300ms")...)
	after := load()
	if !after.Complete || len(after.Records) != 9 || !after.Started.Equal(before.Started) {
		t.Fatalf("%d records, complete: %v %q, started %v, before %v", len(after.Records), after.Complete, after.Failure,
			after.Started, before.Started)
	}
	for i, r := range after.Records {
		if want := []uint64{64, 4096, 65536}[i/3]; r.SizeBytes != want || r.Run != i%3+1 {
			t.Errorf("record %d is of %d bytes, run %d", i, r.SizeBytes, r.Run)
		}
		if i < len(before.Records) && r.Messages != before.Records[i].Messages {
			t.Errorf("record %d was measured again", i)
		}
		if i > 0 && r.Setup() != after.Records[0].Setup() {
			t.Errorf("record %d has another plan: %v, %v", i, r.Plan, after.Records[0].Plan)
		}
	}
	finish(t, dir, append(line, "--resume", "-D", "300ms")...)
	if again := load(); len(again.Records) != 9 || !again.Complete {
		t.Errorf("a finished sweep went on: %d records", len(again.Records))
	}
}
