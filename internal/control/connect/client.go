package connect

import (
	"net"
	"net/netip"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/frame"
	"github.com/gobw/gobw/internal/control/native"
	"github.com/gobw/gobw/internal/perftest/wire"
)

// Client is one that has greeted and holds a slot.
type Client struct {
	From    netip.AddrPort
	Conn    net.Conn
	Release func() // gives the slot back; the end of its session does

	hello wire.Hello
	ours  *native.Session // nil: it speaks perftest's dialect
	o     *control.Options
}

// Handover is a client between two processes.
type Handover struct {
	Hello wire.Hello      `json:"hello"`
	Ours  *frame.Handover `json:"ours,omitempty"` // nil: it speaks perftest's dialect
}

// Session serves the client in this process.
func (c *Client) Session() control.Session {
	if c.ours != nil {
		return c.ours
	}
	return Resume(c.Conn, Handover{Hello: c.hello}, c.options())
}

// Handover gives the client to another process, which goes on with [Resume]. The connection stays open here, too, and the slot is kept.
func (c *Client) Handover() (h Handover, err error) {
	h.Hello = c.hello
	if c.ours != nil {
		var own frame.Handover
		own, err = c.ours.Handover()
		h.Ours = &own
	}
	return h, err
}

// Resume goes on with a client that another process handed over. It owns the connection.
func Resume(conn net.Conn, h Handover, o control.Options) control.Session {
	if h.Ours != nil {
		return native.Resume(conn, *h.Ours, o)
	}
	return wire.NewSession(conn, versions(h.Hello, o), o)
}

// versions are those of perftest that both ends name.
func versions(theirs wire.Hello, o control.Options) wire.Versions {
	mine, _ := wire.Advertised(o.Perftest.Version) // it was checked before
	return wire.Versions{Peer: theirs.Version, Mine: mine}
}

// options are those of the client's session.
func (c *Client) options() control.Options {
	o := *c.o
	o.Release = func() { c.Release() }
	return o
}
