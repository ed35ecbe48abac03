//go:build !unix

package child

import "syscall"

// ownGroup is not needed here.
func ownGroup() *syscall.SysProcAttr { return nil }
