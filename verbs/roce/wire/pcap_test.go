package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"
)

// pcapReader reads capture files in the classic format, of either byte order and resolution.
type pcapReader struct {
	r     *bufio.Reader
	order binary.ByteOrder
	tick  time.Duration
	link  uint32
	frame []byte
}

// newPcapReader reads the file header.
func newPcapReader(r io.Reader) (*pcapReader, error) {
	p := &pcapReader{r: bufio.NewReader(r)}
	var h [pcapHeaderBytes]byte
	if _, err := io.ReadFull(p.r, h[:]); err != nil {
		return nil, fmt.Errorf("capture file header: %w", err)
	}
	for _, f := range []struct {
		order binary.ByteOrder
		magic uint32
		tick  time.Duration
	}{
		{binary.LittleEndian, 0xa1b2c3d4, time.Microsecond},
		{binary.LittleEndian, pcapNanos, time.Nanosecond},
		{binary.BigEndian, 0xa1b2c3d4, time.Microsecond},
		{binary.BigEndian, pcapNanos, time.Nanosecond},
	} {
		if f.order.Uint32(h[:]) == f.magic {
			p.order, p.tick = f.order, f.tick
			p.link = f.order.Uint32(h[20:])
			return p, nil
		}
	}
	return nil, fmt.Errorf("capture file starts with %x: want the classic pcap format", h[:4])
}

// next returns the next frame, valid until the call after, or io.EOF.
func (p *pcapReader) next() (at time.Time, frame []byte, err error) {
	var h [pcapRecordBytes]byte
	if _, err := io.ReadFull(p.r, h[:]); err != nil {
		if err == io.EOF { //nolint:errorlint // io.ReadFull returns it bare at a clean end
			return time.Time{}, nil, io.EOF
		}
		return time.Time{}, nil, fmt.Errorf("capture record: %w", err)
	}
	n := p.order.Uint32(h[8:])
	if n > pcapMaxFrame {
		return time.Time{}, nil, fmt.Errorf("capture record of %d bytes: want at most %d", n, pcapMaxFrame)
	}
	if cap(p.frame) < int(n) {
		p.frame = make([]byte, n)
	}
	p.frame = p.frame[:n]
	if _, err := io.ReadFull(p.r, p.frame); err != nil {
		return time.Time{}, nil, fmt.Errorf("capture record: %w", err)
	}
	at = time.Unix(int64(p.order.Uint32(h[0:])), int64(p.order.Uint32(h[4:]))*int64(p.tick))
	return at, p.frame, nil
}

// ip strips the link header of a frame.
func (p *pcapReader) ip(frame []byte) ([]byte, error) {
	switch p.link {
	case 101:
		return frame, nil
	case linkEthernet:
		if len(frame) < ethernetBytes {
			return nil, ErrShort
		}
		if kind := binary.BigEndian.Uint16(frame[12:]); kind != etherIPv4 && kind != etherIPv6 {
			return nil, fmt.Errorf("ethertype %#04x: want IPv4 or IPv6", kind)
		}
		return frame[ethernetBytes:], nil
	default:
		return nil, fmt.Errorf("link type %d: want Ethernet (1) or raw IP (101)", p.link)
	}
}

// parseDatagram decodes an IP packet, from the IP header on. Bytes beyond the IP length (Ethernet padding) are ignored.
func parseDatagram(ip []byte) (Datagram, error) {
	header, err := ipHeaderBytes(ip)
	if err != nil {
		return Datagram{}, err
	}
	if len(ip) < header+UDPBytes {
		return Datagram{}, ErrShort
	}
	var d Datagram
	var s, t netip.Addr
	var length int
	var protocol byte
	if header == ipv4Bytes {
		length, protocol = int(binary.BigEndian.Uint16(ip[ipv4LengthAt:])), ip[ipv4ProtoAt]
		d.ID, d.Fragment = binary.BigEndian.Uint16(ip[ipv4IDAt:]), binary.BigEndian.Uint16(ip[ipv4FragAt:])
		d.Hops, d.TrafficClass = ip[ipv4TTLAt], ip[ipv4TOSAt]
		s, t = netip.AddrFrom4([4]byte(ip[ipv4SourceAt:])), netip.AddrFrom4([4]byte(ip[ipv4DestAt:]))
	} else {
		length, protocol = int(binary.BigEndian.Uint16(ip[ipv6LengthAt:]))+ipv6Bytes, ip[ipv6NextAt]
		v := binary.BigEndian.Uint32(ip)
		d.Hops, d.TrafficClass, d.FlowLabel = ip[ipv6HopsAt], byte(v>>20), v&0xfffff
		s, t = netip.AddrFrom16([16]byte(ip[ipv6SourceAt:])), netip.AddrFrom16([16]byte(ip[ipv6DestAt:]))
	}
	udp := ip[header:]
	udpLen := int(binary.BigEndian.Uint16(udp[udpLengthAt:]))
	switch {
	case protocol != protocolUDP:
		return Datagram{}, fmt.Errorf("IP protocol %d, want UDP", protocol)
	case length > len(ip), length != header+udpLen, udpLen < UDPBytes:
		return Datagram{}, fmt.Errorf("IP length %d and UDP length %d in %d bytes", length, udpLen, len(ip))
	}
	d.Source = netip.AddrPortFrom(s, binary.BigEndian.Uint16(udp[udpSourceAt:]))
	d.Dest = netip.AddrPortFrom(t, binary.BigEndian.Uint16(udp[udpDestAt:]))
	d.Checksum = binary.BigEndian.Uint16(udp[udpChecksumAt:])
	d.Payload = udp[UDPBytes:udpLen]
	return d, nil
}

var (
	errIPVersion = errors.New("neither an IPv4 nor an IPv6 packet")
	errIPOptions = errors.New("IP options or extension headers are not part of RoCEv2")
)

func ipHeaderBytes(ip []byte) (int, error) {
	switch {
	case len(ip) == 0:
		return 0, ErrShort
	case ip[0] == 0x45:
		return ipv4Bytes, nil
	case ip[0]>>4 == 4:
		return 0, errIPOptions
	case ip[0]>>4 == 6:
		return ipv6Bytes, nil
	default:
		return 0, errIPVersion
	}
}
