// Package cputime is how much CPU time this process has had: what else the machine does leaves it as it is.
package cputime

import (
	"time"

	"golang.org/x/sys/windows"
)

// Process is that of all its threads, user and kernel; 0: unknown.
func Process() time.Duration {
	var made, ended, kernel, user windows.Filetime
	if windows.GetProcessTimes(windows.CurrentProcess(), &made, &ended, &kernel, &user) != nil {
		return 0
	}
	return elapsed(kernel) + elapsed(user)
}

// elapsed is a span in steps of 100 ns.
func elapsed(t windows.Filetime) time.Duration {
	return 100 * time.Duration(int64(t.HighDateTime)<<32|int64(t.LowDateTime))
}
