package connect

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/admission"
	"github.com/gobw/gobw/internal/control/frame"
	"github.com/gobw/gobw/internal/control/native"
	"github.com/gobw/gobw/internal/perftest/wire"
)

// Client is one that has greeted. It holds a slot; where clients are served apart, it
// holds a seat, and takes a slot later.
type Client struct {
	From    netip.AddrPort
	Conn    net.Conn
	Out     <-chan struct{} // closed where it had to give way to others
	Release func()          // gives the slot back; the end of its session does

	said Handover        // so far
	ours *native.Session // nil: it speaks perftest's dialect
	o    *control.Options

	listener *Listener
	visitor  *admission.Visitor
	seat     *slot
	until    time.Time // how long it waits
}

// Handover is a client between two processes.
type Handover struct {
	Hello    wire.Hello      `json:"hello"`
	Answered wire.Version    `json:"answered,omitempty"` // this end's version, where it has been told
	Unread   []byte          `json:"unread,omitempty"`   // what a client of perftest's dialect has said since
	Ours     *frame.Handover `json:"ours,omitempty"`     // nil: it speaks perftest's dialect
}

// Session serves the client in this process.
func (c *Client) Session() control.Session {
	if c.ours != nil {
		return c.ours
	}
	return Resume(c.Conn, c.said, c.options())
}

// Handover gives the client to another process, which goes on with [Resume]. The connection stays open here,
// too, and the client keeps what it holds.
func (c *Client) Handover() (h Handover, err error) {
	h = c.said
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
	return wire.Resume(conn, h.Unread, versions(h.Hello, o), h.Answered, o)
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

// TakeSlot waits for a slot as long as the client waits. If it gets none, busy says who holds them. The caller has
// agreed with the client on a test; before that the client can lose its seat.
func (c *Client) TakeSlot(ctx context.Context) (busy string) {
	c.seat.keep()
	ctx, cancel := context.WithDeadline(ctx, c.until)
	defer cancel()
	taken, busy := c.listener.slots.take(ctx, c.From)
	if taken != nil {
		c.Release = taken.release
		c.listener.visitors.Leave(c.visitor)
		c.seat.release()
	}
	return busy
}

// MustStand tells whether the client must give its seat to another: it has had the seat for longer than after, and has
// not agreed on a test.
func (c *Client) MustStand(after time.Duration) bool { return c.seat.overdue(after) }

// OthersWait tells whether others wait for a seat or a slot.
func (c *Client) OthersWait() bool { return c.listener.OthersWait() }

// HasLeft tells whether the client has closed the connection, or its host is gone.
func (c *Client) HasLeft() bool { return frame.Closed(c.Conn) }

// Yield gives back what the client holds. Its connection stays open for a last word, which it may be slow to take.
func (c *Client) Yield() {
	c.listener.visitors.Leave(c.visitor)
	c.seat.release()
	c.Release()
}

// Leave gives back what the client holds, and closes the connection.
func (c *Client) Leave() {
	c.Yield()
	_ = c.Conn.Close()
}
