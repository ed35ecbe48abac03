package testrun

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is the CPU time of the calling thread: other programs do not add to it.
func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(t.Nano())
}
