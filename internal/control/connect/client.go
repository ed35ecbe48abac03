package connect

import (
	"net"
	"net/netip"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/native"
	"github.com/gobw/gobw/internal/control/perftest"
)

// Client is one that has greeted and holds a slot.
type Client struct {
	From    netip.AddrPort
	Release func() // gives the slot back; the end of its session does

	conn  net.Conn
	hello perftest.Hello
	ours  *native.Session // nil: it speaks perftest's dialect
	o     *ListenOptions
}

// Handover is a client between two processes.
type Handover struct {
	Hello perftest.Hello   `json:"hello"`
	Ours  *native.Handover `json:"ours,omitempty"` // nil: it speaks perftest's dialect
}

// Session serves the client in this process.
func (c *Client) Session() control.Session {
	if c.ours != nil {
		return c.ours
	}
	return c.o.perftest(c.conn, c.hello, c.Release)
}

// Handover gives the client to another process, which goes on with [Resume]. The connection stays open here, too, and the slot is kept.
func (c *Client) Handover() (conn net.Conn, h Handover, err error) {
	h.Hello = c.hello
	if c.ours != nil {
		var own native.Handover
		own, err = c.ours.Handover()
		h.Ours = &own
	}
	return c.conn, h, err
}

// Resume goes on with a client that another process handed over. It owns the connection.
func Resume(conn net.Conn, h Handover, o ListenOptions) control.Session {
	if h.Ours != nil {
		return native.Resume(conn, *h.Ours, o.native(nil))
	}
	return o.perftest(conn, h.Hello, nil)
}

func (o *ListenOptions) native(release func()) native.Options {
	return native.Options{Timeouts: o.Timeouts, Program: o.Program, Token: o.Token, Admit: o.Admit, Await: o.Await, Release: release}
}

func (o *ListenOptions) perftest(conn net.Conn, hello perftest.Hello, release func()) control.Session {
	setup := perftest.Setup{
		Timeouts: o.Timeouts, Gbits: o.Perftest.Gbits, Facts: o.LocalFacts, Release: release, Admit: o.Admit, Rdma: o.RDMA != nil,
	}
	setup.Peer, _ = perftest.ParseVersion(hello.Version) // both were read before
	setup.Mine, _ = perftest.ParseVersion(o.Perftest.Version)
	return perftest.NewSession(conn, setup)
}
