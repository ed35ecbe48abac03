//go:build unix

package testrun

import (
	"syscall"
	"time"
)

// ProcessTime is the CPU time of this process, user and system: what else the machine does leaves it as it is.
func ProcessTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
