package report_test

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gobw/gobw/report"
)

// The umask decides who may read a new file, and one that was there keeps its mode.
func TestModeOfSavedFiles(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "x.json")
	for _, want := range []os.FileMode{0o600, 0o640} { // the second was chosen by hand
		if want != 0o600 {
			if err := os.Chmod(path, want); err != nil {
				t.Fatal(err)
			}
		}
		if err := report.WriteFile(path, func(w io.Writer) error { _, err := io.WriteString(w, "x"); return err }); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("mode %v (%v), want %v", info.Mode(), err, want)
		}
	}
}
