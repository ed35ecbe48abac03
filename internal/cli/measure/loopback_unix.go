//go:build unix

package measure

import (
	"syscall"
)

// ownGroup keeps the terminal's Ctrl-C from the child: its parent ends it in order.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
