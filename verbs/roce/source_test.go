package roce

import (
	"net/netip"
	"testing"

	"github.com/gobw/gobw/verbs/roce/link"
	"github.com/gobw/gobw/verbs/roce/wire"
)

// sealed is a SEND packet as from sends it.
func sealed(t testing.TB, s *link.Socket, from netip.AddrPort, qpn uint32) []byte {
	t.Helper()
	flow, err := wire.NewFlow(from, netip.AddrPortFrom(s.Local, s.Port))
	check(t, err)
	b := make([]byte, wire.BTHBytes+8+wire.ICRCBytes)
	wire.PutBTH(b, wire.MakeOpcode(wire.RC, wire.SendOnly), 0, qpn, 6)
	flow.Seal(b, 0)
	return b
}

// TestStrangers sends packets from many addresses and ports, wrong ones and right ones that nobody asked for: memory
// does not grow, no path is made, and a peer that was there is still known, as is a new one.
func TestStrangers(t *testing.T) {
	x := newStage(t, everything)
	s := x.q.path.socket
	peer := netip.AddrPortFrom(x.q.path.Remote, Port)
	right := func(from netip.AddrPort) {
		t.Helper()
		before := x.e.count.badICRCs
		x.e.onPacket(s, s.From(from.Addr(), from.Port()), sealed(t, s.Socket, from, x.q.qpn), 0, 1)
		if x.e.count.badICRCs != before {
			t.Fatalf("a right packet of %v was refused", from)
		}
	}
	right(peer)
	paths := len(s.paths)
	var settled uint64
	for i := range 1 << 18 {
		from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), uint16(i>>4))
		src := s.From(from.Addr(), from.Port())
		if i%4 == 0 { // right, from an address that no queue pair is connected to
			src.Verify(sealed(t, s.Socket, from, 5), 0, 1)
		} else {
			x.e.onPacket(s, src, sealed(t, s.Socket, peer, 5), 0, 1)
		}
		if i == 1<<14 {
			settled = liveHeap()
		}
	}
	if now := liveHeap(); now > settled+1<<20 {
		t.Errorf("the heap grew from %d to %d bytes", settled, now)
	}
	if len(s.paths) != paths {
		t.Errorf("%d paths, want %d", len(s.paths), paths)
	}
	right(peer)
	right(netip.MustParseAddrPort("127.2.0.2:50000"))
}
