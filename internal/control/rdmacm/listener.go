package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/verbs"
)

// listener makes connections of the requests that RDMA CM hands it, one at a time: while a client is served, nobody
// listens, because with -R the test's queue pairs want the same port.
type listener struct {
	d        verbs.Device
	m        verbs.ConnectionManager
	at       netip.AddrPort
	timeouts control.Timeouts
	ctx      context.Context
	cancel   context.CancelFunc
	free     chan struct{} // the client that was served has gone

	mu sync.Mutex
	l  verbs.CMListener // nil while a client is served
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
	ip, _ := netip.AddrFromSlice(at.IP)
	if !ip.IsValid() {
		ip = netip.IPv4Unspecified()
	}
	r := &listener{d: d, m: m, at: netip.AddrPortFrom(ip.Unmap(), uint16(at.Port)), timeouts: timeouts, free: make(chan struct{}, 1)}
	if r.l, err = m.ListenCM(r.at, verbs.CMOptions{}); err != nil {
		return nil, err
	}
	r.at = r.l.Addr()
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r, nil
}

// clientError is a client that did not get as far as a connection: the listener goes on.
type clientError struct{ error }

func (clientError) Timeout() bool { return false }

func (clientError) Temporary() bool { return true }

func (e clientError) Unwrap() error { return e.error }

// Accept waits until the last client has gone and the next one has come, and connects a queue pair to it.
func (r *listener) Accept() (net.Conn, error) {
	l, err := r.again()
	if err != nil {
		return nil, err
	}
	cm, err := l.Accept(r.ctx)
	if r.ctx.Err() != nil {
		if err == nil {
			_ = cm.Close()
		}
		return nil, net.ErrClosed
	}
	if errors.Is(err, verbs.ErrForeignRequest) {
		return nil, clientError{err}
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(r.ctx, r.timeouts.Hello, control.ErrSilent)
	defer cancel()
	c, err := newConn(ctx, r.d, cm, r.timeouts.Peer)
	if err != nil {
		return nil, clientError{fmt.Errorf("client %v: %w", cm.RemoteAddr(), err)}
	}
	c.closed = func() { r.free <- struct{}{} }
	r.mu.Lock()
	defer r.mu.Unlock()
	r.l = nil
	if err := l.Close(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// again listens again where a client was served.
func (r *listener) again() (verbs.CMListener, error) {
	r.mu.Lock()
	l := r.l
	r.mu.Unlock()
	if l != nil {
		return l, nil
	}
	select {
	case <-r.free:
	case <-r.ctx.Done():
		return nil, net.ErrClosed
	}
	l, err := r.m.ListenCM(r.at, verbs.CMOptions{})
	if err != nil {
		r.free <- struct{}{}
		return nil, clientError{err} // tried again
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return nil, errors.Join(net.ErrClosed, l.Close())
	}
	r.l = l
	return l, nil
}

// Close stops listening; connections go on.
func (r *listener) Close() error {
	r.cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.l == nil {
		return nil
	}
	return r.l.Close()
}

// Addr is where the listener listens.
func (r *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(r.at) }
