package link

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs/roce/wire"
	"github.com/gobw/gobw/verbs/tick"
)

// newListener is a socket that nothing arrives at but by hand.
func newListener() *Socket { return NewSocket(netip.MustParseAddr("127.2.0.1"), 0, wire.Port, 1) }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sealed is a SEND packet as from sends it with an IPv4 ID.
func sealed(t testing.TB, s *Socket, from netip.AddrPort, payload int, id uint16) []byte {
	t.Helper()
	flow, err := wire.NewFlow(from, netip.AddrPortFrom(s.Local, s.Port))
	check(t, err)
	b := make([]byte, wire.BTHBytes+payload+wire.PadBytes(payload)+wire.ICRCBytes)
	wire.PutBTH(b, wire.MakeOpcode(wire.RC, wire.SendOnly), wire.PadFlag(payload), 5, 6)
	flow.Seal(b, id)
	return b
}

// TestNumbers feeds right packets with the IDs of several kinds of senders: which are accepted.
func TestNumbers(t *testing.T) {
	from := netip.MustParseAddrPort("127.2.0.2:4791")
	for _, tt := range []struct {
		name string
		ids  []uint16
		want string // a digit per packet
		idle time.Duration
	}{
		{"places, one lost", []uint16{0, 0, 1, 2, 0, 5, 63, 0}, "11111111", 0},
		{"places, then a damaged packet", []uint16{0, 0, 40000, 0, 40000, 0, 41000, 0}, "11010101", 0},
		{"a counter", []uint16{30000, 30001, 30002, 30500, 30490, 31000}, "111111", 0},
		{"a counter that wraps", []uint16{65530, 65535, 3, 4, 200}, "11111", 0},
		{"a counter, then damaged packets", []uint16{30000, 30001, 10000, 30002, 50000, 30003}, "110101", 0},
		{"a counter that jumps", []uint16{30000, 30001, 10000, 10001, 10002}, "11011", 0},
		{"a counter that idles", []uint16{200, 30000, 60000}, "111", 40 * time.Second},
		{"a peer that becomes another", []uint16{0, 0, 0, 5000, 5001, 5002}, "111011", 0},
		{"random", []uint16{100, 9000, 60000, 40000, 20000, 50000, 3000}, "1000111", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newListener()
			now := tick.Time(1)
			got := ""
			for _, id := range tt.ids {
				seen, ok := s.From(from.Addr(), from.Port()).Verify(sealed(t, s, from, 64, id), 0, now)
				if ok && seen != id {
					t.Errorf("ID %d, want %d", seen, id)
				}
				got += map[bool]string{true: "1", false: "0"}[ok]
				now += tick.Time(tt.idle) + 1000
			}
			if got != tt.want {
				t.Errorf("accepted %s, want %s", got, tt.want)
			}
		})
	}
}

// TestJoinedSingles: packets that were sent each by itself have ID 0. The kernel joins them at the receiver, where they
// have places beyond 0.
func TestJoinedSingles(t *testing.T) {
	from := netip.MustParseAddrPort("127.2.0.2:4791")
	s := newListener()
	for i := range 100 {
		for place := range uint16(10) {
			now := tick.Time(1000*i + 1)
			if id, ok := s.From(from.Addr(), from.Port()).Verify(sealed(t, s, from, 64, 0), place, now); !ok || id != 0 {
				t.Fatalf("batch %d, place %d: ID %d, %v", i, place, id, ok)
			}
		}
	}
}

// TestDamagedPackets damages the payload of a peer's packets: where any ID is accepted, 30 of these pass.
func TestDamagedPackets(t *testing.T) {
	const count = 1 << 20
	for name, id := range map[string]uint16{"places": 0, "counter": 20000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, from := newListener(), netip.MustParseAddrPort("127.2.0.2:4791")
			good := sealed(t, s, from, 64, id)
			b := bytes.Clone(good)
			r := rand.New(rand.NewPCG(7, uint64(id)))
			passed := 0
			for i := range tick.Time(count) {
				x := s.From(from.Addr(), from.Port())
				if i%64 == 0 {
					if _, ok := x.Verify(good, 0, i); !ok {
						t.Fatal("a right packet was refused")
					}
				}
				copy(b, good)
				for range 3 {
					b[wire.BTHBytes+r.IntN(64)] ^= byte(1 + r.IntN(255))
				}
				if bytes.Equal(b, good) {
					continue
				}
				if _, ok := x.Verify(b, 0, i); ok {
					passed++
				}
			}
			if passed > 2 { // 0.03 and 0.6 are expected
				t.Errorf("%d of %d damaged packets passed", passed, count)
			}
		})
	}
}

// TestCraftedDatagram gives the longest datagram of what looks like the front of a packet at every fourth byte.
func TestCraftedDatagram(t *testing.T) {
	s := newListener()
	x := s.From(netip.MustParseAddr("127.2.0.2"), wire.Port)
	b := bytes.Repeat([]byte{0x04, 0x00, 0xff, 0xff}, maxBatchBytes/4)
	quickest := time.Hour
	for range 20 {
		start := time.Now()
		if n := x.segmentOf(b); n != 0 {
			t.Fatalf("segments of %d bytes in nonsense", n)
		}
		quickest = min(quickest, time.Since(start))
	}
	if quickest > 500*time.Microsecond {
		t.Errorf("%v for a datagram of %d bytes", quickest, len(b))
	}
}
