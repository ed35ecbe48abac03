package wire

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// LinkType says what the frames of a capture file start with (tcpdump.org/linktypes.html).
type LinkType uint32

// Link types.
const (
	LinkEthernet LinkType = 1
	LinkRawIP    LinkType = 101 // the IP header; version in its first nibble
)

const (
	pcapMicros      = 0xa1b2c3d4
	pcapNanos       = 0xa1b23c4d
	pcapHeaderBytes = 24
	pcapRecordBytes = 16
	pcapMaxFrame    = 256 << 10
	ethernetBytes   = 14
	etherIPv4       = 0x0800
	etherIPv6       = 0x86dd
)

// PcapWriter writes a capture file with nanosecond stamps that Wireshark and tcpdump read. It buffers: Flush at the end.
// It belongs to one goroutine.
type PcapWriter struct {
	w       *bufio.Writer
	link    LinkType
	written int64
	scratch []byte
}

// NewPcapWriter writes the file header.
func NewPcapWriter(w io.Writer, link LinkType) (*PcapWriter, error) {
	if link != LinkEthernet && link != LinkRawIP {
		return nil, fmt.Errorf("capture file: link type %d: want Ethernet (1) or raw IP (101)", link)
	}
	p := &PcapWriter{w: bufio.NewWriterSize(w, 64<<10), link: link, written: pcapHeaderBytes}
	h := binary.LittleEndian.AppendUint32(nil, pcapNanos)
	h = binary.LittleEndian.AppendUint16(h, 2)
	h = binary.LittleEndian.AppendUint16(h, 4)
	h = append(h, make([]byte, 8)...)
	h = binary.LittleEndian.AppendUint32(h, uint32(pcapMaxFrame))
	h = binary.LittleEndian.AppendUint32(h, uint32(link))
	if _, err := p.w.Write(h); err != nil {
		return nil, fmt.Errorf("capture file: %w", err)
	}
	return p, nil
}

// Write adds a datagram, with the headers that the socket did not show made up from its fields.
func (p *PcapWriter) Write(at time.Time, d *Datagram) error {
	b := append(p.scratch[:0], make([]byte, pcapRecordBytes)...)
	if p.link == LinkEthernet {
		// locally administered addresses from the last bytes of the IP addresses
		b = append(b, 2, 0)
		b = appendLast4(b, d.Dest.Addr().AsSlice())
		b = append(b, 2, 0)
		b = appendLast4(b, d.Source.Addr().AsSlice())
		kind := uint16(etherIPv4)
		if !d.Source.Addr().Unmap().Is4() {
			kind = etherIPv6
		}
		b = binary.BigEndian.AppendUint16(b, kind)
	}
	b = d.AppendIP(b)
	n := len(b) - pcapRecordBytes
	binary.LittleEndian.PutUint32(b[0:], uint32(at.Unix()))
	binary.LittleEndian.PutUint32(b[4:], uint32(at.Nanosecond()))
	binary.LittleEndian.PutUint32(b[8:], uint32(n))
	binary.LittleEndian.PutUint32(b[12:], uint32(n))
	p.scratch = b
	p.written += int64(len(b))
	if _, err := p.w.Write(b); err != nil {
		return fmt.Errorf("capture file: %w", err)
	}
	return nil
}

// Written is the size of the file with what is still buffered.
func (p *PcapWriter) Written() int64 { return p.written }

func appendLast4(b, addr []byte) []byte { return append(b, addr[len(addr)-4:]...) }

// Flush writes out what is buffered.
func (p *PcapWriter) Flush() error {
	if err := p.w.Flush(); err != nil {
		return fmt.Errorf("capture file: %w", err)
	}
	return nil
}

// PcapReader reads capture files in the classic format, of either byte order and resolution.
type PcapReader struct {
	r     *bufio.Reader
	order binary.ByteOrder
	tick  time.Duration
	link  LinkType
	frame []byte
}

// NewPcapReader reads the file header.
func NewPcapReader(r io.Reader) (*PcapReader, error) {
	p := &PcapReader{r: bufio.NewReader(r)}
	var h [pcapHeaderBytes]byte
	if _, err := io.ReadFull(p.r, h[:]); err != nil {
		return nil, fmt.Errorf("capture file header: %w", err)
	}
	for _, f := range []struct {
		order binary.ByteOrder
		magic uint32
		tick  time.Duration
	}{
		{binary.LittleEndian, pcapMicros, time.Microsecond},
		{binary.LittleEndian, pcapNanos, time.Nanosecond},
		{binary.BigEndian, pcapMicros, time.Microsecond},
		{binary.BigEndian, pcapNanos, time.Nanosecond},
	} {
		if f.order.Uint32(h[:]) == f.magic {
			p.order, p.tick = f.order, f.tick
			p.link = LinkType(f.order.Uint32(h[20:]))
			return p, nil
		}
	}
	return nil, fmt.Errorf("capture file starts with %x: want the classic pcap format", h[:4])
}

// Next returns the next frame, valid until the call after, or io.EOF.
func (p *PcapReader) Next() (at time.Time, frame []byte, err error) {
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

// IP strips the link header of a frame.
func (p *PcapReader) IP(frame []byte) ([]byte, error) {
	switch p.link {
	case LinkRawIP:
		return frame, nil
	case LinkEthernet:
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
