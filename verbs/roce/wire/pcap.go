package wire

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

const (
	linkEthernet    = 1 // tcpdump.org/linktypes.html
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
	written int64
	scratch []byte
}

// NewPcapWriter writes the file header.
func NewPcapWriter(w io.Writer) (*PcapWriter, error) {
	p := &PcapWriter{w: bufio.NewWriterSize(w, 64<<10), written: pcapHeaderBytes}
	h := binary.LittleEndian.AppendUint32(nil, pcapNanos)
	h = binary.LittleEndian.AppendUint16(h, 2)
	h = binary.LittleEndian.AppendUint16(h, 4)
	h = append(h, make([]byte, 8)...)
	h = binary.LittleEndian.AppendUint32(h, uint32(pcapMaxFrame))
	h = binary.LittleEndian.AppendUint32(h, linkEthernet)
	if _, err := p.w.Write(h); err != nil {
		return nil, fmt.Errorf("capture file: %w", err)
	}
	return p, nil
}

// Write adds a datagram, with the headers that the socket did not show made up from its fields.
func (p *PcapWriter) Write(at time.Time, d *Datagram) error {
	b := append(p.scratch[:0], make([]byte, pcapRecordBytes)...)
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
