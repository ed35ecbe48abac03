//go:build unix

package child

import "syscall"

// OwnGroup keeps the terminal's Ctrl-C from a child: its parent ends it in order.
func OwnGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
