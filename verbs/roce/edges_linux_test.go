package roce

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
)

// edgeRig is a responder and a peer that makes its packets by hand; the first request has PSN 0x100.
type edgeRig struct {
	*end
	peer *handPeer
}

const edgePSN = 0x100

func newEdgeRig(t *testing.T) *edgeRig {
	t.Helper()
	h, at := newHandPeer(t)
	e := newEnd(t, Options{Address: at}, pairOptions{transport: verbs.RC, bytes: captureRegion, depth: 64, sges: 1})
	c := captureConnection(t, e, h, captureSide{qpn: 0x77, psn: edgePSN}, captureSide{psn: 0x500})
	check(t, verbs.InitQP(e.qp, c))
	for i := range uint64(32) {
		check(t, e.qp.PostReceive([]verbs.ReceiveRequest{{ID: i, SGEs: []verbs.SGE{e.sge(captureReceive, 4096)}}}))
	}
	check(t, verbs.ConnectQP(e.qp, c))
	return &edgeRig{e, h}
}

// request builds a request packet with room for the ICRC.
func (r *edgeRig) request(op wire.Operation, psn uint32, headers []byte, payload int, edit func(bth []byte)) []byte {
	bth := make([]byte, wire.BTHBytes)
	wire.PutBTH(bth, wire.MakeOpcode(wire.RC, op), wire.PadFlag(payload)|wire.FlagAckReq, r.qp.QPN(), psn)
	if edit != nil {
		edit(bth)
	}
	return append(append(bth, headers...), make([]byte, payload+wire.PadBytes(payload)+wire.ICRCBytes)...)
}

func (r *edgeRig) reth(offset, length int) []byte {
	return header(wire.RETHBytes, wire.RETH{Addr: r.mr.Addr() + uint64(offset), RKey: r.mr.RKey(), Length: uint32(length)})
}

func (r *edgeRig) atomic(offset int, add uint64) []byte {
	return header(wire.AtomicETHBytes, wire.AtomicETH{Addr: r.mr.Addr() + uint64(offset), RKey: r.mr.RKey(), SwapAdd: add})
}

// say words the answers to what was sent: "ACK 100" or "NAK 61 101", READ responses by PSN alone.
func (r *edgeRig) say() string {
	var words []string
	for _, p := range r.answers(r.peer) {
		s := p.AETH().Syndrome
		switch p.Opcode.Class() {
		case wire.ClassReadResponse:
			words = append(words, fmt.Sprintf("DATA %x", p.PSN()))
		case wire.ClassAtomicAcknowledge:
			words = append(words, fmt.Sprintf("ATOMIC %x was %d", p.PSN(), p.Original()))
		default:
			if s.Class() == wire.ClassACK {
				words = append(words, fmt.Sprintf("ACK %x", p.PSN()))
			} else {
				words = append(words, fmt.Sprintf("NAK %x %x", uint8(s), p.PSN()))
			}
		}
	}
	return strings.Join(words, ", ")
}

// TestResponderSequence walks one queue pair through the corner cases of headers, PSNs and duplicates that the captures
// edge_resp_a, _b and _c hold, in their order.
func TestResponderSequence(t *testing.T) {
	r := newEdgeRig(t)
	send := func(psn uint32, edit func(bth []byte)) []byte { return r.request(wire.SendOnly, psn, nil, 64, edit) }
	plain := func(psn uint32) []byte { return send(psn, nil) }
	damaged := func(b []byte, change func(crc []byte)) []byte {
		r.peer.flow.Seal(b, 0)
		change(b[len(b)-wire.ICRCBytes:])
		return b
	}
	counter := r.buffer.Bytes()[4096:]
	for _, tt := range []struct {
		name   string
		packet []byte
		sealed bool // as it is
		want   string
	}{
		{"valid", plain(0x100), false, "ACK 100"},
		{"one bit of the ICRC wrong", damaged(plain(0x101), func(c []byte) { c[0] ^= 1 }), true, ""},
		{
			"ICRC in the wrong order", damaged(plain(0x101), func(c []byte) { c[0], c[1], c[2], c[3] = c[3], c[2], c[1], c[0] }),
			true, "",
		},
		{"empty ICRC", plain(0x101), true, ""},
		{"too short", make([]byte, wire.MinPacketBytes-1), true, ""},
		{"nothing", []byte{}, true, ""},
		{"no AckReq", send(0x101, func(bth []byte) { bth[8] = 0 }), false, ""},
		{"limited P_Key", send(0x102, func(bth []byte) { bth[2] = 0x7f }), false, "ACK 102"},
		{"another P_Key", send(0x103, func(bth []byte) { bth[2], bth[3] = 0, 1 }), false, ""},
		{"another full P_Key", send(0x103, func(bth []byte) { bth[2], bth[3] = 0x80, 1 }), false, ""},
		{"migrated", send(0x103, func(bth []byte) { bth[1] |= 0x40 }), false, "ACK 103"},
		{"congestion bits", send(0x104, func(bth []byte) { bth[4] = 0xff }), false, "ACK 104"},
		{"reserved bits", send(0x105, func(bth []byte) { bth[8] |= 0x7f }), false, "ACK 105"},
		{"version 1", send(0x106, func(bth []byte) { bth[1] |= 1 }), false, ""},
		{"UC opcode", send(0x106, func(bth []byte) { bth[0] = byte(wire.MakeOpcode(wire.UC, wire.SendOnly)) }), false, ""},
		{"unknown opcode", send(0x106, func(bth []byte) { bth[0] = 0x1f }), false, ""},
		{"RESYNC", send(0x106, func(bth []byte) { bth[0] = 0x15 }), false, ""},
		{"unknown queue pair", send(0x106, func(bth []byte) { bth[6] ^= 0x40 }), false, ""},
		{"two ahead", plain(0x108), false, "NAK 60 106"},
		{"three ahead: one NAK per gap", plain(0x109), false, ""},
		{"the one expected", plain(0x106), false, "ACK 106"},
		{"a second gap", plain(0x108), false, "NAK 60 107"},
		{"the one expected again", plain(0x107), false, "ACK 107"},
		{"duplicate", plain(0x107), false, "ACK 107"},
		{"older duplicate, no AckReq", send(0x102, func(bth []byte) { bth[8] = 0 }), false, "ACK 107"},
		{"far behind", plain((0x107 - 0x700000) & wire.Mask24), false, "ACK 107"},
		{"READ", r.request(wire.ReadRequest, 0x108, r.reth(0, 3000), 0, nil), false, "DATA 108, DATA 109, DATA 10a"},
		{"READ's tail again", r.request(wire.ReadRequest, 0x109, r.reth(1024, 1976), 0, nil), false, "DATA 109, DATA 10a"},
		{
			"READ again, whole", r.request(wire.ReadRequest, 0x108, r.reth(0, 3000), 0, nil), false,
			"DATA 108, DATA 109, DATA 10a",
		},
		{"FETCH_ADD", r.request(wire.FetchAdd, 0x10b, r.atomic(4096, 5), 0, nil), false, "ATOMIC 10b was 40"},
		{
			"FETCH_ADD again: not executed", r.request(wire.FetchAdd, 0x10b, r.atomic(4096, 5), 0, nil), false,
			"ATOMIC 10b was 40",
		},
		{"next FETCH_ADD", r.request(wire.FetchAdd, 0x10c, r.atomic(4096, 1), 0, nil), false, "ATOMIC 10c was 45"},
		{
			"READ of nothing", r.request(wire.ReadRequest, 0x10d, header(wire.RETHBytes, wire.RETH{}), 0, nil), false,
			"DATA 10d",
		},
		{
			"READ without AckReq", r.request(wire.ReadRequest, 0x10e, r.reth(0, 8), 0, func(bth []byte) { bth[8] = 0 }), false,
			"DATA 10e",
		},
		{"misaligned FETCH_ADD", r.request(wire.FetchAdd, 0x10f, r.atomic(4100, 1), 0, nil), false, "NAK 61 10f"},
		{"after the error", plain(0x110), false, ""},
	} {
		if tt.name == "FETCH_ADD" {
			binary.NativeEndian.PutUint64(counter, 40)
		}
		if tt.sealed {
			r.peer.sendSealed(tt.packet)
		} else {
			r.peer.send(tt.packet)
		}
		if got := r.say(); got != tt.want {
			t.Errorf("%s: answered %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := binary.NativeEndian.Uint64(counter); got != 46 {
		t.Errorf("the counter is %d, want 46", got)
	}
	if r.qp.State() != verbs.StateError {
		t.Errorf("state %v, want ERR", r.qp.State())
	}
}

// TestResponderRefuses gives a fresh queue pair one malformed message each (capture edge_resp_d). rxe lets a short
// FIRST, an empty LAST and an ONLY above the MTU of a SEND pass; the specification does not (IBTA 9.7.4.1.3).
func TestResponderRefuses(t *testing.T) {
	type packet struct {
		op      wire.Operation
		payload int
		header  func(r *edgeRig) []byte
	}
	reth := func(offset, length int) func(r *edgeRig) []byte {
		return func(r *edgeRig) []byte { return r.reth(offset, length) }
	}
	for _, tt := range []struct {
		name    string
		packets []packet
		want    string
	}{
		{"MIDDLE without FIRST", []packet{{wire.SendMiddle, 1024, nil}}, "NAK 61 100"},
		{"LAST without FIRST", []packet{{wire.WriteLast, 10, nil}}, "NAK 61 100"},
		{"FIRST then ONLY", []packet{{wire.SendFirst, 1024, nil}, {wire.SendOnly, 64, nil}}, "NAK 61 101"},
		{"SEND FIRST then WRITE LAST", []packet{{wire.SendFirst, 1024, nil}, {wire.WriteLast, 64, nil}}, "NAK 61 101"},
		{"READ inside a message", []packet{{wire.SendFirst, 1024, nil}, {wire.ReadRequest, 0, reth(0, 8)}}, "NAK 61 101"},
		{"SEND FIRST below the MTU", []packet{{wire.SendFirst, 512, nil}}, "NAK 61 100"},
		{"SEND ONLY above the MTU", []packet{{wire.SendOnly, 1200, nil}}, "NAK 61 100"},
		{"empty SEND LAST", []packet{{wire.SendFirst, 1024, nil}, {wire.SendLast, 0, nil}}, "NAK 61 101"},
		{"WRITE FIRST below the MTU", []packet{{wire.WriteFirst, 512, reth(0, 2000)}}, "NAK 61 100"},
		{"WRITE ONLY shorter than announced", []packet{{wire.WriteOnly, 64, reth(0, 100)}}, "NAK 61 100"},
		{"WRITE ONLY longer than announced", []packet{{wire.WriteOnly, 64, reth(0, 10)}}, "NAK 61 100"},
		{"WRITE LAST too short", []packet{{wire.WriteFirst, 1024, reth(0, 2000)}, {wire.WriteLast, 100, nil}}, "NAK 61 101"},
		{"WRITE LAST too long", []packet{{wire.WriteFirst, 1024, reth(0, 1100)}, {wire.WriteLast, 100, nil}}, "NAK 61 101"},
		{
			"WRITE beyond the region, first packet inside",
			[]packet{{wire.WriteFirst, 1024, reth(captureRegion-1024, 2000)}},
			"NAK 62 100",
		},
		{"READ beyond the region", []packet{{wire.ReadRequest, 0, reth(captureRegion-8, 9)}}, "NAK 62 100"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newEdgeRig(t)
			before := append([]byte(nil), r.buffer.Bytes()[:captureReceive]...)
			for i, p := range tt.packets {
				var header []byte
				if p.header != nil {
					header = p.header(r)
				}
				b := r.request(p.op, edgePSN+uint32(i), header, p.payload, func(bth []byte) {
					if i < len(tt.packets)-1 {
						bth[8] = 0
					}
				})
				r.peer.send(b)
			}
			if got := r.say(); got != tt.want {
				t.Errorf("answered %q, want %q", got, tt.want)
			}
			if r.qp.State() != verbs.StateError {
				t.Errorf("state %v, want ERR", r.qp.State())
			}
			for i, v := range before {
				if r.buffer.Bytes()[i] != v {
					t.Fatalf("byte %d was written", i)
				}
			}
		})
	}
}
