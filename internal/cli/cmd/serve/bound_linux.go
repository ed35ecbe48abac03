package serve

import (
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/gobw/gobw/internal/control/frame"
)

// judgeBytes is how much memory the process may have until its plan is judged.
const judgeBytes = 512 << 20

// descriptorOf is one more descriptor of a connection, for a child. That of net's File would make all of them block.
func descriptorOf(conn net.Conn) (f *os.File, err error) {
	err = errors.New("the connection is closed")
	frame.WithSocket(conn, func(fd int) {
		var n int
		if n, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err == nil {
			f = os.NewFile(uintptr(n), "client")
		}
	})
	return f, err
}

// boundProcess keeps a test from taking the host with it: this process may have what the test was granted and
// room for the program, and until its plan is judged no more than that takes. It leaves no core file, and is
// the first to go where memory is short.
func boundProcess(bytes uint64) error {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0)
	var present unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &present); err != nil {
		return err
	}
	memory := memoryLimit(bytes, present.Max)
	return errors.Join(unix.Setrlimit(unix.RLIMIT_DATA, &memory), unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}))
}

// memoryLimit is the limit of memory for a test that is granted so many bytes: no more
// than there is, which only root can raise.
func memoryLimit(bytes, present uint64) unix.Rlimit {
	const room = 2 << 30 // thread stacks, code, heap
	most := present
	if bytes > 0 && bytes < 1<<60 {
		most = min(most, bytes+room)
	}
	return unix.Rlimit{Cur: min(judgeBytes, most), Max: most}
}

// grantMemory gives this process all that its test was granted.
func grantMemory() error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &l); err != nil {
		return err
	}
	l.Cur = l.Max
	return unix.Setrlimit(unix.RLIMIT_DATA, &l)
}
