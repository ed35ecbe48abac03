package output

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalColumns is the width of a terminal; 0: it is none.
func terminalColumns(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
