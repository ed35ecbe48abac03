package link

import (
	"io"
	"net/netip"
	"time"

	"github.com/gobw/gobw/verbs/roce/wire"
)

// Capture writes packets to a file, until the file has its size. Between two devices on loopback each packet is in both files.
type Capture struct {
	Omitted uint64 // packets beyond its size

	w     *wire.PcapWriter
	limit int64 // 0: none
	err   error
}

// NewCapture begins a file of limit bytes; 0: without an end.
func NewCapture(w io.Writer, limit int64) (*Capture, error) {
	p, err := wire.NewPcapWriter(w)
	return &Capture{w: p, limit: limit}, err
}

func (c *Capture) write(d *wire.Datagram) {
	if c.limit != 0 && c.w.Written() >= c.limit {
		c.Omitted++
		return
	}
	if c.err == nil {
		d.Fragment = 0x4000
		d.Checksum = d.UDPChecksum()
		c.err = c.w.Write(time.Now(), d)
	}
}

// Close writes out what is buffered, and reports what went wrong since the beginning.
func (c *Capture) Close() error {
	if c.err == nil {
		c.err = c.w.Flush()
	}
	return c.err
}

// sent writes the packets of a batch that is about to leave.
func (c *Capture) sent(p *Path, b []byte, segment int) {
	for id := uint16(0); len(b) > 0; id++ {
		n := min(segment, len(b))
		c.write(&wire.Datagram{
			Source: netip.AddrPortFrom(p.Socket.Local, p.Socket.Port), Dest: netip.AddrPortFrom(p.Remote, wire.Port), ID: id,
			TrafficClass: p.Service.Class, Hops: p.Service.Hops, FlowLabel: p.Service.FlowLabel, Payload: b[:n],
		})
		b = b[n:]
	}
}

// Received writes a packet that arrived. What its socket does not show is written as a device of ours sends it.
func (c *Capture) Received(from *Source, b []byte, id uint16) { c.write(from.Datagram(b, id)) }
