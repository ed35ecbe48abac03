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
	f.Add([]byte("a seed"))
	f.Add([]byte{})
	Fuzz(f, func(t *testing.T, b []byte) {
		if os.Getenv("FAIL") == "" {
			return
		}
		if bytes.HasPrefix(b, []byte("a see")) && len(b) > 6 && b[5] != 'd' && b[6] > 'd' {
			t.Error("found")
		}
	})
}

// FuzzChangedText does so with a text.
func FuzzChangedText(f *testing.F) {
	f.Add("a seed")
	Fuzz(f, func(t *testing.T, text string) {
		if os.Getenv("FAIL") != "" && text != "a seed" {
			t.Error("found")
		}
	})
}

// TestFuzzFindsNewInputs runs the targets above in a process of their own: they find what no seed is, and print it.
func TestFuzzFindsNewInputs(t *testing.T) {
	run := func(env ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^FuzzChanged")
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("FAIL=1", FuzzTime+"="); err != nil {
		t.Errorf("the seeds alone: %v\n%s", err, out)
	}
	out, err := run("FAIL=1", FuzzTime+"=30s")
	for _, want := range []string{"found", "go test fuzz v1\n", `[]byte("a see`, `string("`} {
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%v: it does not say %q:\n%s", err, want, out)
		}
	}
}
