package rdmacm

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/verbs"
)

// listener makes connections of the requests that RDMA CM hands it.
type listener struct {
	verbs.CMListener
	d        verbs.Device
	timeouts control.Timeouts
	ctx      context.Context //nolint:containedctx // ends when the listener closes
	cancel   context.CancelFunc
}

// Listen listens by RDMA CM at "host:port" or ":port".
func Listen(d verbs.Device, address string, timeouts control.Timeouts) (net.Listener, error) {
	m, err := ConnectionManagerOf(d)
	if err != nil {
		return nil, err
	}
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	to := control.AddrOf(at)
	if !to.Addr().IsValid() {
		to = netip.AddrPortFrom(netip.IPv4Unspecified(), to.Port())
	}
	l := &listener{d: d, timeouts: timeouts}
	if l.CMListener, err = m.ListenCM(to, verbs.CMOptions{}); err != nil {
		return nil, err
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l, nil
}

// Accept waits for the next client, and connects a queue pair to it. A [net.OpError] is of a client that did not get as
// far as a connection: the listener goes on.
func (l *listener) Accept() (net.Conn, error) {
	cm, err := l.CMListener.Accept(l.ctx)
	switch {
	case l.ctx.Err() != nil:
		if err == nil {
			_ = cm.Close()
		}
		return nil, net.ErrClosed
	case errors.Is(err, verbs.ErrForeignRequest):
		return nil, &net.OpError{Op: "accept", Net: "rdma", Err: err}
	case err != nil:
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(l.ctx, l.timeouts.Hello, control.ErrSilent)
	defer cancel()
	c, err := newConn(ctx, l.d, cm, l.timeouts.Peer)
	if err != nil {
		return nil, &net.OpError{Op: "accept", Net: "rdma", Source: net.TCPAddrFromAddrPort(cm.RemoteAddr()), Err: err}
	}
	return c, nil
}

// Close stops listening; connections go on.
func (l *listener) Close() error {
	l.cancel()
	return l.CMListener.Close()
}

// Addr is where the listener listens.
func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.CMListener.Addr()) }
