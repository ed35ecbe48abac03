//go:build !linux

package child

import "syscall"

// endWithParent has no signal here.
func endWithParent(*syscall.SysProcAttr, syscall.Signal) {}
