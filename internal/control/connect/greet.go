package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/admission"
	"github.com/gobw/gobw/internal/control/native"
	"github.com/gobw/gobw/internal/perftest/wire"
)

// greet lets a connection wait for a slot once it has said who it is, or tells the client why not.
func (l *Listener) greet(v *admission.Visitor) {
	c := &Client{From: v.From, Release: func() {}, Conn: v.Conn, o: &l.o}
	if err := l.meet(v, c); err != nil {
		l.o.Log.Warn("client dropped", "client", v.From, "err", control.Bounded(err.Error()))
		_ = v.Conn.Close()
		return
	}
	l.visitors.Advance(v, admission.Waiting)
	if !l.waitForSlot(c) {
		return
	}
	l.visitors.Leave(v) // it has a slot: closing the listener leaves it alone
	select {
	case l.clients <- c:
	case <-l.ctx.Done():
		_ = c.Session().Close()
	}
}

// meet reads perftest's first message, in which our dialect hides, and greets a client of ours.
func (l *Listener) meet(v *admission.Visitor, c *Client) (err error) {
	_ = v.Conn.SetDeadline(time.Now().Add(l.o.Timeouts.Hello))
	if l.ctx.Err() != nil { // shut may have missed this connection's deadline
		return context.Cause(l.ctx)
	}
	var b [wire.HelloBytes]byte
	if n, err := io.ReadFull(v.Conn, b[:]); err != nil {
		return fmt.Errorf("it sent %d of the first message's %d bytes: %w", n, wire.HelloBytes, err)
	}
	if c.hello, err = wire.ParseHello(b[:]); err != nil {
		return fmt.Errorf("it speaks neither perftest's protocol nor ours: %w", err)
	}
	l.visitors.Advance(v, admission.Greeted)
	_ = v.Conn.SetDeadline(time.Time{})
	if c.hello.Ours > 0 && !l.o.Perftest.NoMarker && l.o.RDMA == nil {
		return l.meetOurs(c)
	}
	if l.o.Token != nil {
		return errors.New("perftest cannot prove the token")
	}
	return versions(c.hello, l.o).Check()
}

// meetOurs begins a session in our dialect.
func (l *Listener) meetOurs(c *Client) error {
	_ = c.Conn.SetWriteDeadline(time.Now().Add(l.o.Timeouts.Peer))
	if _, err := c.Conn.Write(wire.Hello{Version: wire.VersionUsual, Ours: native.Version}.Encode()); err != nil {
		return err
	}
	c.ours = native.NewSession(c.Conn, c.options())
	err := native.CheckVersion(native.Version, c.hello.Ours)
	if err == nil {
		err = c.ours.Introduce(l.ctx)
	}
	switch {
	case errors.Is(err, control.ErrPeerLost):
		c.ours.Abandon()
	case err != nil:
		c.ours.Fail(err)
	}
	return err
}

// waitForSlot waits as long as the client does. One that gets none is turned away.
func (l *Listener) waitForSlot(c *Client) bool {
	ctx, patience := l.ctx, l.o.Timeouts.Parting
	if c.ours != nil {
		var stop context.CancelFunc
		ctx, stop = c.ours.Watch(ctx)
		defer stop()
		patience = max(patience, c.ours.PeerWaits())
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	release, busy := l.slots.take(ctx, c.From)
	if release != nil {
		c.Release = release
		return true
	}
	l.o.Log.Info("client turned away", "client", c.From, "why", busy)
	if c.ours != nil {
		c.ours.Turnaway(busy)
	}
	_ = c.Conn.Close()
	return false
}
