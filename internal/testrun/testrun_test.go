package testrun

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flaky")
	t.Setenv(Retried, path)
	Later(t, t.Name(), 1)
	if _, err := os.Stat(path); err == nil {
		t.Error("a test that passed at once was noted")
	}
	Later(t, t.Name(), 2)
	Later(t, "lab/cell", 3)
	b, err := os.ReadFile(path)
	if want := "TestLater: attempt 2\nlab/cell: attempt 3\n"; err != nil || string(b) != want {
		t.Errorf("%v, %q, want %q", err, b, want)
	}
}

// TestNeed has a program that is not there: the test is skipped and listed; in CI it fails.
func TestNeed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "not tried")
	t.Setenv(NotTried, path)
	t.Setenv(CI, "")
	t.Run("skipped", func(t *testing.T) {
		t.Cleanup(func() {
			if !t.Skipped() {
				t.Error("it ran without its program")
			}
		})
		Need(t, "sh", "no-such-program")
	})
	if b, err := os.ReadFile(path); err != nil || string(b) != "no-such-program\n" {
		t.Errorf("%v, %q", err, b)
	}
	t.Setenv(CI, "1")
	tb := &failing{TB: t}
	func() {
		defer func() { _ = recover() }()
		Need(tb, "no-such-program")
	}()
	if !tb.failed {
		t.Error("in CI it did not fail")
	}
}

// failing is a test that notes that it failed.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Fatalf(string, ...any) {
	f.failed = true
	panic("the test ends")
}
