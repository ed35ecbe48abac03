//go:build unix

// Package cputime is how much CPU time this process has had: what else the machine does leaves it as it is.
package cputime

import (
	"syscall"
	"time"
)

// Process is that of all its threads, user and system; 0: unknown.
func Process() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
