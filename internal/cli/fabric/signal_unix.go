//go:build unix

package fabric

import (
	"os"
	"os/signal"
	"syscall"
)

// notifySnapshots delivers the signal that asks for a snapshot: SIGUSR1, which srun and scancel -s pass on.
func notifySnapshots(c chan<- os.Signal) { signal.Notify(c, syscall.SIGUSR1) }
