//go:build !unix

package child

import "syscall"

// OwnGroup is not needed here.
func OwnGroup() *syscall.SysProcAttr { return nil }
