package job

import "syscall"

// YieldProcessor lets other threads run here, the peer's perhaps. [runtime.Gosched]
// would not: it knows goroutines alone.
func YieldProcessor() { _, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }
