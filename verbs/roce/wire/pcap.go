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

// Capture writes packets to a file with nanosecond stamps that Wireshark and tcpdump read, until the file has its size.
// It belongs to one goroutine. Between two devices on loopback each packet is in both files.
type Capture struct {
	Omitted uint64 // packets beyond its size

	w              *bufio.Writer
	limit, written int64
	scratch        []byte
}

// NewCapture begins a file of limit bytes; 0: without an end.
func NewCapture(w io.Writer, limit int64) *Capture {
	h := binary.LittleEndian.AppendUint32(nil, pcapNanos)
	h = binary.LittleEndian.AppendUint16(h, 2)
	h = binary.LittleEndian.AppendUint16(h, 4)
	h = append(h, make([]byte, 8)...)
	h = binary.LittleEndian.AppendUint32(h, uint32(pcapMaxFrame))
	h = binary.LittleEndian.AppendUint32(h, linkEthernet)
	c := &Capture{w: bufio.NewWriterSize(w, 64<<10), limit: limit, written: pcapHeaderBytes}
	_, _ = c.w.Write(h) // whatever goes wrong, Close reports it
	return c
}

// Write adds a datagram, with the headers that the socket did not show made up from its fields.
func (c *Capture) Write(at time.Time, d *Datagram) {
	if c.limit != 0 && c.written >= c.limit {
		c.Omitted++
		return
	}
	d.Checksum = d.UDPChecksum()
	b := append(c.scratch[:0], make([]byte, pcapRecordBytes)...)
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
	c.scratch = b
	c.written += int64(len(b))
	_, _ = c.w.Write(b)
}

func appendLast4(b, addr []byte) []byte { return append(b, addr[len(addr)-4:]...) }

// Close writes out what is buffered, and reports what went wrong since the beginning.
func (c *Capture) Close() error {
	if err := c.w.Flush(); err != nil {
		return fmt.Errorf("capture file: %w", err)
	}
	return nil
}
