package agent

import "golang.org/x/sys/unix"

// memlock is how many bytes this process may lock; -1: any.
func memlock() int64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); err != nil || l.Cur > 1<<62 {
		return -1
	}
	return int64(l.Cur)
}
