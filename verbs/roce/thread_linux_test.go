package roce

import (
	"golang.org/x/sys/unix"
)

// pinThread binds the calling thread to a processor, where there are enough, and returns how to undo it.
func pinThread(cpu int) func() {
	var before, only unix.CPUSet
	if cpu < 0 || unix.SchedGetaffinity(0, &before) != nil || before.Count() <= cpu {
		return func() {}
	}
	only.Set(cpu)
	_ = unix.SchedSetaffinity(0, &only)
	return func() { _ = unix.SchedSetaffinity(0, &before) }
}
