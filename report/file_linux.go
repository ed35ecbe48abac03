package report

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// unnamed opens a new file of a directory that has no name yet: until name gives it one, it goes with its process.
func unnamed(dir string) (f *os.File, name func(path string) error, err error) {
	f, err = os.OpenFile(dir, os.O_WRONLY|unix.O_TMPFILE, 0o666)
	return f, func(path string) error {
		err := unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
		if err != nil {
			return &os.PathError{Op: "link", Path: path, Err: err}
		}
		return nil
	}, err
}
