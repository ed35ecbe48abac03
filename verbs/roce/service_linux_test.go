package roce

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"testing"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
	"github.com/gobw/gobw/verbs/verbstest"
)

// TestServiceOnTheWire sends with address vectors of several kinds, in turn, and looks at what the kernel saw arrive.
func TestServiceOnTheWire(t *testing.T) {
	for _, tt := range []struct {
		name    string
		address netip.Addr
		level   int
		want    []int // options that ask for: traffic class, hop limit, flow label
		tell    []int // the control messages that answer
		label   uint32
	}{
		{"IPv4", verbstest.Address(), syscall.IPPROTO_IP, []int{syscall.IP_RECVTOS, syscall.IP_RECVTTL}, []int{syscall.IP_TOS, syscall.IP_TTL}, 0},
		{
			"IPv6", netip.IPv6Loopback(), syscall.IPPROTO_IPV6,
			[]int{syscall.IPV6_RECVTCLASS, syscall.IPV6_RECVHOPLIMIT, ipv6RecvFlow},
			[]int{syscall.IPV6_TCLASS, syscall.IPV6_HOPLIMIT, ipv6RecvFlow},
			0x12345,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := New(Options{Address: tt.address}).Open(DeviceName)
			check(t, err)
			defer func() { check(t, d.Close()) }()
			e := d.(*device).e
			gid, err := d.(*device).DefaultGID()
			check(t, err)
			e.lock() // nobody but us receives
			defer e.unlock()
			s := e.sockets[0]
			for _, o := range tt.want {
				check(t, syscall.SetsockoptInt(s.fd, tt.level, o, 1))
			}
			for i, a := range []verbs.AddressVector{
				{}, {TrafficClass: 0x68, HopLimit: 7, SL: 3, FlowLabel: tt.label}, {TrafficClass: 0xff, HopLimit: 255}, {FlowLabel: tt.label}, {},
			} {
				a.UseGID, a.DGID, a.SGIDIndex = true, gid.GID, gid.Index
				p, err := e.pathTo(a)
				check(t, err)
				if again, err := e.pathTo(a); err != nil || again != p {
					t.Errorf("vector %d: another path the second time (%v)", i, err)
				}
				var packet [wire.MinPacketBytes]byte
				if !s.send(p, packet[:], len(packet)) {
					t.Fatal("not taken")
				}
				got := received(t, s.fd, tt.level)
				want := []uint32{uint32(a.TrafficClass), uint32(p.service.hops), a.FlowLabel}
				for k, option := range tt.tell {
					v, ok := got[option]
					if option == ipv6RecvFlow {
						v = v & 0xfffff
					}
					if v != want[k] || !ok && option != ipv6RecvFlow { // no message of zeros there
						t.Errorf("vector %d, option %d: %#x (%v), want %#x", i, option, v, ok, want[k])
					}
				}
			}
			for _, a := range []verbs.AddressVector{{SL: 16}, {FlowLabel: 1 << 20}} {
				a.UseGID, a.DGID, a.SGIDIndex = true, gid.GID, gid.Index
				if _, err := e.pathTo(a); err == nil {
					t.Errorf("%+v is accepted", a)
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
