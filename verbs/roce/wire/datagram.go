package wire

import (
	"encoding/binary"
	"net/netip"
)

// Datagram is a UDP datagram with the IP fields that the ICRC and a UD receive's GRH are about.
type Datagram struct {
	Source, Dest netip.AddrPort
	ID           uint16 // IPv4
	Fragment     uint16 // IPv4: flags and offset; 0x4000 is "don't fragment"
	Hops         uint8  // TTL or hop limit
	TrafficClass uint8  // TOS on IPv4
	FlowLabel    uint32 // IPv6
	Checksum     uint16 // UDP
	Payload      []byte
}

// AppendIP encodes the datagram from the IP header on, with a correct IPv4 header
// checksum. It allocates only to grow b.
func (d *Datagram) AppendIP(b []byte) []byte {
	b, udp := d.appendIPHeader(b, UDPBytes+len(d.Payload))
	binary.BigEndian.PutUint16(udp[udpSourceAt:], d.Source.Port())
	binary.BigEndian.PutUint16(udp[udpDestAt:], d.Dest.Port())
	binary.BigEndian.PutUint16(udp[udpLengthAt:], uint16(UDPBytes+len(d.Payload)))
	binary.BigEndian.PutUint16(udp[udpChecksumAt:], d.Checksum)
	return append(b, d.Payload...)
}

func (d *Datagram) appendIPHeader(b []byte, udpLen int) (all, udp []byte) {
	s, t := d.Source.Addr().Unmap(), d.Dest.Addr().Unmap()
	at := len(b)
	if s.Is4() && t.Is4() { // an IPv6 header may name an IPv4-mapped address at one end
		b = append(b, make([]byte, ipv4Bytes+UDPBytes)...)
		putIPv4(b[at:], s, t)
		h := b[at:]
		h[ipv4TOSAt], h[ipv4TTLAt] = d.TrafficClass, d.Hops
		binary.BigEndian.PutUint16(h[ipv4LengthAt:], uint16(ipv4Bytes+udpLen))
		binary.BigEndian.PutUint16(h[ipv4IDAt:], d.ID)
		binary.BigEndian.PutUint16(h[ipv4FragAt:], d.Fragment)
		binary.BigEndian.PutUint16(h[ipv4SumAt:], headerChecksum(h[:ipv4Bytes]))
		return b, h[ipv4Bytes:]
	}
	b = append(b, make([]byte, ipv6Bytes+UDPBytes)...)
	putIPv6(b[at:], s, t)
	h := b[at:]
	binary.BigEndian.PutUint32(h, 6<<28|uint32(d.TrafficClass)<<20|d.FlowLabel&0xfffff)
	binary.BigEndian.PutUint16(h[ipv6LengthAt:], uint16(udpLen))
	h[ipv6HopsAt] = d.Hops
	return b, h[ipv6Bytes:]
}

// GRHBytes is what a UD receive reserves in front of the payload.
const GRHBytes = 40

// PutGRH writes the 40 bytes in front of a UD message as rxe does: the IPv6 header, or 20 zero bytes and the IPv4
// header (annex A17.4.5.1). It allocates nothing.
func (d *Datagram) PutGRH(b []byte) {
	grh := b[:GRHBytes]
	clear(grh)
	var scratch [ipv6Bytes + UDPBytes]byte
	h, _ := d.appendIPHeader(scratch[:0], UDPBytes+len(d.Payload))
	h = h[:len(h)-UDPBytes]
	copy(grh[GRHBytes-len(h):], h)
}

// putIPv4 writes what all packets of a flow share: version, DF, protocol and addresses.
func putIPv4(h []byte, src, dst netip.Addr) {
	s, d := src.As4(), dst.As4()
	h[0], h[ipv4ProtoAt] = 0x45, protocolUDP
	binary.BigEndian.PutUint16(h[ipv4FragAt:], dontFragment)
	copy(h[ipv4SourceAt:], s[:])
	copy(h[ipv4DestAt:], d[:])
}

func putIPv6(h []byte, src, dst netip.Addr) {
	s, d := src.As16(), dst.As16()
	h[0], h[ipv6NextAt] = 0x60, protocolUDP
	copy(h[ipv6SourceAt:], s[:])
	copy(h[ipv6DestAt:], d[:])
}

// headerChecksum is the internet checksum of an IPv4 header whose checksum field is zero (RFC 1071).
func headerChecksum(h []byte) uint16 { return ^foldSum(addWords(0, h)) }

// addWords adds 16-bit words; an odd byte at the end counts as the upper half of a word. Words of 32
// bits add up to the same (RFC 1071 §2).
func addWords(sum uint64, b []byte) uint64 {
	for ; len(b) >= 8; b = b[8:] {
		v := binary.BigEndian.Uint64(b)
		sum += v>>32 + v&0xffff_ffff
	}
	for ; len(b) >= 2; b = b[2:] {
		sum += uint64(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint64(b[0]) << 8
	}
	return sum
}

func foldSum(sum uint64) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

// UDPChecksum is the checksum that a sender's kernel puts into the UDP header (RFC 768, RFC 8200 §8.1).
func (d *Datagram) UDPChecksum() uint16 {
	n := UDPBytes + len(d.Payload)
	sum := addWords(0, d.Source.Addr().Unmap().AsSlice())
	sum = addWords(sum, d.Dest.Addr().Unmap().AsSlice())
	sum += protocolUDP + uint64(n)
	sum += uint64(d.Source.Port()) + uint64(d.Dest.Port()) + uint64(n)
	c := ^foldSum(addWords(sum, d.Payload))
	if c == 0 {
		return 0xffff // 0 means none
	}
	return c
}
