//go:build unix

package cli

import (
	"os"
	"syscall"
)

// endBy ends this process as the signal would if nobody listened.
func endBy(s os.Signal) {
	if n, is := s.(syscall.Signal); is {
		_ = syscall.Kill(os.Getpid(), n)
	}
}
