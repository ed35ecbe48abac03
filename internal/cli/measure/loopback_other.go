//go:build !unix

package measure

import "syscall"

func ownGroup() *syscall.SysProcAttr { return nil }
