//go:build unix

package output

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// NotifyStatus delivers the signal that asks a long command how far it is: SIGUSR1, which srun and scancel -s pass on.
func NotifyStatus(c chan<- os.Signal) { signal.Notify(c, syscall.SIGUSR1) }

// terminalOf tells whether f is a terminal, and its width; 0: unknown.
func terminalOf(f *os.File) (columns int, is bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	return int(size.Col), true
}
