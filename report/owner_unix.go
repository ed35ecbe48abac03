//go:build unix

package report

import (
	"io/fs"
	"os"
	"syscall"
)

// ownedByOther tells whether a file belongs to another user than this one and root, and to which.
func ownedByOther(info fs.FileInfo) (user uint32, is bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return s.Uid, s.Uid != 0 && int(s.Uid) != os.Geteuid()
}
