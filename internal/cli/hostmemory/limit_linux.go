package hostmemory

import "golang.org/x/sys/unix"

// LockedLimit is RLIMIT_MEMLOCK in bytes; -1: none.
func LockedLimit() int64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); err != nil || l.Cur > 1<<62 {
		return -1
	}
	return int64(l.Cur)
}
