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

// terminalColumns is the width of a terminal; 0: it is none.
func terminalColumns(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
