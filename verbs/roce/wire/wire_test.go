package wire

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"
)

func testFlow(t testing.TB, src, dst string) Flow {
	t.Helper()
	f, err := NewFlow(netip.MustParseAddrPort(src), netip.MustParseAddrPort(dst))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestOpcodes(t *testing.T) {
	for _, tt := range []struct {
		op    Opcode
		code  uint8
		name  string
		bytes int
		class Class
		want  Properties
	}{
		{MakeOpcode(RC, SendFirst), 0x00, "RC_SEND_FIRST", 12, ClassSend, Known | Begins | TakesReceive},
		{
			MakeOpcode(RC, SendLastImmediate), 0x03, "RC_SEND_LAST_WITH_IMM", 16, ClassSend,
			Known | Ends | CompletesReceive | HasImmediate,
		},
		{
			MakeOpcode(RC, WriteOnlyImmediate), 0x0b, "RC_WRITE_ONLY_WITH_IMM", 32, ClassWrite,
			Known | Begins | Ends | TakesReceive | CompletesReceive | HasRETH | HasImmediate,
		},
		{MakeOpcode(RC, ReadRequest), 0x0c, "RC_READ_REQUEST", 28, ClassReadRequest, Known | Begins | Ends | HasRETH},
		{RCReadResponseMiddle, 0x0e, "RC_READ_RESPONSE_MIDDLE", 12, ClassReadResponse, Known | IsResponse},
		{RCAcknowledge, 0x11, "RC_ACKNOWLEDGE", 16, ClassAcknowledge, Known | Begins | Ends | IsResponse | HasAETH},
		{
			RCAtomicAcknowledge, 0x12, "RC_ATOMIC_ACKNOWLEDGE", 24, ClassAtomicAcknowledge,
			Known | Begins | Ends | IsResponse | HasAETH | HasAtomicAckETH,
		},
		{RCFetchAdd, 0x14, "RC_FETCH_ADD", 40, ClassAtomic, Known | Begins | Ends | HasAtomicETH},
		{
			MakeOpcode(RC, SendOnlyInvalidate), 0x17, "RC_SEND_ONLY_WITH_INVALIDATE", 16, ClassSend,
			Known | Begins | Ends | TakesReceive | CompletesReceive | HasIETH,
		},
		{
			MakeOpcode(UC, WriteLastImmediate), 0x29, "UC_WRITE_LAST_WITH_IMM", 16, ClassWrite,
			Known | Ends | TakesReceive | CompletesReceive | HasImmediate,
		},
		{
			MakeOpcode(UD, SendOnlyImmediate), 0x65, "UD_SEND_ONLY_WITH_IMM", 24, ClassSend,
			Known | Begins | Ends | TakesReceive | CompletesReceive | HasImmediate | HasDETH,
		},
		{CongestionNotification, 0x81, "CNP", 28, ClassCongestion, Known | Begins | Ends},
		{0x15, 0x15, "Opcode(0x15)", 0, ClassUnknown, 0},
		{0x2c, 0x2c, "Opcode(0x2c)", 0, ClassUnknown, 0}, // UC has no READ
	} {
		t.Run(tt.name, func(t *testing.T) {
			if uint8(tt.op) != tt.code || tt.op.String() != tt.name || tt.op.HeaderBytes() != tt.bytes ||
				tt.op.Class() != tt.class {
				t.Errorf("%#x %v, %d bytes, %v; want %#x, %d bytes, %v", uint8(tt.op), tt.op, tt.op.HeaderBytes(), tt.op.Class(),
					tt.code, tt.bytes, tt.class)
			}
			if opcodes[tt.op].props != tt.want {
				t.Errorf("properties %b, want %b", opcodes[tt.op].props, tt.want)
			}
			if got := MakeOpcode(tt.op.Transport(), tt.op.Operation()); got != tt.op {
				t.Errorf("made again %v", got)
			}
		})
	}
	known := 0
	for op := range 256 {
		if Opcode(op).Has(Known) {
			known++
		}
	}
	if want := 23 + 12 + 2 + 1; known != want {
		t.Errorf("%d opcodes known, want %d", known, want)
	}
}

func TestSyndromes(t *testing.T) {
	for _, tt := range []struct {
		s     Syndrome
		class SyndromeClass
		timer time.Duration
	}{
		{SyndromeAck, ClassACK, 0},
		{0x05, ClassACK, 0},
		{0x20, ClassRNR, 655360 * time.Microsecond},
		{0x2c, ClassRNR, 640 * time.Microsecond},
		{0x39, ClassRNR, 61440 * time.Microsecond},
		{0x3f, ClassRNR, 491520 * time.Microsecond},
		{0x40, ClassReserved, 0},
		{NAKSequenceError, ClassNAK, 0},
		{0x7f, ClassNAK, 0},
	} {
		if tt.s.Class() != tt.class || tt.s.RNRTimer() != tt.timer {
			t.Errorf("%#x: class %d, %v; want %d, %v", uint8(tt.s), tt.s.Class(), tt.s.RNRTimer(), tt.class, tt.timer)
		}
	}
}

func TestPSN(t *testing.T) {
	for _, tt := range []struct {
		a, b uint32
		want int32
	}{
		{5, 5, 0},
		{6, 5, 1},
		{5, 6, -1},
		{0, 0xffffff, 1},
		{0xffffff, 0, -1},
		{0x7fffff, 0, 0x7fffff},
		{0x800000, 0, -0x800000},
	} {
		if got := PSNDiff(tt.a, tt.b); got != tt.want {
			t.Errorf("PSNDiff(%#x, %#x) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

// header is one header as bytes.
func header(size int, h interface{ Put(b []byte) }) []byte {
	b := make([]byte, size)
	h.Put(b)
	return b
}

// bth is a BTH of version 0.
func bth(o Opcode, flags BTHFlags) []byte {
	b := make([]byte, BTHBytes)
	PutBTH(b, o, flags, 0, 0)
	return b
}

func TestPutBTH(t *testing.T) {
	sendOnly := MakeOpcode(RC, SendOnly)
	for n := range 5 {
		got := bytes.Repeat([]byte{0xaa}, BTHBytes)
		PutBTH(got, sendOnly, FlagSolicited|FlagAckReq|PadFlag(n), 0xff123456, 0x789abc)
		want := []byte{0x04, 0x80 | byte(PadBytes(n))<<4, 0xff, 0xff, 0, 0x12, 0x34, 0x56, 0x80, 0x78, 0x9a, 0xbc}
		if !bytes.Equal(got, want) {
			t.Errorf("pad of %d: BTH %x, want %x", n, got, want)
		}
	}
}

func TestParsePacketRefuses(t *testing.T) {
	short := make([]byte, MinPacketBytes-1)
	reth := bth(MakeOpcode(RC, WriteOnly), 0)
	padded := append(bth(MakeOpcode(RC, SendOnly), PadFlag(1)), 0, 0, 0, 0)
	for _, tt := range []struct {
		name string
		b    []byte
		want error
	}{
		{"empty", nil, ErrShort},
		{"below the minimum", short, ErrShort},
		{"no room for RETH", append(reth, 0, 0, 0, 0), ErrShort},
		{"padding over the headers", padded, ErrShort},
		{"unknown opcode", append(bth(0x15, 0), 0, 0, 0, 0), ErrOpcode},
		{"version 1", append(bth(MakeOpcode(RC, SendOnly), 1<<8), 0, 0, 0, 0), ErrVersion},
	} {
		if _, err := ParsePacket(tt.b); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

// TestUpdateICRC compares the CRC in pieces of every length with hash/crc32.
func TestUpdateICRC(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 300)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	for n := range b {
		want := crc32.ChecksumIEEE(b[:n])
		if got := UpdateICRC(0, b[:n]); got != want {
			t.Errorf("%d bytes: %#x, want %#x", n, got, want)
		}
		cut := r.IntN(n + 1)
		if got := UpdateICRC(UpdateICRC(0, b[:cut]), b[cut:n]); got != want {
			t.Errorf("%d bytes cut at %d: %#x, want %#x", n, cut, got, want)
		}
	}
}

// TestFlow compares the shortcut with the definition, for any address, length, ID and first bytes.
func TestFlow(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, tt := range []struct{ src, dst string }{
		{"10.0.0.1:49152", "192.168.255.254:4791"},
		{"[::ffff:10.0.0.1]:4791", "127.0.0.2:4791"},
		{"[fd77::1]:50000", "[fe80::ff:fe00:1]:4791"},
	} {
		f := testFlow(t, tt.src, tt.dst)
		for _, n := range []int{16, 20, 32, 33, 1084, 4160, lengthTerms - UDPBytes, lengthTerms, 9000, 65000} {
			for _, id := range []uint16{0, 1, 63, 127, 128, 40000, 65535} {
				packet := make([]byte, n)
				for i := range packet {
					packet[i] = byte(r.Uint32())
				}
				d := Datagram{
					Source: netip.MustParseAddrPort(tt.src), Dest: netip.MustParseAddrPort(tt.dst),
					ID: id, Fragment: dontFragment, Hops: byte(r.Uint32()), TrafficClass: byte(r.Uint32()), FlowLabel: r.Uint32(),
					Payload: packet,
				}
				want, err := icrcByDefinition(d.AppendIP(nil))
				if err != nil {
					t.Fatal(err)
				}
				if got := BeginICRC(f.Prefix(n+UDPBytes, id), packet[:n-ICRCBytes]); got != want {
					t.Fatalf("%s, %d bytes, ID %d: %#x, want %#x", tt.src, n, id, got, want)
				}
				f.Seal(packet, id)
				if got, ok := f.Solve(packet, 3); !ok || (got != id && f.idAt != 0) {
					t.Errorf("%s, %d bytes: verified ID %d, %v; want %d", tt.src, n, got, ok, id)
				}
				if got, want := f.Check(packet, 0), f.idAt == 0 || id == 0; got != want {
					t.Errorf("%s, %d bytes, ID %d: exact %v, want %v", tt.src, n, id, got, want)
				}
				packet[congestionAt] ^= byte(1 + r.IntN(255)) // masked: no damage
				if got, ok := f.Solve(packet, id); !ok || got != id {
					t.Errorf("%s, %d bytes: congestion bits broke the ICRC", tt.src, n)
				}
				packet[psnAt+r.IntN(n-psnAt)] ^= 1 << r.IntN(8)
				if f.Check(packet, id) {
					t.Errorf("%s, %d bytes: a damaged packet passed", tt.src, n)
				}
			}
		}
	}
	if _, err := NewFlow(netip.MustParseAddrPort("10.0.0.1:1"), netip.MustParseAddrPort("[::1]:1")); err == nil {
		t.Error("a flow between families was made")
	}
}

func TestUDGRH(t *testing.T) {
	d := Datagram{
		Source: netip.MustParseAddrPort("10.77.0.1:62930"), Dest: netip.MustParseAddrPort("10.77.0.2:4791"),
		ID: 7, Fragment: dontFragment, Hops: 64, Payload: make([]byte, 88),
	}
	grh := bytes.Repeat([]byte{0xee}, GRHBytes)
	d.PutGRH(grh)
	want := append(make([]byte, 20), d.AppendIP(nil)[:20]...)
	if !bytes.Equal(grh, want) {
		t.Errorf("GRH %x, want %x", grh, want)
	}
	d.Source, d.Dest = netip.MustParseAddrPort("[fd77::1]:62930"), netip.MustParseAddrPort("[fd77::2]:4791")
	d.PutGRH(grh)
	if want := d.AppendIP(nil)[:40]; !bytes.Equal(grh, want) {
		t.Errorf("GRH %x, want %x", grh, want)
	}
}

func TestPcap(t *testing.T) {
	var file bytes.Buffer
	w := NewCapture(&file, 0)
	at := time.Unix(1_700_000_000, 123_456_789)
	want := []Datagram{
		{
			Source: netip.MustParseAddrPort("10.0.0.1:5000"), Dest: netip.MustParseAddrPort("10.0.0.2:4791"),
			Fragment: dontFragment, Hops: 64, Payload: []byte("one"),
		},
		{
			Source: netip.MustParseAddrPort("[fd77::1]:5000"), Dest: netip.MustParseAddrPort("[fd77::2]:4791"), Hops: 64,
			Payload: []byte("three"),
		},
	}
	for i := range want {
		w.Write(at.Add(time.Duration(i)), &want[i])
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := newPcapReader(&file)
	if err != nil || r.link != linkEthernet {
		t.Fatalf("link type %d, %v", r.link, err)
	}
	for i := range want {
		stamp, frame, err := r.next()
		if err != nil || !stamp.Equal(at.Add(time.Duration(i))) {
			t.Fatalf("frame %d at %v, %v", i, stamp, err)
		}
		ip, err := r.ip(frame)
		if err != nil {
			t.Fatal(err)
		}
		d, err := parseDatagram(ip)
		if err != nil {
			t.Fatal(err)
		}
		if d.Source != want[i].Source || d.Dest != want[i].Dest || !bytes.Equal(d.Payload, want[i].Payload) {
			t.Errorf("datagram %+v, want %+v", d, want[i])
		}
	}
	if _, _, err := r.next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last frame %v, want EOF", err)
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	f := testFlow(t, "10.0.0.1:4791", "10.0.0.2:4791")
	packet := make([]byte, 1084)
	PutBTH(packet, MakeOpcode(RC, WriteFirst), 0, 5, 6)
	var sink uint32
	for name, run := range map[string]func(){
		"seal":   func() { f.Seal(packet, 3) },
		"verify": func() { _, _ = f.Solve(packet, 0) },
		"parse": func() {
			p, err := ParsePacket(packet)
			if err != nil {
				t.Fatal(err)
			}
			sink += p.PSN() + p.RETH().RKey + uint32(len(p.Payload))
		},
		"refuse": func() { _, _ = ParsePacket(packet[:17]) },
	} {
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("%s allocates %v times, want 0", name, n)
		}
	}
}

func BenchmarkSeal(b *testing.B) {
	f := testFlow(b, "10.0.0.1:4791", "10.0.0.2:4791")
	for _, n := range []int{16, 32, 48, 96, 1084, 4096 + 28 + 4} {
		b.Run(fmt.Sprintf("bytes=%d", n), func(b *testing.B) {
			packet := make([]byte, n)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				f.Seal(packet, 0)
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	f := testFlow(b, "10.0.0.1:4791", "10.0.0.2:4791")
	packet := make([]byte, 1084)
	f.Seal(packet, 7)
	for _, want := range []uint16{7, 0} {
		b.Run(fmt.Sprintf("expected=%v", want == 7), func(b *testing.B) {
			for b.Loop() {
				if _, ok := f.Solve(packet, want); !ok {
					b.Fatal("refused")
				}
			}
		})
	}
}

func BenchmarkParsePacket(b *testing.B) {
	packet := make([]byte, 1084)
	PutBTH(packet, MakeOpcode(RC, WriteFirst), 0, 5, 6)
	var sink uint32
	for b.Loop() {
		p, err := ParsePacket(packet)
		if err != nil {
			b.Fatal(err)
		}
		sink += p.PSN() + p.DestQPN() + uint32(len(p.Payload))
	}
	_ = sink
}

// TestUDPChecksum computes by hand the example of RFC 1071's arithmetic: words of header and payload, carries folded.
func TestUDPChecksum(t *testing.T) {
	d := Datagram{
		Source: netip.MustParseAddrPort("10.0.0.1:1"), Dest: netip.MustParseAddrPort("10.0.0.2:4791"),
		Payload: []byte{0xff, 0xff, 0x01},
	}
	// 0a00+0001 + 0a00+0002 + 0011+000b + 0001+12b7+000b + ffff+0100 = 127e1, folded 27e2
	if got, want := d.UDPChecksum(), ^uint16(0x27e2); got != want {
		t.Errorf("%#04x, want %#04x", got, want)
	}
	ip := d
	ip.Checksum = d.UDPChecksum()
	var sum uint64 // over everything, the checksum included, it is all ones
	sum = addWords(sum, []byte{10, 0, 0, 1, 10, 0, 0, 2, 0, 17, 0, 11})
	if got := foldSum(addWords(sum, ip.AppendIP(nil)[ipv4Bytes:])); got != 0xffff {
		t.Errorf("sum %#04x, want 0xffff", got)
	}
}

// icrcByDefinition computes the invariant CRC of a whole IP packet, from the IP header through the four bytes of the
// ICRC (which are not looked at), straight from the definition: the yardstick of [Flow].
func icrcByDefinition(ip []byte) (uint32, error) {
	header, err := ipHeaderBytes(ip)
	if err != nil {
		return 0, err
	}
	if len(ip) < header+UDPBytes+MinPacketBytes {
		return 0, ErrShort
	}
	m := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, ip[:len(ip)-ICRCBytes]...)
	h := m[8:]
	if header == ipv4Bytes {
		h[ipv4TOSAt], h[ipv4TTLAt], h[ipv4SumAt], h[ipv4SumAt+1] = 0xff, 0xff, 0xff, 0xff
	} else {
		h[0] |= 0x0f
		h[1], h[2], h[3], h[ipv6HopsAt] = 0xff, 0xff, 0xff, 0xff
	}
	h[header+udpChecksumAt], h[header+udpChecksumAt+1] = 0xff, 0xff
	h[header+UDPBytes+congestionAt] = 0xff
	return crc32.ChecksumIEEE(m), nil
}
