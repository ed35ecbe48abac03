//go:build !lab

package labtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestLab boots the lab and runs its suite. It takes minutes, so it asks to be asked.
func TestLab(t *testing.T) {
	if os.Getenv("GOBW_LAB") != "1" {
		t.Skip("set GOBW_LAB=1 to boot the kernel lab (scripts/lab test; needs what 'scripts/lab setup' installs)")
	}
	if deadline, ok := t.Deadline(); ok && time.Until(deadline) < 10*time.Minute {
		t.Skipf("the lab takes minutes and the test deadline is in %v: use -timeout 30m", time.Until(deadline).Round(time.Second))
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
	if err != nil {
		t.Errorf("scripts/lab test: %v", err)
	}
}
