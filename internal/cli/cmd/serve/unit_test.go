package serve

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/testrun"
)

// TestSystemdUnit: the unit's command line is one of ours, and systemd finds nothing wrong with the rest.
func TestSystemdUnit(t *testing.T) {
	text, err := os.ReadFile("../../../../examples/systemd/gobw-serve.service")
	if err != nil {
		t.Fatal(err)
	}
	_, line, found := strings.Cut(string(text), "\nExecStart=/usr/bin/gobw serve ")
	if !found {
		t.Fatal("the unit starts something else")
	}
	line, _, _ = strings.Cut(line, "\n")
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(strings.Repeat("0123456789abcdef", 4)), 0o600); err != nil {
		t.Fatal(err)
	}
	line = strings.ReplaceAll(line, "%d/token", token)
	cmd := NewCommand("gobw", output.Streams{Out: t.Output(), Err: t.Output()})
	if err := cmd.ParseFlags(strings.Fields(line)); err != nil {
		t.Errorf("%s: %v", line, err)
	}
	if !cmd.Flags().Changed("token-file") && !cmd.Flags().Changed("allow") {
		t.Error("the unit lets everybody in")
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		testrun.Lacks(t, "systemd-analyze")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "gobw-serve.service") // the program is not installed here
	if err := os.WriteFile(unit, []byte(strings.ReplaceAll(string(text), "/usr/bin/gobw", self)), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", unit).CombinedOutput(); err != nil ||
		strings.Contains(string(out), unit) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
