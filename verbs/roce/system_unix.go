//go:build unix && !linux

package roce

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

type (
	descriptor  = int
	systemAddr  = unix.Sockaddr
	systemAddr4 = unix.SockaddrInet4
	systemAddr6 = unix.SockaddrInet6
	pollFD      = unix.PollFd
)

// openDatagram makes a UDP socket that never blocks.
func openDatagram(v6 bool) (descriptor, error) {
	family := unix.AF_INET
	if v6 {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
	if err != nil {
		return 0, err
	}
	unix.CloseOnExec(fd)
	return fd, unix.SetNonblock(fd, true)
}

func bindTo(fd descriptor, a systemAddr) error { return unix.Bind(fd, a) }

func closeDescriptor(fd descriptor) error { return unix.Close(fd) }

func setReceiveBuffer(fd descriptor, bytes int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, bytes)
}

func receiveBufferOf(fd descriptor) int {
	n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		return 0
	}
	return n
}

func receiveFrom(fd descriptor, b []byte) (int, systemAddr, error) { return unix.Recvfrom(fd, b, 0) }

// sendTo tells whether the packet is to be sent again, once there is room. What else may go wrong is a packet lost.
func sendTo(fd descriptor, b []byte, to systemAddr) (again bool) {
	err := unix.Sendto(fd, b, 0, to)
	return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOBUFS)
}

func awaitReadable(fd descriptor) pollFD { return pollFD{Fd: int32(fd), Events: unix.POLLIN} }

func awaitWritable(fd descriptor) pollFD { return pollFD{Fd: int32(fd), Events: unix.POLLOUT} }

func pollUntil(fds []pollFD, ns int64) {
	ms := -1
	if ns >= 0 {
		ms = int((ns + 999_999) / 1_000_000)
	}
	_, _ = unix.Poll(fds, ms)
}

// waker ends another thread's pollUntil.
type waker struct{ r, w descriptor }

func newWaker() (*waker, error) {
	var p [2]int
	if err := unix.Pipe(p[:]); err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	for _, fd := range p {
		unix.CloseOnExec(fd)
		_ = unix.SetNonblock(fd, true)
	}
	return &waker{r: p[0], w: p[1]}, nil
}

func (w *waker) pollFD() pollFD { return awaitReadable(w.r) }

func (w *waker) wake() { _, _ = unix.Write(w.w, []byte{1}) }

func (w *waker) drain() {
	var b [64]byte
	_, _ = unix.Read(w.r, b[:])
}

func (w *waker) close() error {
	_ = unix.Close(w.w)
	return unix.Close(w.r)
}
