package link

import (
	"net/netip"
	"testing"

	"github.com/gobw/gobw/verbs/roce/wire"
)

// TestSegmentOf joins packets as the kernel does and has their length found.
func TestSegmentOf(t *testing.T) {
	local, remote := netip.MustParseAddr("127.2.0.1"), netip.MustParseAddr("127.2.0.2")
	flow, err := wire.NewFlow(netip.AddrPortFrom(remote, wire.Port), netip.AddrPortFrom(local, wire.Port))
	check(t, err)
	x := &Source{flow: flow}
	packet := func(op wire.Operation, payload int, fill byte, id uint16) []byte {
		code := wire.MakeOpcode(wire.RC, op)
		b := make([]byte, code.HeaderBytes()+payload+wire.PadBytes(payload)+wire.ICRCBytes)
		for i := range b {
			b[i] = fill
		}
		wire.PutBTH(b, code, wire.PadFlag(payload), 5, 6)
		flow.Seal(b, id)
		return b
	}
	for _, tt := range []struct {
		name    string
		packets [][]byte
		want    int
	}{
		{"one", [][]byte{packet(wire.SendOnly, 2, 0, 0)}, 20},
		{"one of a page", [][]byte{packet(wire.SendMiddle, 4096, 0xff, 0)}, 4112},
		{"reply and ACK", [][]byte{packet(wire.SendOnly, 6, 1, 0), packet(wire.RCAcknowledge.Operation(), 0, 0, 1)}, 24},
		{
			"pages", [][]byte{
				packet(wire.SendMiddle, 4096, 0xff, 0), packet(wire.SendMiddle, 4096, 0xff, 1), packet(wire.SendLast, 9, 0, 2),
			}, 4112,
		},
		{"a peer that numbers its packets", [][]byte{packet(wire.SendOnly, 2, 0, 777)}, 0},
		{"short", [][]byte{{1, 2, 3}}, 0},
	} {
		var b []byte
		for _, x := range tt.packets {
			b = append(b, x...)
		}
		if got := x.segmentOf(b); got != tt.want {
			t.Errorf("%s: segments of %d bytes, want %d", tt.name, got, tt.want)
		}
	}
}

// TestSingles feeds what a ping-pong, a stream and a ping-pong with an ACK now and then receive.
func TestSingles(t *testing.T) {
	var c singles
	for range singlesEnough {
		c.notice(false)
	}
	if !c.prevails() {
		t.Error("single packets do not prevail")
	}
	for range 1000 {
		for k := range 8 {
			c.notice(k == 0)
		}
	}
	if !c.prevails() {
		t.Error("every eighth joined with an ACK disturbs")
	}
	for range mostSingles {
		c.notice(true)
	}
	if c.prevails() {
		t.Error("a stream is singles")
	}
}
