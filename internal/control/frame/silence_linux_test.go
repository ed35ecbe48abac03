package frame

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestHostIsBounded: whatever the rhythm of a peer, the kernel ends the connection once its host acknowledges nothing for the peer timeout.
func TestHostIsBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer New(c, Options{Bears: 3 * time.Second}).Abandon()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	ms := 0
	if err := raw.Control(func(fd uintptr) { ms, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) }); err != nil || ms != 3000 {
		t.Errorf("%d ms, %v", ms, err)
	}
}
