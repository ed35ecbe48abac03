//go:build !portable

package link

import (
	"encoding/binary"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"github.com/gobw/gobw/verbs/roce/wire"
)

// TestServiceOnTheWire sends over paths of several kinds of service, in turn, and looks at what the kernel saw arrive.
func TestServiceOnTheWire(t *testing.T) {
	for _, tt := range []struct {
		name    string
		address netip.Addr
		level   int
		want    []int // options that ask for: traffic class, hop limit, flow label
		tell    []int // the control messages that answer
		label   uint32
	}{
		{"IPv4", netip.MustParseAddr("127.2.77.1"), syscall.IPPROTO_IP, []int{syscall.IP_RECVTOS, syscall.IP_RECVTTL}, []int{syscall.IP_TOS, syscall.IP_TTL}, 0},
		{
			"IPv6", netip.IPv6Loopback(), syscall.IPPROTO_IPV6,
			[]int{syscall.IPV6_RECVTCLASS, syscall.IPV6_RECVHOPLIMIT, ipv6RecvFlow},
			[]int{syscall.IPV6_TCLASS, syscall.IPV6_HOPLIMIT, ipv6RecvFlow},
			0x12345,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			other, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(tt.address, 0)))
			check(t, err)
			port := other.LocalAddr().(*net.UDPAddr).AddrPort().Port() // a free one: ::1 has one 4791 for all tests of a machine
			check(t, other.Close())
			s, err := Open(tt.address, 0, port, 1<<16, 1)
			check(t, err)
			defer func() { check(t, s.Close()) }()
			for _, o := range tt.want {
				check(t, syscall.SetsockoptInt(s.fd, tt.level, o, 1))
			}
			for i, v := range []Service{{Hops: 64}, {0x68, 3, 7, tt.label}, {Class: 0xff, Hops: 255}, {Hops: 64, FlowLabel: tt.label}, {Hops: 64}} {
				p, err := NewPath(s, s.Local, v)
				check(t, err)
				p.name = makeSockaddr(s.Local, 0, port, v.FlowLabel)
				var packet [wire.MinPacketBytes]byte
				if !s.send(&p, packet[:], len(packet)) {
					t.Fatal("not taken")
				}
				got := received(t, s.fd, tt.level)
				want := []uint32{uint32(v.Class), uint32(v.Hops), v.FlowLabel}
				for k, option := range tt.tell {
					x, ok := got[option]
					if option == ipv6RecvFlow {
						x &= 0xfffff
					}
					if x != want[k] || !ok && option != ipv6RecvFlow { // no message of zeros there
						t.Errorf("service %d, option %d: %#x (%v), want %#x", i, option, x, ok, want[k])
					}
				}
			}
		})
	}
}

const ipv6RecvFlow = 11 // IPV6_FLOWINFO

// received takes a datagram and returns its control messages of a level.
func received(t *testing.T, fd, level int) map[int]uint32 {
	t.Helper()
	var b [64]byte
	var control [256]byte
	_, n, _, _, err := syscall.Recvmsg(fd, b[:], control[:], syscall.MSG_DONTWAIT)
	check(t, err)
	list, err := syscall.ParseSocketControlMessage(control[:n])
	check(t, err)
	got := map[int]uint32{}
	for _, m := range list {
		if int(m.Header.Level) != level {
			continue
		}
		switch {
		case len(m.Data) == 1:
			got[int(m.Header.Type)] = uint32(m.Data[0])
		case int(m.Header.Type) == ipv6RecvFlow:
			got[int(m.Header.Type)] = binary.BigEndian.Uint32(m.Data)
		default:
			got[int(m.Header.Type)] = binary.NativeEndian.Uint32(m.Data)
		}
	}
	return got
}
