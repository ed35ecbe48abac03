// Package meeting is an RDMA CM in memory, for tests of what is written for
// [verbs.ConnectionManager] on a machine without one.
package meeting

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"
	"testing"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
	"github.com/gobw/gobw/verbs/verbstest"
)

// Manager is an RDMA CM for the devices of one process. The zero value works.
type Manager struct {
	mu        sync.Mutex
	listeners map[place]*listener
	lastPort  uint16
}

// place is a port; the transports' ports are different ones. Addresses are not told apart.
type place struct {
	transport verbs.Transport
	port      uint16
}

// Open opens a device at an address of its own, closes it with the test, and gives it this RDMA CM. The device needs a
// default GID.
func (m *Manager) Open(t testing.TB, open func(at netip.Addr) (verbs.Device, error)) verbs.Device {
	t.Helper()
	addr := verbstest.Address()
	d, err := open(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return &device{Device: d, manager: m, addr: addr}
}

type device struct {
	verbs.Device
	manager *Manager
	addr    netip.Addr
}

// Prepare has the device run the job as it would without the RDMA CM.
func (d *device) Prepare(j *job.Job) (job.Runner, error) { return job.Prepare(d.Device, j) }

// ListenCM takes requests for a port.
func (d *device) ListenCM(at netip.AddrPort, o verbs.CMOptions) (verbs.CMListener, error) {
	m := d.manager
	m.mu.Lock()
	defer m.mu.Unlock()
	if at.Port() == 0 {
		m.lastPort++
		at = netip.AddrPortFrom(at.Addr(), 20000+m.lastPort)
	}
	where := place{cmp.Or(o.Transport, verbs.RC), at.Port()}
	if m.listeners[where] != nil {
		return nil, &verbs.Error{Verb: "listen by RDMA CM", Device: d.Info().Name, Err: syscall.EADDRINUSE}
	}
	l := &listener{d: d, addr: netip.AddrPortFrom(d.addr, at.Port()), place: where, requests: make(chan *connection, 64)}
	if m.listeners == nil {
		m.listeners = map[place]*listener{}
	}
	m.listeners[where] = l
	return l, nil
}

// DialCM finds the way to any address: the other device is in this process.
func (d *device) DialCM(_ context.Context, to netip.AddrPort, o verbs.CMOptions) (verbs.CMConnection, error) {
	c := &connection{d: d, transport: cmp.Or(o.Transport, verbs.RC), in: make(chan verbs.ConnectOptions, 1)}
	c.local, c.remote = netip.AddrPortFrom(d.addr, 0), to
	c.there, c.leave = context.WithCancel(context.Background())
	return c, nil
}

type listener struct {
	d        *device
	addr     netip.AddrPort
	place    place
	requests chan *connection // closed with it
}

// Addr is where the listener listens.
func (l *listener) Addr() netip.AddrPort { return l.addr }

// Accept waits for a request.
func (l *listener) Accept(ctx context.Context) (verbs.CMConnection, error) {
	select {
	case c, open := <-l.requests:
		if !open {
			return nil, verbs.ErrClosed
		}
		return c, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close stops listening.
func (l *listener) Close() error {
	m := l.d.manager
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.listeners[l.place] == l {
		delete(m.listeners, l.place)
		close(l.requests)
	}
	return nil
}

// connection is one end; the two exchange what a queue pair must know of the other.
type connection struct {
	d             *device
	transport     verbs.Transport
	local, remote netip.AddrPort
	in            chan verbs.ConnectOptions // from the peer
	there         context.Context           //nolint:containedctx // both ends' one, until either disconnects
	leave         context.CancelFunc

	peer    *connection
	passive bool
}

// LocalAddr is this end's address.
func (c *connection) LocalAddr() netip.AddrPort { return c.local }

// RemoteAddr is the peer's.
func (c *connection) RemoteAddr() netip.AddrPort { return c.remote }

// InitOptions names the first port.
func (c *connection) InitOptions() (verbs.ConnectOptions, error) {
	return verbs.ConnectOptions{Port: 1, QKey: 0x01234567}, nil
}

// Join connects a queue pair in INIT.
func (c *connection) Join(ctx context.Context, qp verbs.QueuePair,
	o verbs.ConnectOptions,
) (verbs.ConnectOptions, error) {
	gid, err := c.d.DefaultGID()
	if err != nil {
		return o, err
	}
	mine := verbs.ConnectOptions{
		DestQPN: qp.QPN(), RecvPSN: qp.QPN() + 1, AddressVector: verbs.AddressVector{DGID: gid.GID},
		MaxRDAtomic: o.MaxDestRDAtomic, MaxDestRDAtomic: o.MaxRDAtomic,
	}
	if !c.passive {
		if err := c.request(); err != nil {
			return o, err
		}
		c.peer.in <- mine
	}
	var theirs verbs.ConnectOptions
	select {
	case theirs = <-c.in:
	case <-c.there.Done():
		return o, errors.New("the peer disconnected")
	case <-ctx.Done():
		return o, context.Cause(ctx)
	}
	o.Port, o.QKey, o.PathMTU, o.StayRTR = 1, 0x01234567, verbs.MTU1024, false
	o.DestQPN, o.RecvPSN, o.SendPSN = theirs.DestQPN, theirs.RecvPSN, qp.QPN()+1
	o.MaxRDAtomic, o.MaxDestRDAtomic = min(o.MaxRDAtomic, theirs.MaxRDAtomic), min(o.MaxDestRDAtomic,
		theirs.MaxDestRDAtomic)
	o.AddressVector = verbs.AddressVector{
		UseGID: true, DGID: theirs.AddressVector.DGID, SGIDIndex: gid.Index, HopLimit: 64, Port: 1,
	}
	if err := verbs.ConnectQP(qp, o); err != nil {
		return o, err
	}
	if c.passive {
		c.peer.in <- mine
		if c.transport == verbs.UD { // RDMA CM does not tell the listening end
			o.AddressVector, o.DestQPN = verbs.AddressVector{}, 0
		}
	}
	return o, nil
}

// request puts the other end before the listener.
func (c *connection) request() error {
	m := c.d.manager
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.listeners[place{c.transport, c.remote.Port()}]
	if l == nil {
		return &verbs.Error{Verb: fmt.Sprintf("connect to %v", c.remote), Device: c.d.Info().Name, Err: syscall.ECONNREFUSED}
	}
	other := *c
	c.peer, other.peer, other.passive = &other, c, true
	other.d, other.local, other.remote, other.in = l.d, c.remote, c.local, make(chan verbs.ConnectOptions, 1)
	l.requests <- c.peer
	return nil
}

// Disconnect ends the connection at both ends.
func (c *connection) Disconnect() error {
	c.leave()
	return nil
}

// Gone is closed when the peer has disconnected.
func (c *connection) Gone() <-chan struct{} { return c.there.Done() }

// Close ends the connection.
func (c *connection) Close() error { return c.Disconnect() }
