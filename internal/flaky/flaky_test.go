package flaky

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPassed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flaky")
	t.Setenv(File, path)
	Passed(t, 1)
	if _, err := os.Stat(path); err == nil {
		t.Error("a test that passed at once was noted")
	}
	Passed(t, 2)
	Note(t, "lab/cell", 3)
	b, err := os.ReadFile(path)
	if want := "TestPassed: attempt 2\nlab/cell: attempt 3\n"; err != nil || string(b) != want {
		t.Errorf("%v, %q, want %q", err, b, want)
	}
}
