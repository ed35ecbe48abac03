package hostmemory

import (
	"syscall"
)

// LockedLimit is RLIMIT_MEMLOCK in bytes, 0 where there is none.
func LockedLimit() uint64 {
	const rlimitMemlock = 8
	var l syscall.Rlimit
	if err := syscall.Getrlimit(rlimitMemlock, &l); err != nil || l.Cur == ^uint64(0) {
		return 0
	}
	return l.Cur
}
