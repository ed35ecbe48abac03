package roce

import (
	"io"
	"net/netip"
	"time"

	"github.com/gobw/gobw/verbs/roce/wire"
)

// capture writes every packet of the device to a file. Between two devices on loopback each packet is in both files.
type capture struct {
	w   *wire.PcapWriter
	err error
}

func newCapture(w io.Writer) (*capture, error) {
	if w == nil {
		return nil, nil //nolint:nilnil // no capture was asked for
	}
	p, err := wire.NewPcapWriter(w, wire.LinkEthernet)
	if err != nil {
		return nil, err
	}
	return &capture{w: p}, nil
}

func (c *capture) write(d *wire.Datagram) {
	if c.err == nil {
		c.err = c.w.Write(time.Now(), d)
	}
}

// captureTrain writes the packets of a train that is about to leave.
func (e *engine) captureTrain(t *train) {
	p := t.path
	e.flat = t.flatten(e.flat)
	id := uint16(0)
	for b := e.flat; len(b) > 0; id++ {
		n := min(t.segment, len(b))
		e.capture.write(&wire.Datagram{
			Source: netip.AddrPortFrom(p.socket.local, p.socket.port), Dest: netip.AddrPortFrom(p.remote, wire.Port),
			ID: id, Fragment: 0x4000, Hops: 64, Payload: b[:n],
		})
		b = b[n:]
	}
}

func (e *engine) captureReceived(p *path, b []byte, id, port uint16) {
	e.capture.write(&wire.Datagram{
		Source: netip.AddrPortFrom(p.remote, port), Dest: netip.AddrPortFrom(p.socket.local, p.socket.port),
		ID: id, Fragment: 0x4000, Hops: 64, Payload: b,
	})
}
