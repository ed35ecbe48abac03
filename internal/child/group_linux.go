package child

import "syscall"

// endWithParent has a process that is started by the calling thread be told to end when that thread does.
func endWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGTERM }
