package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gobw/gobw/report/qualify"
	"github.com/gobw/gobw/report/stats"
)

// A plan's other side is measured beside each test, in pairs: a slowdown of a half is found, a build that is not there cannot be told
// of, and both fail the gate.
func TestQualifyAgainst(t *testing.T) {
	if testing.Short() {
		t.Skip("judges figures: not with -short")
	}
	dir := t.TempDir()
	judge := func(against, run string, more ...string) (int, qualify.Result, string) {
		text := fmt.Sprintf("name: p\nagainst: {%s, pairs: 6, within: 40%%}\ntests:\n  - {name: one, run: %s}\n", against, run)
		if err := os.WriteFile(filepath.Join(dir, "p.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "gobw", append([]string{"qualify", "p.yaml", "-d", "roce0", "--loopback", "--peer-timeout", "60s", "--json", "q.json"}, more...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		q, loadErr := qualify.Load(filepath.Join(dir, "q.json"))
		if loadErr != nil || q == nil || len(q.Tests) != 1 || q.Tests[0].Against == nil {
			t.Fatalf("%v %v: %+v\n%s", err, loadErr, q, out)
		}
		return statusOf(err), q.Tests[0], string(out)
	}
	const test = "golat send -s 64 -n 20 --warmup 2"
	code, slow, out := judge(`flags: "--emulate delay=2ms"`, test, "--emulate", "delay=6ms")
	if c := slow.Against; code != 1 || c.Passed || !strings.Contains(c.Expression, "p50 within 40 % of this build --emulate delay=2ms") {
		t.Errorf("three times as slow: exit status %d, %+v\n%s", code, c, out)
	}
	code, fast, out := judge(`flags: "--emulate delay=6ms"`, test, "--emulate", "delay=2ms", "--accept", "unclear,disturbed")
	if c := fast.Against; code != 0 || !c.Passed {
		t.Errorf("three times as fast: exit status %d, %+v\n%s", code, c, out)
	}
	code, gone, out := judge(`program: ./no-such-build`, test)
	if c := gone.Against; code != 1 || c.Passed || c.Cause != stats.Missing {
		t.Errorf("a build that is not there: exit status %d, %+v\n%s", code, c, out)
	}
	if code, _, out = judge(`program: ./no-such-build`, test, "--accept", "missing"); code != 0 {
		t.Errorf("a missing build was accepted: exit status %d\n%s", code, out)
	}
}
