package frame

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// hostOf asks the kernel when the peer's host last acknowledged anything. Heartbeats give it something to acknowledge.
func hostOf(c net.Conn, bears time.Duration) hostLife {
	life := hostUnknown
	WithSocket(c, func(fd int) {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		switch {
		case err != nil:
		case time.Duration(info.Last_ack_recv)*time.Millisecond < bears:
			life = hostAnswers
		default:
			life = hostSilent
		}
	})
	return life
}

// Closed tells whether the peer has closed a connection, or its host is gone.
func Closed(c net.Conn) bool {
	closed := true
	WithSocket(c, func(fd int) {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		closed = err == nil && info.State != tcpEstablished
	})
	return closed
}

const tcpEstablished = 1 // of the kernel's TCP_INFO

// unread tells whether the peer has said something that nobody has read yet.
func unread(c net.Conn) bool {
	n := 0
	WithSocket(c, func(fd int) { n, _ = unix.IoctlGetInt(fd, unix.TIOCINQ) })
	return n > 0
}

// WithSocket lends the descriptor of a connection.
func WithSocket(c net.Conn, ask func(fd int)) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { ask(int(fd)) }) // a closed connection tells nothing
}
