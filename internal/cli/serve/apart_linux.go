package serve

import (
	"net"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// canHandOver tells whether a connection can be given to another process here.
const canHandOver = true

// notifyStatus asks for SIGUSR1, on which a server says how it is.
func notifyStatus(c chan<- os.Signal) { signal.Notify(c, syscall.SIGUSR1) }

// hasLeft tells whether the client has closed its side, or the connection is no more. Nothing is read for that.
func hasLeft(c net.Conn) bool {
	left := false
	onDescriptor(c, func(fd int) {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		left = err != nil || info.State != tcpEstablished
	})
	return left
}

const tcpEstablished = 1 // include/net/tcp_states.h

// unblock undoes what another process may have done to the connection that it shares.
func unblock(c net.Conn) { onDescriptor(c, func(fd int) { _ = unix.SetNonblock(fd, true) }) }

func onDescriptor(c net.Conn, f func(fd int)) {
	s, can := c.(syscall.Conn)
	if !can {
		return
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { f(int(fd)) }) // a closed connection has left
}

// boundProcess keeps a test from taking the host with it: it may have what the test was granted and room for the program,
// leaves no core file, and is the first to go where memory is short.
func boundProcess(bytes uint64) {
	const room = 2 << 30 // thread stacks, code, heap
	if bytes > 0 && bytes < 1<<60 {
		_ = unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: bytes + room, Max: bytes + room})
	}
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0)
}
