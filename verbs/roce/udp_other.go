//go:build !linux

package roce

import (
	"fmt"
	"net/netip"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sockaddr is an address as the kernel wants it.
type sockaddr struct{ to syscall.Sockaddr }

func makeSockaddr(a netip.Addr, zone uint32, port uint16) sockaddr {
	if a.Is4() {
		return sockaddr{&syscall.SockaddrInet4{Port: int(port), Addr: a.As4()}}
	}
	s := &syscall.SockaddrInet6{Port: int(port), Addr: a.As16()}
	if a.IsLinkLocalUnicast() {
		s.ZoneId = zone
	}
	return sockaddr{s}
}

// socket is an unconnected UDP socket bound to port 4791 of one local address, without the kernel's offloads. The IP ID
// is the kernel's: only peers that solve for it (this device does) accept the packets.
type socket struct {
	fd           int
	local        netip.Addr
	zone         uint32
	port         uint16
	mtu          int
	name         string
	segmentation bool
	calm         calm
	bufferBytes  int
	paths        map[netip.Addr]*path

	in struct {
		from, last netip.Addr
		port       uint16
		path       *path
	}
	flat []byte
}

func openSocket(local netip.Addr, zone uint32, port uint16, receiveBuffer int) (*socket, error) {
	local = local.WithZone("").Unmap()
	family := syscall.AF_INET
	if local.Is6() {
		family = syscall.AF_INET6
	}
	fd, err := syscall.Socket(family, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return nil, fmt.Errorf("UDP socket: %w", err)
	}
	syscall.CloseOnExec(fd)
	if err = syscall.SetNonblock(fd, true); err == nil {
		err = syscall.Bind(fd, makeSockaddr(local, zone, port).to)
	}
	if err != nil {
		_ = syscall.Close(fd)
		return nil, err
	}
	for n := receiveBuffer; n >= 64<<10; n /= 2 {
		if syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF, n) == nil {
			break
		}
	}
	s := &socket{fd: fd, local: local, zone: zone, port: port, paths: map[netip.Addr]*path{}}
	s.bufferBytes, _ = syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF)
	return s, nil
}

func (s *socket) useOffloads() {}

func (s *socket) close() error { return syscall.Close(s.fd) }

func (s *socket) receive(b []byte) (n, segment int) {
	n, from, err := syscall.Recvfrom(s.fd, b, syscall.MSG_DONTWAIT)
	if err != nil || n <= 0 {
		return 0, 0
	}
	switch a := from.(type) {
	case *syscall.SockaddrInet4:
		s.in.from, s.in.port = netip.AddrFrom4(a.Addr), uint16(a.Port)
	case *syscall.SockaddrInet6:
		s.in.from, s.in.port = netip.AddrFrom16(a.Addr), uint16(a.Port)
	}
	return n, n
}

func (s *socket) sender() (netip.Addr, uint16) { return s.in.from, s.in.port }

func (s *socket) sameSender() bool { return s.in.from == s.in.last }

func (s *socket) remember() { s.in.last = s.in.from }

func (s *socket) send(p *path, pieces []piece, _, _ int) bool {
	s.flat = s.flat[:0]
	for _, x := range pieces {
		s.flat = append(s.flat, unsafe.Slice((*byte)(x.base), x.n)...)
	}
	for range 100 {
		if err := syscall.Sendto(s.fd, s.flat, 0, p.name.to); err != syscall.EAGAIN && err != syscall.ENOBUFS {
			return true
		}
		pollUntil([]pollFD{awaitWritable(s.fd)}, 1_000_000)
	}
	return true
}

type pollFD = unix.PollFd

func awaitReadable(fd int) pollFD { return pollFD{Fd: int32(fd), Events: unix.POLLIN} }

func awaitWritable(fd int) pollFD { return pollFD{Fd: int32(fd), Events: unix.POLLOUT} }

func pollUntil(fds []pollFD, ns int64) {
	ms := -1
	if ns >= 0 {
		ms = int((ns + 999_999) / 1_000_000)
	}
	_, _ = unix.Poll(fds, ms)
}

// yieldProcessor lets another goroutine run.
func yieldProcessor() { runtime.Gosched() }

// waker ends another thread's pollUntil.
type waker struct{ r, w int }

func newWaker() (*waker, error) {
	var p [2]int
	if err := syscall.Pipe(p[:]); err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	for _, fd := range p {
		syscall.CloseOnExec(fd)
		_ = syscall.SetNonblock(fd, true)
	}
	return &waker{r: p[0], w: p[1]}, nil
}

func (w *waker) pollFD() pollFD { return awaitReadable(w.r) }

func (w *waker) wake() { _, _ = syscall.Write(w.w, []byte{1}) }

func (w *waker) drain() {
	var b [64]byte
	_, _ = syscall.Read(w.r, b[:])
}

func (w *waker) close() error {
	_ = syscall.Close(w.w)
	return syscall.Close(w.r)
}
