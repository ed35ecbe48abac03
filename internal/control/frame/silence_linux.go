package frame

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// boundHost ends the connection where the peer's host acknowledges nothing for so long, whatever its rhythm was: heartbeats go there all
// the time.
func boundHost(c net.Conn, bears time.Duration) {
	if socket, is := c.(syscall.Conn); is {
		if raw, err := socket.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) {
				_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(bears.Milliseconds()))
			})
		}
	}
}
