package report_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
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
		if err := report.WriteFile(path,
			func(w io.Writer) error { _, err := io.WriteString(w, "x"); return err }); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("mode %v (%v), want %v", info.Mode(), err, want)
		}
	}
}

// A process that is killed while it saves leaves the file that was there as it was.
func TestKilledSaveKeepsThePreviousFile(t *testing.T) {
	if path := os.Getenv("GOBW_SAVE"); path != "" {
		_ = report.WriteFile(path, func(w io.Writer) error {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil { // more than a buffer
				return err
			}
			_, _ = os.Stdout.WriteString("writing\n")
			_, err := io.Copy(io.Discard, os.Stdin) // until it is killed
			return err
		})
	}
	path := filepath.Join(t.TempDir(), "x.json")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledSaveKeepsThePreviousFile$")
	cmd.Env = append(os.Environ(), "GOBW_SAVE="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "writing\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if got, err := os.ReadFile(path); err != nil || string(got) != "before" {
		t.Errorf("%q is left (%v)", got, err)
	}
}
