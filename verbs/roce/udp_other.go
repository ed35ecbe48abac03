//go:build !linux

package roce

import (
	"fmt"
	"net/netip"

	"github.com/gobw/gobw/verbs"
)

// sockaddr is an address as the kernel wants it.
type sockaddr struct{ to systemAddr }

func makeSockaddr(a netip.Addr, zone uint32, port uint16, _ uint32) sockaddr {
	if a.Is4() {
		return sockaddr{&systemAddr4{Port: int(port), Addr: a.As4()}}
	}
	s := &systemAddr6{Port: int(port), Addr: a.As16()}
	if a.IsLinkLocalUnicast() {
		s.ZoneId = zone
	}
	return sockaddr{s}
}

// socket is an unconnected UDP socket bound to port 4791 of one local address, without the kernel's offloads. The IP ID
// is the kernel's: only peers that solve for it (this device does) accept the packets.
type socket struct {
	fd           descriptor
	local        netip.Addr
	zone         uint32
	port         uint16
	mtu          int
	name         string
	segmentation bool
	singles      singles
	bufferBytes  int
	paths        map[pathKey]*path
	sources      *sourceTable
	members      []*queuePair // of a multicast group: there are none

	in struct {
		from, last netip.AddrPort
	}
}

func openSocket(local netip.Addr, zone uint32, port uint16, receiveBuffer int) (*socket, error) {
	if local.IsMulticast() {
		return nil, errNoMulticast
	}
	local = local.WithZone("").Unmap()
	fd, err := openDatagram(local.Is6())
	if err != nil {
		return nil, fmt.Errorf("UDP socket: %w", err)
	}
	if err = bindTo(fd, makeSockaddr(local, zone, port, 0).to); err != nil {
		_ = closeDescriptor(fd)
		return nil, err
	}
	for n := receiveBuffer; n >= 64<<10; n /= 2 {
		if setReceiveBuffer(fd, n) == nil {
			break
		}
	}
	s := &socket{fd: fd, local: local, zone: zone, port: port, paths: map[pathKey]*path{}, sources: newSourceTable()}
	s.bufferBytes = receiveBufferOf(fd)
	return s, nil
}

var errNoMulticast = fmt.Errorf("multicast: %w: this device has it on Linux", verbs.ErrUnsupported)

func (s *socket) sendToGroups() error { return errNoMulticast }

func (s *socket) useOffloads() {}

func (s *socket) close() error { return closeDescriptor(s.fd) }

func (s *socket) receive(b []byte) (n, segment int) {
	n, from, err := receiveFrom(s.fd, b)
	if err != nil || n <= 0 {
		return 0, 0
	}
	switch a := from.(type) {
	case *systemAddr4:
		s.in.from = netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *systemAddr6:
		s.in.from = netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port))
	}
	return n, n
}

func (s *socket) sender() (netip.Addr, uint16) { return s.in.from.Addr(), s.in.from.Port() }

func (s *socket) sameSender() bool { return s.in.from == s.in.last }

func (s *socket) remember() { s.in.last = s.in.from }

func (s *socket) send(p *path, b []byte, _ int) bool {
	for range 100 {
		if again := sendTo(s.fd, b, p.name.to); !again {
			return true
		}
		pollUntil([]pollFD{awaitWritable(s.fd)}, 1_000_000)
	}
	return true
}

// sendBurst takes nothing here: the batches are sent one by one.
func (s *socket) sendBurst(*burst) int { return 0 }
