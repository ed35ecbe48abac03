package wire

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/netip"
)

// Flow is what the ICRC needs to know of the IP and UDP headers of all packets from one socket to one address: it is
// made once per peer and direction, and its methods allocate nothing. The zero Flow is not usable.
type Flow struct {
	base uint32 // CRC after the masked headers, with length and ID zero
	*family
}

// NewFlow makes the flow from a source address and port to a destination (whose port is [Port] on any real wire). Both
// must be of one family; IPv4-mapped addresses count as IPv4.
func NewFlow(src, dst netip.AddrPort) (Flow, error) {
	s, d := src.Addr().Unmap(), dst.Addr().Unmap()
	if !s.IsValid() || !d.IsValid() || s.Is4() != d.Is4() {
		return Flow{}, fmt.Errorf("flow from %v to %v: want two addresses of one family", src, dst)
	}
	f := Flow{family: v6()}
	if s.Is4() {
		f.family = v4()
	}
	h := make([]byte, f.headers)
	if s.Is4() {
		putIPv4(h, s, d)
		h[ipv4TOSAt], h[ipv4TTLAt], h[ipv4SumAt], h[ipv4SumAt+1] = 0xff, 0xff, 0xff, 0xff
	} else {
		putIPv6(h, s, d)
		h[0], h[1], h[2], h[3], h[ipv6HopsAt] = 0x6f, 0xff, 0xff, 0xff, 0xff
	}
	udp := h[f.headers-UDPBytes:]
	binary.BigEndian.PutUint16(udp[udpSourceAt:], src.Port())
	binary.BigEndian.PutUint16(udp[udpDestAt:], dst.Port())
	udp[udpChecksumAt], udp[udpChecksumAt+1] = 0xff, 0xff
	f.base = crc32.Update(afterOnes, crc32.IEEETable, h)
	return f, nil
}

// Prefix is the CRC over everything before the BTH, for a UDP length (its header of 8 bytes included) and an IPv4 ID: 0
// for a datagram sent by itself, i for segment i of a segmented send. IPv6 has no ID.
func (f *Flow) Prefix(udpLen int, id uint16) uint32 {
	if uint(udpLen) < lengthTerms && id < idTerms {
		return f.base ^ f.lengths[udpLen] ^ f.ids[id]
	}
	return f.base ^ f.term(udpLen, id)
}

// Seal computes the ICRC of a packet that lies in one piece and writes it into its last four bytes. packet is the whole
// UDP payload, BTH through ICRC, at least [MinPacketBytes] long.
func (f *Flow) Seal(packet []byte, id uint16) {
	body := packet[:len(packet)-ICRCBytes]
	PutICRC(packet[len(body):], BeginICRC(f.Prefix(len(packet)+UDPBytes, id), body))
}

// Check tells whether the ICRC of a UDP payload is right for an IPv4 ID and "don't fragment": anything else passes with
// probability 2^-32.
func (f *Flow) Check(packet []byte, id uint16) bool {
	return len(packet) >= MinPacketBytes && f.residual(packet, id) == 0
}

// Solve finds the IPv4 ID for which the ICRC of a UDP payload is right; the socket did not show it. It tries
// wantID first (the place in a coalesced receive, else 0) and then solves for the ID and the DF bit; ok
// tells that nothing else differs. A damaged packet seems right for some ID with probability 2^-15: whoever
// accepts it should know which to expect.
func (f *Flow) Solve(packet []byte, wantID uint16) (id uint16, ok bool) {
	if len(packet) < MinPacketBytes {
		return 0, false
	}
	residual := f.residual(packet, wantID)
	if residual == 0 {
		return wantID, true
	}
	if f.idAt == 0 {
		return 0, false
	}
	id, frag := f.solve(residual, len(packet))
	return id ^ wantID, frag == 0 || frag == dontFragment
}

// residual is the difference between the ICRC that came and the one for wantID.
func (f *Flow) residual(packet []byte, wantID uint16) uint32 {
	body := packet[:len(packet)-ICRCBytes]
	return binary.LittleEndian.Uint32(packet[len(body):]) ^ BeginICRC(f.Prefix(len(packet)+UDPBytes, wantID), body)
}

// solve takes a residual back to the four bytes of ID and fragment field, where it is the difference of those bytes.
func (f *Flow) solve(residual uint32, packetLen int) (id, frag uint16) {
	steps := ipv4Bytes + UDPBytes + packetLen - 8 // from the ID to the end of what is covered
	var back uint32
	if steps < len(f.factors) {
		back = f.factors[steps]
	} else {
		back = factor(steps)
	}
	s := multiply(residual, back)
	return uint16(s)<<8 | uint16(s>>8)&0xff, uint16(s>>16)<<8 | uint16(s>>24)
}
