package rankzero

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// network is a listener of this process whose connections are memory: with testing/synctest, time in it is virtual, and
// a machine that has no CPU to spare changes nothing.
type network struct {
	arrived chan net.Conn
	closed  chan struct{}
	once    sync.Once
	mu      sync.Mutex
	dialled map[int]*memoryConn // the agents' ends by rank, the last
	at      map[int]int         // ranks on the host of another rank
}

func newNetwork() *network {
	return &network{arrived: make(chan net.Conn, 64), closed: make(chan struct{}), dialled: map[int]*memoryConn{}}
}

func (n *network) Accept() (net.Conn, error) {
	select {
	case c := <-n.arrived:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *network) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

var zero = netip.MustParseAddrPort("10.0.0.100:4000")

func (n *network) Addr() net.Addr { return net.TCPAddrFromAddrPort(zero) }

// dial connects a rank, whose host has the address 10.0.0.RANK.
func (n *network) dial(ctx context.Context, rank int) (net.Conn, error) {
	host := rank
	if other, shares := n.at[rank]; shares {
		host = other
	}
	at := net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(host)}), 50000))
	up, down := newStream(), newStream()
	mine := &memoryConn{in: down, out: up, local: at, remote: n.Addr()}
	select {
	case n.arrived <- &memoryConn{in: up, out: down, local: n.Addr(), remote: at}:
	case <-n.closed:
		return nil, syscall.ECONNREFUSED
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dialled[rank] = mine
	return mine, nil
}

// of is an agent's end of its connection.
func (n *network) of(rank int) *memoryConn {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dialled[rank]
}

// stream is one direction of a connection. What is written waits in it without bound.
type stream struct {
	mu       sync.Mutex
	b        bytes.Buffer
	end      error // what a reader gets once it has read all
	held     bool  // nothing arrives: the link is cut, or the reader's process is stopped
	closed   bool  // the reader has closed its end
	deadline time.Time
	changed  chan struct{}
}

func newStream() *stream { return &stream{changed: make(chan struct{})} }

func (s *stream) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	close(s.changed)
	s.changed = make(chan struct{})
}

// read returns n, or a channel that tells when to look again.
func (s *stream) read(p []byte) (n int, again <-chan struct{}, deadline time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return 0, nil, s.deadline, net.ErrClosed
	case !s.deadline.IsZero() && !time.Now().Before(s.deadline):
		return 0, nil, s.deadline, os.ErrDeadlineExceeded
	case !s.held && s.b.Len() > 0:
		n, err = s.b.Read(p)
		return n, nil, s.deadline, err
	case !s.held && s.end != nil:
		return 0, nil, s.deadline, s.end
	}
	return 0, s.changed, s.deadline, nil
}

// memoryConn is one end of a connection.
type memoryConn struct {
	in, out       *stream
	local, remote net.Addr
}

func (c *memoryConn) Read(p []byte) (int, error) {
	for {
		n, again, deadline, err := c.in.read(p)
		if again == nil {
			return n, err
		}
		var late <-chan time.Time
		if !deadline.IsZero() {
			late = time.After(time.Until(deadline))
		}
		select {
		case <-again:
		case <-late:
		}
	}
}

func (c *memoryConn) Write(p []byte) (n int, err error) {
	c.out.change(func() {
		if c.out.end != nil {
			err = io.ErrClosedPipe
			return
		}
		n, err = c.out.b.Write(p)
	})
	return n, err
}

func (c *memoryConn) Close() error {
	c.finish(io.EOF)
	return nil
}

// finish ends both directions: the other end reads why, this one that it is closed.
func (c *memoryConn) finish(why error) {
	c.out.change(func() {
		if c.out.end == nil {
			c.out.end = why
		}
	})
	c.in.change(func() { c.in.closed = true })
}

// kill is what a kernel does with the connection of a process that ends with something unread.
func (c *memoryConn) kill() {
	c.finish(&net.OpError{
		Op: "read", Net: "tcp", Source: c.remote, Addr: c.local, Err: os.NewSyscallError("read", syscall.ECONNRESET),
	})
}

// hold lets nothing through, in either direction, until it is called again with false.
func (c *memoryConn) hold(held bool) {
	c.out.change(func() { c.out.held = held })
	c.in.change(func() { c.in.held = held })
}

func (c *memoryConn) LocalAddr() net.Addr  { return c.local }
func (c *memoryConn) RemoteAddr() net.Addr { return c.remote }

func (c *memoryConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func (c *memoryConn) SetReadDeadline(t time.Time) error {
	c.in.change(func() { c.in.deadline = t })
	return nil
}

// SetWriteDeadline has nothing to do: a write never waits.
func (c *memoryConn) SetWriteDeadline(time.Time) error { return nil }
