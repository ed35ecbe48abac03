//go:build linux

package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gobw/gobw/internal/testrun"
)

// TestCosts sends a sample of the table to a running server; the whole of it is scripts/costs.
func TestCosts(t *testing.T) {
	if n := len(strangers()); n < 200 {
		t.Errorf("%d rows, want 200", n)
	}
	if testing.Short() {
		t.Skip("short: it links a program; internal/cli has hostile clients of a server")
	}
	every := 16
	if testrun.Whole() {
		every = 1
	}
	gobw := filepath.Join(t.TempDir(), "gobw")
	if out, err := exec.Command("go", "build", "-o", gobw, "../../cmd/gobw").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := costs(t.Context(), gobw, every, "", 0, 0); err != nil {
		t.Error(err)
	}
}
