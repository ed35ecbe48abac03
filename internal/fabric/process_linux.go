package fabric

import (
	"os/exec"
	"syscall"
)

// dieWithParent ends a process when this one ends, however that comes about. It shares no terminal signals: this process
// tells it when to stop.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
