package wire

import (
	"encoding/binary"
	"hash/crc32"
	"sync"
)

// The ICRC is the ordinary IEEE CRC-32 (reflected, 0xEDB88320) over eight bytes of 0xFF, the IP and UDP headers and the
// BTH with everything masked to ones that a router may change, and the rest of the packet as it is (IBTA A17.3.3).
//
// A CRC is linear: the register after a message is the XOR of what each of its fields contributes, and a field's
// contribution depends on its value and on the number of bytes after it alone. Three things follow, and make the ICRC
// of a packet one pass over its bytes where they lie:
//   - the register after the masked IP and UDP headers is flow ^ lengths[udpLen] ^ ids[id]: two table look-ups;
//   - masking byte 4 of the BTH equals an XOR of a constant into the register before the BTH: see maskTerms;
//   - the IPv4 ID, which a UDP socket cannot see, can be solved for from the difference between the ICRC that came and
//     the one computed for another ID: see [Flow.Solve].
//
// CRCs are kept the way hash/crc32 keeps them, complemented: the value after the last byte is the ICRC.

const (
	reflectedPoly = 0xedb88320
	// afterOnes is the CRC of the eight bytes 0xFF that stand for the masked local route header.
	afterOnes = 0x2144df1c

	lengthTerms = 4096 + 160 // UDP lengths looked up: the largest MTU and all headers
	idTerms     = 128        // IPv4 IDs looked up: the most segments of one send
)

// Offsets in the IP headers.
const (
	ipv4Bytes    = 20
	ipv4TOSAt    = 1
	ipv4LengthAt = 2
	ipv4IDAt     = 4
	ipv4FragAt   = 6
	ipv4TTLAt    = 8
	ipv4ProtoAt  = 9
	ipv4SumAt    = 10
	ipv4SourceAt = 12
	ipv4DestAt   = 16

	ipv6Bytes     = 40
	ipv6LengthAt  = 4
	ipv6NextAt    = 6
	ipv6HopsAt    = 7
	ipv6SourceAt  = 8
	ipv6DestAt    = 24
	udpSourceAt   = 0
	udpDestAt     = 2
	udpLengthAt   = 4
	udpChecksumAt = 6

	dontFragment = 0x4000
	protocolUDP  = 17
)

// family is what the flows of IPv4, or of IPv6, have in common, with tables behind the
// shortcuts: computed once, read-only afterwards.
type family struct {
	headers  int // bytes of IP and UDP header
	lengthAt int // where the IP header has a length, which counts more bytes
	more     int // than UDP's
	idAt     int // 0: IPv6 has no ID
	lengths  [lengthTerms]uint32
	ids      [idTerms]uint32
	factors  [lengthTerms]uint32 // IPv4
}

var (
	// maskTerms[f] masks a BTH whose byte 4 is f.
	maskTerms = makeMaskTerms()                 //nolint:gochecknoglobals // a table: never written
	v4        = sync.OnceValue(func() *family { //nolint:gochecknoglobals // a table: never written
		f := newFamily(ipv4Bytes, ipv4LengthAt, ipv4Bytes, ipv4IDAt)
		for n, x := 0, uint32(1<<31); n < len(f.factors); n, x = n+1, multiply(x, rewindPowers[0]) {
			f.factors[n] = x
		}
		return f
	})
	//nolint:gochecknoglobals // a table: never written
	v6 = sync.OnceValue(func() *family { return newFamily(ipv6Bytes, ipv6LengthAt, 0, 0) })
)

// makeMaskTerms rewinds the change of byte 4, f to 0xFF, by the four bytes before it.
func makeMaskTerms() (t [256]uint32) {
	back := factor(congestionAt)
	for f := range 256 {
		t[f] = multiply(uint32(f^0xff), back)
	}
	return t
}

func newFamily(header, lengthAt, more, idAt int) *family {
	f := &family{headers: header + UDPBytes, lengthAt: lengthAt, more: more, idAt: idAt}
	for n := range f.lengths {
		f.lengths[n] = f.term(n, 0)
	}
	for id := range f.ids {
		f.ids[id] = f.term(0, uint16(id)) ^ f.term(0, 0)
	}
	return f
}

// term is what a UDP length and an IPv4 ID contribute.
func (f *family) term(udpLen int, id uint16) uint32 {
	var b [ipv6Bytes + UDPBytes]byte
	h := b[:f.headers]
	if f.idAt > 0 {
		binary.BigEndian.PutUint16(h[f.idAt:], id)
	}
	binary.BigEndian.PutUint16(h[f.lengthAt:], uint16(udpLen+f.more))
	binary.BigEndian.PutUint16(h[f.headers-UDPBytes+udpLengthAt:], uint16(udpLen))
	return zeroRegister(h)
}

// zeroRegister runs b through a register that starts at zero: the contribution of b's bytes.
func zeroRegister(b []byte) uint32 { return ^crc32.Update(^uint32(0), crc32.IEEETable, b) }

// rewindPowers[i] is x^(-8·2^i): it takes a register back over 2^i zero bytes. Bit 31 is x^0.
var rewindPowers = [16]uint32{ //nolint:gochecknoglobals // a table: never written
	0x6567cb95, 0xd7125358, 0x5b358fd3, 0x2e9bb40b, 0x12a59a49, 0x8df9403d, 0x5139de12, 0xba340226,
	0x29c45641, 0x12fbc105, 0xecd30c55, 0x3755ebd8, 0x24ee460c, 0x23783fcf, 0x479933fc, 0xa39442a5,
}

// multiply is a·b modulo the polynomial.
func multiply(a, b uint32) uint32 {
	var p uint32
	for range 32 {
		p ^= b & -(a >> 31)
		a <<= 1
		b = b>>1 ^ reflectedPoly&-(b&1)
	}
	return p
}

// factor rewinds n zero bytes.
func factor(n int) uint32 {
	f := uint32(1 << 31)
	for i := range rewindPowers {
		if n>>i&1 != 0 {
			f = multiply(f, rewindPowers[i])
		}
	}
	return f
}

// BeginICRC carries a flow's prefix over the front of a packet, at least its BTH, which it masks on the way. What
// follows goes through [UpdateICRC], piece by piece, and the value after the last byte of padding is the ICRC.
func BeginICRC(prefix uint32, packet []byte) uint32 {
	return UpdateICRC(prefix^maskTerms[packet[congestionAt]], packet)
}

// PutICRC writes an ICRC: the only little-endian field.
func PutICRC(b []byte, crc uint32) { binary.LittleEndian.PutUint32(b, crc) }
