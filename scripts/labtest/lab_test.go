//go:build !lab

package labtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/testrun"
)

// later is the line of a cell that passed, but not at once.
var later = regexp.MustCompile(`(?m)^LATER: (.*?): attempt ([0-9]+)`)

// red is the line of a cell that failed, with its reason.
var red = regexp.MustCompile(`(?m)^FAILED: (.*?): (.*)$`)

// TestLab boots the lab and runs its suite. It takes minutes, so it asks to be asked.
func TestLab(t *testing.T) {
	if os.Getenv("GOBW_LAB") != "1" {
		t.Skip("set GOBW_LAB=1 to boot the kernel lab (scripts/lab test; needs what 'scripts/lab setup' installs)")
	}
	if deadline, ok := t.Deadline(); ok && time.Until(deadline) < 10*time.Minute {
		t.Skipf("the lab takes minutes and the test deadline is in %v: use -timeout 30m",
			time.Until(deadline).Round(time.Second))
	}
	script, err := filepath.Abs("../lab")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), script, "test")
	cmd.Dir = filepath.Dir(filepath.Dir(script))
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	t.Logf("%s test:\n%s", script, out.Bytes())
	for _, m := range later.FindAllStringSubmatch(out.String(), -1) {
		attempt, _ := strconv.Atoi(m[2])
		testrun.Later(t, "lab: "+m[1], attempt)
	}
	for _, m := range red.FindAllStringSubmatch(out.String(), -1) {
		t.Run(m[1], func(t *testing.T) { t.Error(m[2]) }) // by its name, so that a summary of failed tests tells which
	}
	if err != nil {
		t.Errorf("scripts/lab test: %v", err)
	}
}
