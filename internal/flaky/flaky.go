// Package flaky counts the tests that passed, but not at once: a retry hides what the suite should tell. scripts/test prints
// the count and fails above a budget. Corrupt data, panics and failed tests (exit status 6) are never tried again.
package flaky

import (
	"fmt"
	"os"
	"testing"
)

// File is the environment variable that names the file which collects a line for each such test.
const File = "GOBW_FLAKY"

// Passed notes that the test passed at this attempt, from 1. The first is as it should be, and is not noted.
func Passed(tb testing.TB, attempt int) {
	tb.Helper()
	Note(tb, tb.Name(), attempt)
}

// Note is [Passed] for a test of another program, by its name.
func Note(tb testing.TB, name string, attempt int) {
	tb.Helper()
	if attempt <= 1 {
		return
	}
	tb.Logf("FLAKY: %s passed at attempt %d", name, attempt)
	path := os.Getenv(File)
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		tb.Error(err)
		return
	}
	if _, err := fmt.Fprintf(f, "%s: attempt %d\n", name, attempt); err != nil { // one write: packages run beside each other
		tb.Error(err)
	}
	if err := f.Close(); err != nil {
		tb.Error(err)
	}
}
