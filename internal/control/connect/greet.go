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

// greet lets a connection wait for a slot, or a seat, once it has said who it is, or tells the client why not.
// A client with a seat stays a visitor.
func (l *Listener) greet(v *admission.Visitor) (stays bool) {
	c := &Client{From: v.From, Conn: v.Conn, Out: v.Out, Release: func() {}, o: &l.o, listener: l, visitor: v}
	apart := l.o.Seats > 0
	err := l.meet(v, c)
	if err == nil && apart {
		err = l.hearBeginning(c)
	}
	if err != nil {
		l.o.Log.Warn("client dropped", "client", v.From, "err", control.Bounded(err.Error()))
		_ = v.Conn.Close()
		return false
	}
	queue := &l.slots
	if apart {
		queue = &l.seats
	}
	taken := l.waitFor(c, queue)
	switch {
	case taken == nil:
		return false
	case apart:
		c.seat = taken
	default:
		c.Release = taken.release
		l.visitors.Leave(v) // it has a slot: closing the listener leaves it alone
	}
	select {
	case l.clients <- c:
		return apart
	case <-l.ctx.Done():
		_ = c.Session().Close()
		return false
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
	if c.said.Hello, err = wire.ParseHello(b[:]); err != nil {
		return fmt.Errorf("it speaks neither perftest's protocol nor ours: %w", err)
	}
	l.visitors.Advance(v, admission.Greeted, time.Time{})
	_ = v.Conn.SetDeadline(time.Time{})
	if c.said.Hello.Ours > 0 && !l.o.Perftest.NoMarker && l.o.RDMA == nil {
		return l.meetOurs(c)
	}
	if l.o.Token != nil {
		return errors.New("perftest cannot prove the token")
	}
	return versions(c.said.Hello, l.o).Check()
}

// meetOurs begins a session in our dialect.
func (l *Listener) meetOurs(c *Client) error {
	_ = c.Conn.SetWriteDeadline(time.Now().Add(l.o.Timeouts.Peer))
	if _, err := c.Conn.Write(wire.Hello{Version: wire.VersionUsual, Ours: native.Version}.Encode()); err != nil {
		return err
	}
	c.ours = native.NewSession(c.Conn, c.options())
	err := native.CheckVersion(native.Version, c.said.Hello.Ours)
	if err == nil {
		err = c.ours.Introduce(l.ctx)
	}
	return c.refused(err)
}

// refused tells a client of ours why it is refused, unless it has gone.
func (c *Client) refused(err error) error {
	switch {
	case errors.Is(err, control.ErrPeerLost):
		c.ours.Abandon()
	case err != nil:
		c.ours.Fail(err)
	}
	return err
}

// hearBeginning waits until a client has begun to say its test. One that does not costs no process and no seat.
func (l *Listener) hearBeginning(c *Client) (err error) {
	if c.ours != nil {
		return c.refused(c.ours.AwaitPlan(l.ctx, l.o.Timeouts.Hello))
	}
	_ = c.Conn.SetDeadline(time.Now().Add(l.o.Timeouts.Hello))
	if c.said.Answered, err = wire.AnswerVersion(c.Conn, versions(c.said.Hello, l.o), l.o.Perftest.Told); err != nil {
		return err
	}
	c.said.Unread = make([]byte, 1)
	if _, err = io.ReadFull(c.Conn, c.said.Unread); err != nil {
		return fmt.Errorf("it sent nothing after the first message: %w", err)
	}
	_ = c.Conn.SetDeadline(time.Time{})
	return nil
}

// waitFor waits in a queue as long as the client waits. It turns away a client that gets no place.
func (l *Listener) waitFor(c *Client, queue *slots) *slot {
	ctx, patience := l.ctx, l.o.Timeouts.Parting
	if c.ours != nil {
		var stop context.CancelFunc
		ctx, stop = c.ours.Watch(ctx)
		defer stop()
		patience = max(patience, c.ours.PeerWaits())
	}
	c.until = time.Now().Add(patience)
	l.visitors.Advance(c.visitor, admission.Waiting, c.until)
	ctx, cancel := context.WithDeadline(ctx, c.until)
	defer cancel()
	go func() {
		select {
		case <-c.Out:
			cancel()
		case <-ctx.Done():
		}
	}()
	taken, busy := queue.take(ctx, c.From)
	if taken != nil {
		return taken
	}
	if queue != &l.slots {
		busy = l.Status()
	}
	l.o.Log.Info("client turned away", "client", c.From, "why", busy)
	if c.ours != nil {
		c.ours.Turnaway(busy)
	}
	_ = c.Conn.Close()
	return nil
}
