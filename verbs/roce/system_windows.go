package roce

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

type (
	descriptor  = windows.Handle
	systemAddr  = windows.Sockaddr
	systemAddr4 = windows.SockaddrInet4
	systemAddr6 = windows.SockaddrInet6
)

// pollFD is Winsock's WSAPOLLFD.
type pollFD struct {
	fd              windows.Handle
	events, revents int16
}

// What Winsock's header files say and the package windows does not.
const (
	fionbio          = 0x8004667e // never block
	udpConnReset     = 0x9800000c // SIO_UDP_CONNRESET: report "port unreachable" in a later receive
	pollReadNormal   = 0x0100     // POLLRDNORM
	pollWriteNormal  = 0x0010     // POLLWRNORM
	noBufferSpace    = windows.WSAENOBUFS
	winsock22        = 0x0202
	soReceiveBuffer  = windows.SO_RCVBUF
	levelSocket      = windows.SOL_SOCKET
	lengthOfAnOption = 4
)

var (
	startWinsock = sync.OnceValue(func() error { //nolint:gochecknoglobals // once a process, as Winsock wants it
		var data windows.WSAData
		return windows.WSAStartup(winsock22, &data)
	})
	wsaPoll = windows.NewLazySystemDLL("ws2_32.dll").NewProc("WSAPoll") //nolint:gochecknoglobals // a symbol of the system's
)

// openDatagram makes a UDP socket that never blocks, and that packets to nobody do not disturb.
func openDatagram(v6 bool) (descriptor, error) {
	if err := startWinsock(); err != nil {
		return 0, fmt.Errorf("start Winsock: %w", err)
	}
	family := windows.AF_INET
	if v6 {
		family = windows.AF_INET6
	}
	fd, err := windows.Socket(family, windows.SOCK_DGRAM, windows.IPPROTO_UDP)
	if err != nil {
		return 0, err
	}
	if err := control(fd, fionbio, 1); err != nil {
		return fd, err
	}
	_ = control(fd, udpConnReset, 0) // where it is not known, receives fail now and then, which is a packet less
	return fd, nil
}

func control(fd descriptor, code, value uint32) error {
	var done uint32
	return windows.WSAIoctl(fd, code, (*byte)(unsafe.Pointer(&value)), uint32(unsafe.Sizeof(value)), nil, 0, &done, nil, 0)
}

// bindTo says in the words of other systems that an address is taken.
func bindTo(fd descriptor, a systemAddr) error {
	err := windows.Bind(fd, a)
	if errors.Is(err, windows.WSAEADDRINUSE) {
		return syscall.EADDRINUSE
	}
	return err
}

func closeDescriptor(fd descriptor) error { return windows.Closesocket(fd) }

func setReceiveBuffer(fd descriptor, bytes int) error {
	return windows.SetsockoptInt(fd, levelSocket, soReceiveBuffer, bytes)
}

func receiveBufferOf(fd descriptor) int {
	var n, length int32 = 0, lengthOfAnOption
	if windows.Getsockopt(fd, levelSocket, soReceiveBuffer, (*byte)(unsafe.Pointer(&n)), &length) != nil {
		return 0
	}
	return int(n)
}

func receiveFrom(fd descriptor, b []byte) (int, systemAddr, error) { return windows.Recvfrom(fd, b, 0) }

// sendTo tells whether the packet is to be sent again, once there is room. What else may go wrong is a packet lost.
func sendTo(fd descriptor, b []byte, to systemAddr) (again bool) {
	err := windows.Sendto(fd, b, 0, to)
	return errors.Is(err, windows.WSAEWOULDBLOCK) || errors.Is(err, noBufferSpace)
}

func awaitReadable(fd descriptor) pollFD { return pollFD{fd: fd, events: pollReadNormal} }

func awaitWritable(fd descriptor) pollFD { return pollFD{fd: fd, events: pollWriteNormal} }

func pollUntil(fds []pollFD, ns int64) {
	ms := int32(-1)
	if ns >= 0 {
		ms = int32(min((ns+999_999)/1_000_000, 1<<30))
	}
	_, _, _ = wsaPoll.Call(uintptr(unsafe.Pointer(unsafe.SliceData(fds))), uintptr(len(fds)), uintptr(ms))
}

// waker ends another thread's pollUntil: WSAPoll takes sockets alone, so it is one that sends to itself.
type waker struct {
	fd   descriptor
	self systemAddr
}

func newWaker() (*waker, error) {
	fd, err := openDatagram(false)
	if err != nil {
		return nil, fmt.Errorf("socket to wake by: %w", err)
	}
	if err = bindTo(fd, &systemAddr4{Addr: [4]byte{127, 0, 0, 1}}); err == nil {
		var self systemAddr
		if self, err = windows.Getsockname(fd); err == nil {
			return &waker{fd: fd, self: self}, nil
		}
	}
	_ = closeDescriptor(fd)
	return nil, fmt.Errorf("socket to wake by: %w", err)
}

func (w *waker) pollFD() pollFD { return awaitReadable(w.fd) }

func (w *waker) wake() { _ = sendTo(w.fd, []byte{1}, w.self) }

func (w *waker) drain() {
	var b [64]byte
	for {
		if _, _, err := receiveFrom(w.fd, b[:]); err != nil {
			return
		}
	}
}

func (w *waker) close() error { return closeDescriptor(w.fd) }
