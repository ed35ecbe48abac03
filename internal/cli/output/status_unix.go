//go:build unix

package output

import (
	"os"
	"os/signal"
	"syscall"
)

// NotifyStatus delivers the signal that asks a long command how far it is: SIGUSR1, which srun and scancel -s pass on.
func NotifyStatus(c chan<- os.Signal) { signal.Notify(c, syscall.SIGUSR1) }
