package roce

import (
	"net/netip"
	"time"

	"github.com/gobw/gobw/verbs/roce/wire"
)

// capture writes the packets of the device to a file, until the file has its size. Between two devices on loopback each
// packet is in both files.
type capture struct {
	w       *wire.PcapWriter
	limit   int64 // 0: none
	omitted uint64
	err     error
}

func newCapture(o Options) (*capture, error) {
	if o.Pcap == nil {
		return nil, nil //nolint:nilnil // no capture was asked for
	}
	p, err := wire.NewPcapWriter(o.Pcap, wire.LinkEthernet)
	if err != nil {
		return nil, err
	}
	return &capture{w: p, limit: o.PcapBytes}, nil
}

func (c *capture) write(d *wire.Datagram) {
	if c.limit != 0 && c.w.Written() >= c.limit {
		c.omitted++
		return
	}
	if c.err == nil {
		d.Fragment = 0x4000
		d.Checksum = d.UDPChecksum()
		c.err = c.w.Write(time.Now(), d)
	}
}

func (c *capture) close() error {
	if c == nil {
		return nil
	}
	if c.err == nil {
		c.err = c.w.Flush()
	}
	return c.err
}

// captureBatch writes the packets of a batch that is about to leave.
func (e *engine) captureBatch(p *path, b []byte, segment int) {
	for id := uint16(0); len(b) > 0; id++ {
		n := min(segment, len(b))
		e.capture.write(&wire.Datagram{
			Source: netip.AddrPortFrom(p.socket.local, p.socket.port), Dest: netip.AddrPortFrom(p.remote, wire.Port), ID: id,
			TrafficClass: p.service.class, Hops: p.service.hopLimit(), FlowLabel: p.service.flowLabel, Payload: b[:n],
		})
		b = b[n:]
	}
}

// captureReceived writes a packet that arrived. What its socket does not show is written as a device of ours sends it.
func (e *engine) captureReceived(from *source, b []byte, id uint16) {
	e.capture.write(&wire.Datagram{
		Source: netip.AddrPortFrom(from.addr, from.port), Dest: netip.AddrPortFrom(from.socket.local, from.socket.port),
		ID: id, Hops: defaultHops, Payload: b,
	})
}
