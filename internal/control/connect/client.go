package connect

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/admission"
)

// Bounds of the plans that are being judged by processes of their own.
const (
	maxJudging        = 4
	maxJudgingNetwork = 2
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

// Judging waits for a place to judge the plan in, until the context ends. The places are few: who takes long gives way when othersWait.
func (c *Client) Judging(ctx context.Context) (release func(), othersWait func() bool) {
	release, _ = c.l.judging.take(ctx, c.v.From)
	return release, c.l.judging.waiting
}

// TrySlot is a slot where one is free and nobody waits, or nil.
func (c *Client) TrySlot() (release func()) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	release, _ = c.l.slots.take(ctx, c.v.From)
	return release
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
