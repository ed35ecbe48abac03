package testrun

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// FuzzChanged fails on inputs that no seed is, where it is asked to.
func FuzzChanged(f *testing.F) {
	f.Add([]byte("a seed"), "text", 7, true)
	f.Add([]byte{}, "", -1, false)
	Fuzz(f, func(t *testing.T, b []byte, s string, n int, yes bool) {
		if os.Getenv("FAIL") == "" {
			return
		}
		if bytes.HasPrefix(b, []byte("a see")) && len(b) > 6 && s != "text" && n > 7 && !yes {
			t.Error("found")
		}
	})
}

// TestFuzzFindsNewInputs runs the target above in a process of its own: it finds what no seed is, and prints it.
func TestFuzzFindsNewInputs(t *testing.T) {
	run := func(env ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^FuzzChanged$")
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("FAIL=1", FuzzTime+"="); err != nil {
		t.Errorf("the seeds alone: %v\n%s", err, out)
	}
	out, err := run("FAIL=1", FuzzTime+"=30s")
	for _, want := range []string{"found", "go test fuzz v1\n", `[]byte("a see`, "bool(false)"} {
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%v: it does not say %q:\n%s", err, want, out)
		}
	}
}
