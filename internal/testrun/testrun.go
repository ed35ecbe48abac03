// Package testrun is what tests and scripts/test tell each other: which tests only 'make test-all' runs, what was not
// tried on this machine, and what passed only at a later attempt.
package testrun

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// Environment variables that scripts/test sets.
const (
	All      = "GOBW_ALL"       // not empty: everything, with full power
	CI       = "GOBW_CI"        // not empty: 'make setup' has run, so what it installs must be here
	NotTried = "GOBW_NOT_TRIED" // a file that collects what was not tried, a line each
	Retried  = "GOBW_FLAKY"     // a file that collects what passed at a later attempt, a line each
)

// Whole tells whether everything runs: simulations then make all their runs, and sweeps take every size.
func Whole() bool { return os.Getenv(All) != "" }

// OnlyWhole skips a test that only 'make test-all' runs, and says why.
func OnlyWhole(tb testing.TB, why string) {
	tb.Helper()
	if !Whole() {
		tb.Skipf("%s: make test-all runs it", why)
	}
}

// Lacks skips a test for want of something that 'make setup' does not install. scripts/test lists it.
func Lacks(tb testing.TB, what string) {
	tb.Helper()
	note(tb, NotTried, what)
	tb.Skip("not tried here: " + what)
}

// Missing skips a test for want of something that 'make setup' installs. scripts/test lists it; CI fails.
func Missing(tb testing.TB, what string) {
	tb.Helper()
	if os.Getenv(CI) != "" {
		tb.Fatalf("%s: 'make setup' should have installed it", what)
	}
	Lacks(tb, what)
}

// Need skips a test where a program is [Missing].
func Need(tb testing.TB, programs ...string) {
	tb.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			Missing(tb, p)
		}
	}
}

// Later notes that the test of this name passed at this attempt, from 1. The first is as it should
// be, and is not noted. A retry hides what the suite should tell, so only tests of 'make test-all'
// may try again, and it fails above a budget.
func Later(tb testing.TB, name string, attempt int) {
	tb.Helper()
	if attempt > 1 {
		tb.Logf("FLAKY: %s passed at attempt %d", name, attempt)
		note(tb, Retried, fmt.Sprintf("%s: attempt %d", name, attempt))
	}
}

// note appends a line to the file that a variable names. It is one write, as packages run beside each other.
func note(tb testing.TB, variable, line string) {
	tb.Helper()
	path := os.Getenv(variable)
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		tb.Error(err)
		return
	}
	if _, err := fmt.Fprintln(f, line); err != nil {
		tb.Error(err)
	}
	if err := f.Close(); err != nil {
		tb.Error(err)
	}
}
