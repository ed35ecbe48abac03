//go:build !portable

package link

import (
	"encoding/binary"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"github.com/gobw/gobw/verbs/roce/wire"
	"golang.org/x/sys/unix"
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
		{
			"IPv4", netip.MustParseAddr("127.2.77.1"), syscall.IPPROTO_IP,
			[]int{syscall.IP_RECVTOS, syscall.IP_RECVTTL},
			[]int{syscall.IP_TOS, syscall.IP_TTL},
			0,
		},
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
			for i, v := range []Service{
				{Hops: 64}, {0x68, 3, 7, tt.label}, {Class: 0xff, Hops: 255}, {Hops: 64, FlowLabel: tt.label}, {Hops: 64},
			} {
				p, err := NewPath(s, s.Local, v)
				check(t, err)
				p.name = makeSockaddr(s.Local, 0, port, v.FlowLabel)
				var packet [wire.MinPacketBytes]byte
				if s.send(&p, packet[:], len(packet)) != taken {
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

// openFree opens a socket at a loopback address of its own.
func openFree(t *testing.T, address string, port uint16) *Socket {
	t.Helper()
	s, err := Open(netip.MustParseAddr(address), 0, port, 1<<20, 1)
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	return s
}

// receiveOne waits for what arrives at a socket.
func receiveOne(t *testing.T, s *Socket, b []byte) Received {
	t.Helper()
	for range 1_000_000 {
		if r, ok := s.Receive(b); ok {
			return r
		}
	}
	t.Fatal("nothing arrived")
	return Received{}
}

// TestUncutBatch has a kernel not cut batches for a while: they leave packet by packet, each with the ICRC of a packet
// by itself, and as one again afterwards. Only where that goes on does the path stop trying.
func TestUncutBatch(t *testing.T) {
	from, to := openFree(t, "127.2.77.2", wire.Port), openFree(t, "127.2.77.3", wire.Port)
	from.UseOffloads()
	to.UseOffloads()
	if !from.segmentation || !to.joins {
		t.Skip("the kernel has no segmentation")
	}
	p, err := NewPath(from, to.Local, Service{})
	check(t, err)
	sender := NewSender()
	b := make([]byte, 1<<16)
	calls := func(packets int) int {
		for psn := range packets {
			sender.Open(&p, wire.RCAcknowledge, 0, 5, uint32(psn), 0)
			sender.Close()
		}
		sender.Flush()
		n := 0
		for got := 0; got < packets; n++ {
			r := receiveOne(t, to, b)
			for i := 0; len(r.Bytes) > 0; i++ {
				k := min(r.Segment, len(r.Bytes))
				if id, ok := r.From.Verify(r.Bytes[:k], uint16(i), 0); !ok || int(id) != i {
					t.Fatalf("packet %d has ID %d (%v), want %d", got, id, ok, i)
				}
				r.Bytes = r.Bytes[k:]
				got++
			}
		}
		return n
	}
	uncut := func(v int) { check(t, syscall.SetsockoptInt(from.fd, syscall.SOL_SOCKET, unix.SO_NO_CHECK, v)) }
	for _, tt := range []struct{ noCheck, times, want int }{
		{0, 1, 1}, {1, 1, 3}, {0, 1, 1}, {1, mostUncut, 3}, {0, 1, 3},
	} {
		uncut(tt.noCheck)
		for range tt.times {
			if got := calls(3); got != tt.want {
				t.Errorf("%+v: three packets arrived as %d", tt, got)
			}
		}
	}
	if sender.Sent.Errors != 0 || sender.Sent.Uncut != 1+mostUncut || sender.Sent.Packets != 3*(4+mostUncut) {
		t.Errorf("counted %+v, want %d batches uncut and no error", sender.Sent, 1+mostUncut)
	}
}

// TestManySegments sends as many small packets as one send takes: in one datagram, or in
// two where the kernel cuts 64 at most.
func TestManySegments(t *testing.T) {
	from, to := openFree(t, "127.2.77.4", wire.Port), openFree(t, "127.2.77.5", wire.Port)
	from.UseOffloads()
	to.UseOffloads()
	if !from.segmentation {
		t.Skip("the kernel has no segmentation")
	}
	p, err := NewPath(from, to.Local, Service{})
	check(t, err)
	sender := NewSender()
	b := make([]byte, 1<<16)
	for range 2 {
		for psn := range MaxSegments {
			sender.Open(&p, wire.RCAcknowledge, 0, 5, uint32(psn), 0)
			sender.Close()
		}
		sender.Flush()
	}
	for got := 0; got < 2*MaxSegments; {
		r := receiveOne(t, to, b)
		for i := 0; len(r.Bytes) > 0; i++ {
			k := min(r.Segment, len(r.Bytes))
			if id, ok := r.From.Verify(r.Bytes[:k], uint16(i), 0); !ok || int(id) != i {
				t.Fatalf("packet %d has ID %d (%v), want %d", got, id, ok, i)
			}
			r.Bytes = r.Bytes[k:]
			got++
		}
	}
	if p.Segments < oldMaxSegments || sender.Sent.Packets != 2*MaxSegments {
		t.Errorf("the path's batches have %d packets, %+v", p.Segments, sender.Sent)
	}
}

// TestSendFails counts what the kernel does not take: it has not been sent.
func TestSendFails(t *testing.T) {
	from := openFree(t, "127.2.77.6", wire.Port)
	for _, tt := range []struct {
		to    string
		bytes int
	}{{"127.2.77.7", 65508}, {"255.255.255.255", 64}} { // EMSGSIZE; EACCES without SO_BROADCAST
		p, err := NewPath(from, netip.MustParseAddr(tt.to), Service{})
		check(t, err)
		sender := NewSender()
		sender.path, sender.Sent.Packets = &p, 1
		if v := sender.send(make([]byte, tt.bytes), tt.bytes); v != failed || sender.Sent.Errors != 1 ||
			sender.Sent.Packets != 0 {
			t.Errorf("%d bytes to %s: %v, %+v; want a failure that counts", tt.bytes, tt.to, v, sender.Sent)
		}
	}
}

// TestEmptyDatagrams receives what waits behind datagrams without a byte.
func TestEmptyDatagrams(t *testing.T) {
	to := openFree(t, "127.2.77.8", wire.Port)
	other, err := net.Dial("udp", netip.AddrPortFrom(to.Local, wire.Port).String())
	check(t, err)
	defer func() { check(t, other.Close()) }()
	for _, n := range []int{0, 0, 20} {
		_, err := other.Write(make([]byte, n))
		check(t, err)
	}
	b := make([]byte, 64)
	for _, want := range []int{0, 0, 20} {
		if r := receiveOne(t, to, b); len(r.Bytes) != want {
			t.Errorf("received %d bytes, want %d", len(r.Bytes), want)
		}
	}
	if _, ok := to.Receive(b); ok {
		t.Error("the socket is not empty")
	}
}

// TestConnected sends by a connected socket to a port where nobody is, which the kernel tells with the next packet, and
// then to somebody: every packet is taken, and the first that can arrive does.
func TestConnected(t *testing.T) {
	var ports [2]uint16
	for i := range ports {
		other, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6loopback})
		check(t, err)
		defer func() { _ = other.Close() }()
		ports[i] = other.LocalAddr().(*net.UDPAddr).AddrPort().Port()
		check(t, other.Close())
	}
	s, err := Open(netip.IPv6Loopback(), 0, ports[0], 1<<16, 1)
	check(t, err)
	defer func() { check(t, s.Close()) }()
	s.UseOffloads()
	check(t, s.Connect(netip.AddrPortFrom(s.Local, ports[1]), 0x12345))
	p, err := NewPath(s, s.Local, Service{Hops: 64, FlowLabel: 0x12345})
	check(t, err)
	sender := NewSender()
	send := func(n int) {
		for range n {
			sender.Open(&p, wire.RCAcknowledge, 0, 5, 6, 0)
			sender.Close()
		}
		sender.Flush()
	}
	for range 4 {
		send(1)
		send(3)
	}
	if sent := &sender.Sent; sent.Errors != 0 || sent.Packets != 16 || sent.Uncut != 0 {
		t.Errorf("to nobody: %+v", *sent)
	}
	r, err := Open(netip.IPv6Loopback(), 0, ports[1], 1<<16, 1)
	check(t, err)
	defer func() { check(t, r.Close()) }()
	send(1)
	b := make([]byte, 1<<16)
	if got := receiveOne(t, r, b); got.From.Port != ports[0] || got.From.Addr != s.Local {
		t.Errorf("from %v port %d, want %v port %d", got.From.Addr, got.From.Port, s.Local, ports[0])
	}
}
