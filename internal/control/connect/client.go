package connect

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/admission"
)

// Client is one whose plan has come and was not read. It holds no slot yet.
type Client struct {
	Session  control.Session
	Plan     json.RawMessage // as the client wrote it
	l        *Listener
	v        *admission.Visitor
	patience time.Duration
	turnAway func(why string)
}

// Slot is a slot, or nil for a client that was turned away: it waits as long as the client does.
func (c *Client) Slot(ctx context.Context) (release func()) {
	return c.l.takeWithin(ctx, c.v, c.patience, c.turnAway)
}

// Served notes that the client has a slot: it no longer counts as one that waits.
func (c *Client) Served() { c.l.visitors.Leave(c.v) }

// Refuse says why the plan is not run.
func (c *Client) Refuse(why error) {
	c.l.o.Log.Warn("client refused", "client", c.v.From, "err", control.Bounded(why.Error()))
	c.Session.Fail(why)
}

// OthersWait tells whether another client waits for a slot.
func (c *Client) OthersWait() bool { return c.l.slots.waiting() }
