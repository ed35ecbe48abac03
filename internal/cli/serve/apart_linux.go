package serve

import (
	"errors"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gobw/gobw/internal/control/frame"
)

// canHandOver tells whether a connection can be given to another process here.
const canHandOver = true

// socketPair is the two ends of a conversation with a process of our own.
func socketPair() (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	if ours, err = unixConn(os.NewFile(uintptr(fds[0]), "orders")); err != nil {
		return nil, nil, errors.Join(err, unix.Close(fds[1]))
	}
	return ours, os.NewFile(uintptr(fds[1]), "orders"), nil
}

// unixConn makes a connection of a file, which it closes.
func unixConn(f *os.File) (*net.UnixConn, error) {
	c, err := net.FileConn(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	u, is := c.(*net.UnixConn)
	if !is {
		return nil, errors.Join(errors.New("no socket of a parent's"), c.Close())
	}
	return u, nil
}

// passing writes a message to a process of our own, and a connection's descriptor with it.
type passing struct {
	*net.UnixConn
	conn net.Conn
}

func (p passing) Write(b []byte) (sent int, err error) {
	err = errors.New("the connection is closed")
	frame.WithSocket(p.conn, func(fd int) { sent, _, err = p.WriteMsgUnix(b, unix.UnixRights(fd), nil) })
	if err == nil && sent < len(b) {
		_, err = p.UnixConn.Write(b[sent:])
	}
	return len(b), err
}

// conn is the connection that came with an order.
func (w *withFile) conn() (net.Conn, error) {
	f := os.NewFile(uintptr(w.fd), "connection")
	c, err := net.FileConn(f)
	return c, errors.Join(err, f.Close())
}

// withFile reads a parent's orders and keeps the descriptor that comes with one.
type withFile struct {
	*net.UnixConn
	fd int
}

func (w *withFile) Read(b []byte) (int, error) {
	var oob [64]byte
	n, more, _, _, err := w.ReadMsgUnix(b, oob[:])
	if err != nil {
		return n, err
	}
	if list, err := unix.ParseSocketControlMessage(oob[:more]); err == nil {
		for _, m := range list {
			if fds, err := unix.ParseUnixRights(&m); err == nil && len(fds) == 1 {
				unix.CloseOnExec(fds[0])
				w.fd = fds[0]
			}
		}
	}
	return n, nil
}

// boundProcess keeps a test from taking the host with it: this process may have what the test was granted and room for the program,
// leaves no core file, and is the first to go where memory is short.
func boundProcess(bytes uint64) error {
	const room = 2 << 30 // thread stacks, code, heap
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0)
	memory := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if bytes > 0 && bytes < 1<<60 {
		memory = unix.Rlimit{Cur: bytes + room, Max: bytes + room}
	}
	return errors.Join(unix.Setrlimit(unix.RLIMIT_DATA, &memory), unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}))
}

// boundMemory is how much of what it was granted this process may have for now.
func boundMemory(bytes uint64) error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &l); err != nil {
		return err
	}
	l.Cur = min(bytes, l.Max)
	return unix.Setrlimit(unix.RLIMIT_DATA, &l)
}

// cpuTime is the processor time that a process has had. A limit of it (RLIMIT_CPU) would not do: Go ignores its signal, and nobody may
// raise the one that kills.
func cpuTime(pid int) time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(int32(^pid<<3|2), &t) // CPUCLOCK_SCHED of a process: include/linux/posix-timers.h
	return time.Duration(t.Nano())
}
