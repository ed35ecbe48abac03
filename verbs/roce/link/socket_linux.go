//go:build !portable

package link

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"syscall"
	"unsafe"

	"github.com/gobw/gobw/verbs/tick"
	"golang.org/x/sys/unix"
)

// sockaddr is an address as the kernel wants it: struct sockaddr_in or sockaddr_in6.
type sockaddr struct {
	b [syscall.SizeofSockaddrInet6]byte
	n uint32
}

func makeSockaddr(a netip.Addr, zone uint32, port uint16, flowLabel uint32) sockaddr {
	var s sockaddr
	if a.Is4() {
		binary.NativeEndian.PutUint16(s.b[:], syscall.AF_INET)
		ip := a.As4()
		copy(s.b[4:], ip[:])
		s.n = syscall.SizeofSockaddrInet4
	} else {
		binary.NativeEndian.PutUint16(s.b[:], syscall.AF_INET6)
		ip := a.As16()
		copy(s.b[8:], ip[:])
		binary.BigEndian.PutUint32(s.b[4:], flowLabel)
		if a.IsLinkLocalUnicast() || a.IsMulticast() {
			binary.NativeEndian.PutUint32(s.b[24:], zone)
		}
		s.n = syscall.SizeofSockaddrInet6
	}
	binary.BigEndian.PutUint16(s.b[2:], port)
	return s
}

// system is a socket of the kernel's, and the messages in which it is told and tells what is sent and received.
type system struct {
	fd         int
	multicasts bool // it sends to groups
	connected  bool // it sends to one address

	in struct {
		message syscall.Msghdr
		vector  syscall.Iovec
		name    [syscall.SizeofSockaddrInet6]byte
		length  uint32 // of name
		control [128]byte
		last    [syscall.SizeofSockaddrInet6]byte // the sender before
	}
	out struct {
		messages [maxBatches]multiMessage
		vectors  [maxBatches]syscall.Iovec
		controls [maxBatches][cmsgSpace]byte
	}
}

// SendsFromPorts tells whether a socket that only sends costs little.
const SendsFromPorts = true

const (
	cmsgSpace        = 24
	ipv6FlowInfoSend = 33 // the flow label is in the destination's address (include/uapi/linux/in6.h)
	ipv6FlowInfo     = 11 // of what arrives: traffic class and flow label
)

// multiMessage is struct mmsghdr.
type multiMessage struct {
	syscall.Msghdr
	sent uint32
}

// Open binds a local address; zone is the index of its interface. A multicast group is joined
// there, and may be bound by others, too.
func Open(local netip.Addr, zone uint32, port uint16, receiveBuffer int, clock tick.Rate) (*Socket, error) {
	s := NewSocket(local, zone, port, clock)
	local = s.Local
	family := syscall.AF_INET
	if local.Is6() {
		family = syscall.AF_INET6
	}
	fd, err := syscall.Socket(family, syscall.SOCK_DGRAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("UDP socket: %w", err)
	}
	s.fd = fd
	var to syscall.Sockaddr
	if local.Is4() {
		to = &syscall.SockaddrInet4{Port: int(port), Addr: local.As4()}
		// don't-fragment and IP ID 0 on every packet of an unconnected socket: the ICRC covers both
		err = syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
	} else {
		six := &syscall.SockaddrInet6{Port: int(port), Addr: local.As16()}
		if local.IsLinkLocalUnicast() || local.IsMulticast() {
			six.ZoneId = zone
		}
		to = six
		_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_IPV6, syscall.IPV6_V6ONLY, 1)
		_ = syscall.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_NO_CHECK6_RX, 1) // rxe sends checksum 0
		_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_IPV6, ipv6FlowInfoSend, 1)
		_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_IPV6, unix.IPV6_AUTOFLOWLABEL, 0)
		err = syscall.SetsockoptInt(fd, syscall.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
	}
	if local.IsMulticast() && err == nil {
		err = s.join()
	}
	if err == nil {
		err = syscall.Bind(fd, to)
	}
	if err != nil {
		_ = syscall.Close(fd)
		return nil, err
	}
	// without the privilege, as much as net.core.rmem_max and wmem_max allow
	if syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
		_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF, receiveBuffer)
	}
	if syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, unix.SO_SNDBUFFORCE, 4<<20) != nil {
		_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_SNDBUF, 4<<20)
	}
	s.BufferBytes, _ = syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF)
	return s, nil
}

// Connect has all that the socket sends go to a peer, whose address the kernel then does not look up for each packet.
func (s *Socket) Connect(to netip.AddrPort, flowLabel uint32) error {
	name := makeSockaddr(to.Addr(), s.Zone, to.Port(), flowLabel)
	_, _, errno := syscall.RawSyscall(syscall.SYS_CONNECT, uintptr(s.fd), uintptr(unsafe.Pointer(&name.b[0])),
		uintptr(name.n))
	if errno != 0 {
		return errno
	}
	s.connected = true
	return nil
}

// join makes the socket, which is not bound yet, a member of its group on one interface,
// and deaf to groups that others joined.
func (s *Socket) join() error {
	if err := syscall.SetsockoptInt(s.fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return err
	}
	if s.Local.Is4() {
		_ = syscall.SetsockoptInt(s.fd, syscall.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0)
		return syscall.SetsockoptIPMreqn(s.fd, syscall.IPPROTO_IP, syscall.IP_ADD_MEMBERSHIP,
			&syscall.IPMreqn{Multiaddr: s.Local.As4(), Ifindex: int32(s.Zone)})
	}
	_ = syscall.SetsockoptInt(s.fd, syscall.IPPROTO_IPV6, unix.IPV6_MULTICAST_ALL, 0)
	return syscall.SetsockoptIPv6Mreq(s.fd, syscall.IPPROTO_IPV6, syscall.IPV6_JOIN_GROUP,
		&syscall.IPv6Mreq{Multiaddr: s.Local.As16(), Interface: s.Zone})
}

// SendToGroups has what goes to multicast groups leave by the socket's interface, and reach this machine's own members.
func (s *Socket) SendToGroups() error {
	if s.multicasts {
		return nil
	}
	var err error
	if s.Local.Is4() {
		err = syscall.SetsockoptIPMreqn(s.fd, syscall.IPPROTO_IP, syscall.IP_MULTICAST_IF,
			&syscall.IPMreqn{Ifindex: int32(s.Zone)})
	} else {
		err = syscall.SetsockoptInt(s.fd, syscall.IPPROTO_IPV6, syscall.IPV6_MULTICAST_IF, int(s.Zone))
	}
	if err != nil {
		return fmt.Errorf("send to multicast groups: %w", err)
	}
	s.multicasts, s.treated = true, Service{} // IP_MULTICAST_LOOP is on by default
	return nil
}

// UseOffloads turns on the coalescing of what arrives and the segmentation of what is sent.
func (s *Socket) UseOffloads() {
	s.joins = syscall.SetsockoptInt(s.fd, unix.SOL_UDP, unix.UDP_GRO, 1) == nil
	_, err := syscall.GetsockoptInt(s.fd, unix.SOL_UDP, unix.UDP_SEGMENT)
	s.segmentation = err == nil
}

// Close closes the socket.
func (s *Socket) Close() error { return syscall.Close(s.fd) }

// receive takes one datagram, or several of one sender that the kernel joined; segment is then the
// length of all but the last, 0 where that is not known. The sender is in s.in.name. It never
// blocks: n is negative when there is nothing.
func (s *Socket) receive(b []byte) (n, segment int) {
	if !s.tells && (!s.joins || s.singles.prevails()) {
		s.in.length = uint32(len(s.in.name))
		r, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(s.fd), uintptr(unsafe.Pointer(&b[0])),
			uintptr(len(b)), syscall.MSG_DONTWAIT,
			uintptr(unsafe.Pointer(&s.in.name[0])), uintptr(unsafe.Pointer(&s.in.length)))
		switch {
		case errno != 0:
			return -1, 0
		case s.joins:
			return int(r), 0
		}
		return int(r), int(r)
	}
	m := &s.in.message
	s.in.vector.Base = &b[0]
	s.in.vector.SetLen(len(b))
	m.Name = &s.in.name[0]
	m.Namelen = uint32(len(s.in.name))
	m.Iov = &s.in.vector
	m.Iovlen = 1
	m.Control = &s.in.control[0]
	m.SetControllen(len(s.in.control))
	r, _, errno := syscall.RawSyscall(syscall.SYS_RECVMSG, uintptr(s.fd), uintptr(unsafe.Pointer(m)), syscall.MSG_DONTWAIT)
	if errno != 0 {
		return -1, 0
	}
	n = int(r)
	segment = n
	if s.tells {
		s.seen = Service{}
	}
	for at := 0; at+syscall.SizeofCmsghdr+4 <= int(m.Controllen); {
		h := (*syscall.Cmsghdr)(unsafe.Pointer(&s.in.control[at]))
		data := s.in.control[at+syscall.SizeofCmsghdr:]
		if v := binary.NativeEndian.Uint32(data); h.Level == unix.SOL_UDP && h.Type == unix.UDP_GRO {
			segment = int(v)
		} else {
			s.seen.hear(h, data, v)
		}
		at += (int(h.Len) + 7) &^ 7
	}
	s.singles.notice(segment < n)
	return n, segment
}

// hear takes a control message about the IP header of what was received.
func (v *Service) hear(h *syscall.Cmsghdr, data []byte, value uint32) {
	switch {
	case h.Level == syscall.IPPROTO_IP && h.Type == syscall.IP_TOS:
		v.Class = data[0]
	case h.Level == syscall.IPPROTO_IP && h.Type == syscall.IP_TTL,
		h.Level == syscall.IPPROTO_IPV6 && h.Type == syscall.IPV6_HOPLIMIT:
		v.Hops = uint8(value)
	case h.Level == syscall.IPPROTO_IPV6 && h.Type == ipv6FlowInfo:
		info := binary.BigEndian.Uint32(data)
		v.Class, v.FlowLabel = uint8(info>>20), info&0xfffff
	}
}

// TellService has the kernel say how what arrives was treated: the receives of UD show
// it. Each receive takes a little longer.
func (s *Socket) TellService() {
	if s.tells {
		return
	}
	s.tells = true
	level, options := syscall.IPPROTO_IP, []int{syscall.IP_RECVTOS, syscall.IP_RECVTTL}
	if s.Local.Is6() {
		level, options = syscall.IPPROTO_IPV6, []int{ipv6FlowInfo, syscall.IPV6_RECVHOPLIMIT}
	}
	for _, o := range options {
		_ = syscall.SetsockoptInt(s.fd, level, o, 1)
	}
}

// sender tells who sent the datagram received last.
func (s *Socket) sender() (netip.Addr, uint16) {
	name := &s.in.name
	port := binary.BigEndian.Uint16(name[2:])
	if s.Local.Is4() {
		return netip.AddrFrom4([4]byte(name[4:8])), port
	}
	return netip.AddrFrom16([16]byte(name[8:24])), port
}

// sameSender tells whether the datagram received last came from the address and port of the one before.
func (s *Socket) sameSender() bool {
	if s.Local.Is4() {
		return [6]byte(s.in.name[2:8]) == [6]byte(s.in.last[2:8])
	}
	return [2]byte(s.in.name[2:4]) == [2]byte(s.in.last[2:4]) && [16]byte(s.in.name[8:24]) == [16]byte(s.in.last[8:24])
}

// remember makes the latest sender the one that sameSender compares with.
func (s *Socket) remember() { s.in.last = s.in.name }

// send hands one packet, or several of segment bytes but the last, to the kernel.
func (s *Socket) send(p *Path, b []byte, segment int) verdict {
	if p.Service != s.treated {
		s.treat(p.Service)
	}
	name, length := s.to(p)
	told := !s.connected // a connected socket tells once what became of an earlier packet
	for try := 0; ; try++ {
		var errno syscall.Errno
		if len(b) <= segment { // the kernel has no message header to read
			_, _, errno = syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
				syscall.MSG_DONTWAIT, uintptr(unsafe.Pointer(name)), uintptr(length))
		} else {
			s.describe(0, p, b, segment)
			_, _, errno = syscall.RawSyscall(syscall.SYS_SENDMSG, uintptr(s.fd),
				uintptr(unsafe.Pointer(&s.out.messages[0].Msghdr)), syscall.MSG_DONTWAIT)
		}
		switch errno {
		case 0:
			return taken
		case syscall.EINTR:
		case syscall.EAGAIN, syscall.ENOBUFS:
			if try == 3 {
				return failed
			}
			s.awaitRoom()
		case syscall.EIO, syscall.EINVAL:
			if len(b) > segment {
				return uncut
			}
			return failed
		default:
			if told {
				return failed
			}
			told = true
		}
	}
}

// to is the address that the kernel is told with a packet: none by a connected socket.
func (s *Socket) to(p *Path) (name *byte, length uint32) {
	if s.connected {
		return nil, 0
	}
	return &p.name.b[0], p.name.n
}

// sendBatches hands batches to the kernel in one call, and tells how many it took.
func (s *Socket) sendBatches(t *Sender) int {
	if t.path.Service != s.treated {
		s.treat(t.path.Service)
	}
	for i := range t.batches {
		s.describe(i, t.path, t.bytes(i), t.batches[i].segment)
	}
	n, _, errno := syscall.RawSyscall6(unix.SYS_SENDMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.out.messages[0])),
		uintptr(len(t.batches)),
		syscall.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// describe makes message i one of b, in packets of segment bytes.
func (s *Socket) describe(i int, p *Path, b []byte, segment int) {
	m, v, control := &s.out.messages[i].Msghdr, &s.out.vectors[i], &s.out.controls[i]
	m.Name, m.Namelen = s.to(p)
	v.Base = &b[0]
	v.SetLen(len(b))
	m.Iov = v
	m.Iovlen = 1
	m.Control = nil
	m.SetControllen(0)
	if len(b) <= segment {
		return
	}
	h := (*syscall.Cmsghdr)(unsafe.Pointer(control))
	h.Level, h.Type = unix.SOL_UDP, unix.UDP_SEGMENT
	h.SetLen(syscall.SizeofCmsghdr + 2)
	binary.NativeEndian.PutUint16(control[syscall.SizeofCmsghdr:], uint16(segment))
	m.Control = &control[0]
	m.SetControllen(cmsgSpace)
}

// treat tells the kernel how what follows is to be treated on its way. A socket may send to several paths: those that
// differ take turns at some cost.
func (s *Socket) treat(v Service) {
	s.treated = v
	level, class, hops, groupHops := syscall.IPPROTO_IP, syscall.IP_TOS, syscall.IP_TTL, syscall.IP_MULTICAST_TTL
	if s.Local.Is6() {
		level, class, hops, groupHops = syscall.IPPROTO_IPV6, syscall.IPV6_TCLASS, syscall.IPV6_UNICAST_HOPS,
			syscall.IPV6_MULTICAST_HOPS
	}
	if s.multicasts {
		_ = syscall.SetsockoptInt(s.fd, level, groupHops, int(v.Hops))
	}
	_ = syscall.SetsockoptInt(s.fd, level, class, int(v.Class))
	_ = syscall.SetsockoptInt(s.fd, level, hops, int(v.Hops))
	_ = syscall.SetsockoptInt(s.fd, syscall.SOL_SOCKET, syscall.SO_PRIORITY, int(v.Level)) // above 6 it takes a privilege
}

// awaitRoom waits up to a millisecond for the send buffer to drain.
func (s *Socket) awaitRoom() {
	fds := [1]pollFD{{fd: int32(s.fd), events: pollOut}}
	pollUntil(fds[:], 1_000_000)
}

const (
	pollIn  = 1
	pollOut = 4
)

// pollFD is struct pollfd.
type pollFD struct {
	fd              int32
	events, revents int16
}

// pollUntil blocks until one of fds is ready or ns nanoseconds have passed; negative: no limit.
func pollUntil(fds []pollFD, ns int64) {
	var limit *syscall.Timespec
	if ns >= 0 {
		t := syscall.NsecToTimespec(ns)
		limit = &t
	}
	_, _, _ = syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(unsafe.SliceData(fds))), uintptr(len(fds)),
		uintptr(unsafe.Pointer(limit)), 0, 0, 0)
}

// Sleeper is a goroutine that is blocked in the kernel until a packet, a time or its bell. What the bell writes and
// reads lies in it, so that no ring allocates, not even where a race detector looks on.
type Sleeper struct {
	bell int
	one  [8]byte // written by whoever rings; never changed
	rung [8]byte // read by its owner alone
	set  []pollFD
}

// NewSleeper makes a sleeper that watches no socket.
func NewSleeper() (*Sleeper, error) {
	fd, _, errno := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return nil, fmt.Errorf("eventfd: %w", errno)
	}
	return &Sleeper{
		bell: int(fd), one: [8]byte{1}, set: append(make([]pollFD, 0, 8), pollFD{fd: int32(fd), events: pollIn}),
	}, nil
}

// Watch has what arrives at s wake the next sleep.
func (x *Sleeper) Watch(s *Socket) { x.set = append(x.set, pollFD{fd: int32(s.fd), events: pollIn}) }

// Sleep blocks until a watched socket has something, it is woken, or ns nanoseconds have passed; negative: no limit.
func (x *Sleeper) Sleep(ns int64) {
	pollUntil(x.set, ns)
	x.set = x.set[:1]
	_, _ = syscall.Read(x.bell, x.rung[:])
}

// Wake ends the present sleep, or the next.
func (x *Sleeper) Wake() { _, _ = syscall.Write(x.bell, x.one[:]) }

// Close frees what the sleeper holds.
func (x *Sleeper) Close() error { return syscall.Close(x.bell) }
