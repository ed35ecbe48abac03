package machine

import (
	"fmt"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gobw/gobw/internal/plan"
)

// AllowedCPUs lists the CPUs that this thread may run on, ascending.
func AllowedCPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	var out []int
	for i := range len(set) * 64 {
		if set.IsSet(i) {
			out = append(out, i)
		}
	}
	return out, nil
}

// pinThread binds the calling thread and returns what undoes it.
func pinThread(cpu int) (func() error, error) {
	var old, set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("pin to CPU %d: %w", cpu, err)
	}
	return func() error { return unix.SchedSetaffinity(0, &old) }, nil
}

// blockPreemption keeps SIGURG, by which Go's scheduler interrupts a goroutine that runs for 10 ms, from the
// calling thread until the returned function is called. What preemption is for is not needed meanwhile: nothing
// waits for this thread longer than a slice.
func blockPreemption() (func() error, error) {
	var old, urgent unix.Sigset_t
	bits := 8 * int(unsafe.Sizeof(urgent.Val[0]))
	urgent.Val[(int(unix.SIGURG)-1)/bits] |= 1 << ((int(unix.SIGURG) - 1) % bits)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &urgent, &old); err != nil {
		return nil, fmt.Errorf("block SIGURG: %w", err)
	}
	return func() error { return unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil) }, nil
}

// nodeCPUs are those of the allowed CPUs that belong to a NUMA node.
func nodeCPUs(node int, allowed []int) []int {
	if node < 0 {
		return nil
	}
	there, _ := plan.ParseCPUs(firstLine(fmt.Sprintf("/sys/devices/system/node/node%d/cpulist", node)))
	return slices.DeleteFunc(slices.Clone(allowed), func(cpu int) bool { return !slices.Contains(there, cpu) })
}

func threadID() int { return unix.Gettid() }

// Priority is that of the calling thread: "realtime" runs before all "normal" ones.
func Priority() string {
	a, err := unix.SchedGetAttr(0, 0)
	if err == nil && slices.Contains([]uint32{unix.SCHED_FIFO, unix.SCHED_RR, unix.SCHED_DEADLINE}, a.Policy) {
		return "realtime"
	}
	return "normal"
}

// LockedLimit is how many bytes this process may lock in memory ('ulimit -l'); -1: any number.
func LockedLimit() int64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); err != nil || l.Cur > 1<<62 {
		return -1
	}
	return int64(l.Cur)
}

// CurrentNode is the NUMA node of the CPU that runs the caller; -1: unknown.
func CurrentNode() int {
	var node uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, 0, uintptr(unsafe.Pointer(&node)), 0); errno != 0 {
		return -1
	}
	return int(node)
}

// processTime is the CPU time of a process, 0 being this one: clock_getcpuclockid(3). 0: unknown.
func processTime(pid int) time.Duration {
	const scheduled = 2 // CPUCLOCK_SCHED, of include/linux/posix-timers.h
	var t unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|scheduled), &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// emulated tells whether a file of /proc is made by a program, as lxcfs does in a container: it shows the container
// alone.
func emulated(file string) bool {
	var s unix.Statfs_t
	return unix.Statfs(file, &s) == nil && s.Type == unix.FUSE_SUPER_MAGIC
}
