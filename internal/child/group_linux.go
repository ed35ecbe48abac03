package child

import "syscall"

// endWithParent has a process that is started by the calling thread get a signal when that thread ends.
func endWithParent(a *syscall.SysProcAttr, by syscall.Signal) { a.Pdeathsig = by }
