//go:build linux

package main

import (
	"errors"
	"testing"
)

// TestAttempt tells what is tried again, and that a second attempt is told.
func TestAttempt(t *testing.T) {
	for reason, want := range map[string]bool{
		"gobw client: exit status 1: nothing moved for 10s / the two ends may run different tests": true,
		"the two ends disagree: 1 and 9":                         true,
		"did not end in time":                                    true,
		"message 3: byte 7 differs":                              false,
		"data corrupt":                                           false,
		"exit status 2: panic: index":                            false,
		"exit status 6: PORT_ERR":                                false,
		"stock client: signal: segmentation fault (core dumped)": false,
	} {
		if got := !grave.MatchString(reason); got != want {
			t.Errorf("%q is tried again: %t, want %t", reason, got, want)
		}
	}
	var o outcome
	o.attempt(func(attempt int) (string, bool, error) {
		if attempt == 1 {
			return "", true, errors.New("late")
		}
		return "figures", false, nil
	})
	if o.Verdict != passed || o.Attempts != 2 || o.First != "late" {
		t.Errorf("%+v", o)
	}
}
