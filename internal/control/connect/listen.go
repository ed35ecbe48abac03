package connect

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/admission"
	"github.com/gobw/gobw/internal/control/rdmacm"
	"github.com/gobw/gobw/internal/perftest/wire"
)

// Listener admits clients, as many at once as it has slots: others wait or hear "busy since ...". Whoever sends
// garbage, sends slowly or sends nothing is logged and dropped within a time limit, and the listener goes on. Where
// clients are served apart, there are seats before the slots: a client has one from the time that it begins to say its
// test until both ends have agreed on it.
type Listener struct {
	o        control.Options
	listener net.Listener
	clients  chan *Client
	ctx      context.Context // ends when the listener closes, with why
	cancel   context.CancelCauseFunc
	wg       sync.WaitGroup
	visitors admission.Visitors
	seats    slots
	slots    slots
}

// Listen opens the port. Close the listener to stop.
func Listen(o control.Options) (*Listener, error) {
	o = o.WithDefaults()
	if o.Address == "" {
		o.Address = ":" + strconv.Itoa(control.DefaultPort)
	}
	if _, err := wire.Advertised(o.Perftest.Version); err != nil {
		return nil, err
	}
	listener, err := openPort(o)
	if err != nil {
		return nil, err
	}
	l := &Listener{o: o, listener: listener, clients: make(chan *Client), slots: slots{most: max(o.Clients, 1)}}
	l.seats = slots{most: o.Seats, keepers: l.slots.most}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.wg.Go(l.admit)
	return l, nil
}

func openPort(o control.Options) (net.Listener, error) {
	if o.RDMA != nil {
		return rdmacm.Listen(o.RDMA, o.Address, o.Timeouts)
	}
	address, err := withZone(o.Address, zones)
	if err != nil {
		return nil, err
	}
	config := net.ListenConfig{KeepAliveConfig: keepAlive(o.Timeouts.Peer)}
	if host, _, _ := net.SplitHostPort(address); host == "" {
		both := config
		both.Control = bothFamilies
		if l, err := both.Listen(context.Background(), "tcp6", address); err == nil {
			return l, nil
		}
	}
	return config.Listen(context.Background(), "tcp", address)
}

// Addr is where the listener listens.
func (l *Listener) Addr() netip.AddrPort { return control.AddrOf(l.listener.Addr()) }

// Accept waits for the next client, which is served in this process. Its slot is free once the session is closed.
func (l *Listener) Accept(ctx context.Context) (control.Session, error) {
	c, err := l.Next(ctx)
	if err != nil {
		return nil, err
	}
	return c.Session(), nil
}

// OthersWait tells whether a client waits for a seat or a slot.
func (l *Listener) OthersWait() bool { return l.seats.waiting() || l.slots.waiting() }

// Next waits for the next client that has a slot, or, where clients are served apart, a seat.
func (l *Listener) Next(ctx context.Context) (*Client, error) {
	select {
	case c := <-l.clients:
		return c, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-l.ctx.Done():
		return nil, context.Cause(l.ctx)
	}
}

// Close stops listening and drops clients that neither Accept nor Next has returned. Sessions go on.
func (l *Listener) Close() error {
	l.shut(net.ErrClosed)
	l.wg.Wait()
	return nil
}

func (l *Listener) shut(why error) {
	l.cancel(why)
	l.visitors.Each(func(c net.Conn) { _ = c.SetDeadline(time.Unix(1, 0)) })
	_ = l.listener.Close()
}

// admit accepts connections until the listener closes.
func (l *Listener) admit() {
	err := l.visitors.Accept(l.ctx, l.listener, l.take, func(err error) { l.o.Log.Warn("accept", "err", err) })
	if err != nil {
		l.shut(fmt.Errorf("accept: %w", err))
	}
}

func (l *Listener) take(conn net.Conn) {
	from := control.AddrOf(conn.RemoteAddr())
	if !l.allowed(from.Addr()) {
		l.o.Log.Warn("client refused: its address is not in --allow", "client", from)
		_ = conn.Close()
		return
	}
	v, closed := l.visitors.Add(conn, from)
	if closed != nil {
		l.o.Log.Warn("too many connections: one from the largest group is closed", "client", closed.From)
	}
	if closed == v {
		return
	}
	l.wg.Go(func() {
		if !l.greet(v) {
			l.visitors.Leave(v)
		}
	})
}

func (l *Listener) allowed(a netip.Addr) bool {
	admits := func(p netip.Prefix) bool { return p.Contains(a.WithZone("")) }
	return len(l.o.Allow) == 0 || slices.ContainsFunc(l.o.Allow, admits)
}
