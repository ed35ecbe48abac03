// Package connect dials and listens, and finds out with perftest's first message which dialect both ends speak.
package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/native"
	"github.com/gobw/gobw/internal/control/rdmacm"
	"github.com/gobw/gobw/internal/perftest/wire"
)

// Dial connects to a server at "host" or "host:port" and finds out which dialect it speaks. Nothing is sent for that
// beyond perftest's own first message.
func Dial(ctx context.Context, address string, o control.Options) (control.Session, error) {
	o = o.WithDefaults()
	advertised, err := wire.Advertised(o.Perftest.Version)
	if err != nil {
		return nil, err
	}
	advertised = cmp.Or(advertised, wire.VersionUsual)
	address, err = withZone(control.HostPort(address, control.DefaultPort), zones)
	if err != nil {
		return nil, err
	}
	for giveUp := time.Now().Add(o.Wait); ; {
		s, err := try(ctx, address, advertised, o)
		refused := errors.Is(err, syscall.ECONNREFUSED)
		hasNoRoom := errors.Is(err, control.ErrPeerLost) && !errors.Is(err, control.ErrSilent)
		if err == nil || !refused && !hasNoRoom || time.Now().After(giveUp) {
			return s, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(retryAfter):
		}
	}
}

// retryAfter is the pause between two tries to connect.
const retryAfter = 100 * time.Millisecond

// try is one try to get a session.
func try(ctx context.Context, address string, advertised wire.Version, o control.Options) (control.Session, error) {
	conn, err := connect(ctx, address, o)
	if err != nil {
		return nil, &connectError{address, err}
	}
	s, err := greet(ctx, conn, advertised, o)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return s, nil
}

// connect opens the connection.
func connect(ctx context.Context, address string, o control.Options) (net.Conn, error) {
	network := cmp.Or(o.Network, "tcp")
	if o.RDMA == nil {
		d := net.Dialer{Timeout: o.Timeouts.Hello, KeepAliveConfig: keepAlive(o.Timeouts.Peer)}
		if o.SegmentBytes > 0 {
			d.Control = smallSegments(o.SegmentBytes)
		}
		if o.Source.IsValid() {
			d.LocalAddr = &net.TCPAddr{IP: o.Source.AsSlice(), Zone: o.Source.Zone()}
		}
		return d.DialContext(ctx, network, address)
	}
	to, err := net.ResolveTCPAddr(network, address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeouts.Hello, control.ErrSilent)
	defer cancel()
	return rdmacm.Dial(ctx, o.RDMA, to.AddrPort(), o.Source, o.Timeouts.Peer)
}

// connectError is a connection that did not come about, without the names of the calls.
type connectError struct {
	address string
	err     error
}

func (e *connectError) Error() string {
	cause := e.err
	if name, is := errors.AsType[*net.DNSError](cause); is && inExamples(name) {
		return name.Name + " is a name of our examples"
	}
	if op, is := errors.AsType[*net.OpError](cause); is {
		cause = op.Err
	}
	if call, is := errors.AsType[*os.SyscallError](cause); is {
		cause = call.Err
	}
	return fmt.Sprintf("connect to %s: %v", e.address, cause)
}

// inExamples tells a host that was copied from the documents.
func inExamples(e *net.DNSError) bool {
	return slices.Contains([]string{"alpha", "beta", "HOST"}, e.Name)
}

func (e *connectError) Unwrap() error { return e.err }

// LoopbackDown is what to do where a host cannot reach itself.
const LoopbackDown = "the loopback interface of this host is down: ip link set lo up"

// to is the address that did not answer; invalid: there was none.
func (e *connectError) to() netip.Addr {
	if op, is := errors.AsType[*net.OpError](e.err); is && op.Addr != nil {
		return control.AddrOf(op.Addr).Addr()
	}
	return netip.Addr{}
}

// Remedy says what to look at; a server that is not there is the caller's to explain.
func (e *connectError) Remedy() string {
	name, is := errors.AsType[*net.DNSError](e.err)
	timeout, _ := errors.AsType[net.Error](e.err)
	switch {
	case is && inExamples(name):
		return "type the name of your server, or --loopback in its place"
	case is && name.IsNotFound:
		return "check the name of the host, or give its address"
	case is:
		return "the name service does not answer: look at /etc/resolv.conf, or give the address of the host"
	case errors.Is(e.err, syscall.EINVAL) && e.to().IsLinkLocalUnicast():
		return "a link-local address needs the interface of this host: ADDRESS%eth0"
	case e.to().IsLoopback() && (errors.Is(e.err, syscall.ENETUNREACH) || errors.Is(e.err, syscall.EADDRNOTAVAIL)):
		return LoopbackDown
	case errors.Is(e.err, syscall.EHOSTUNREACH), errors.Is(e.err, syscall.ENETUNREACH):
		return "check the address: ping HOST, ip route get ADDRESS"
	case timeout != nil && timeout.Timeout():
		return "is the host up, and does a firewall let this port through?"
	}
	return ""
}

// greet exchanges the first messages and makes the session of the dialect that both ends speak.
func greet(ctx context.Context, conn net.Conn, advertised wire.Version, o control.Options) (control.Session, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(o.Timeouts.Hello))
	o.Dialled = true
	mine := wire.Hello{Version: advertised}
	if !o.Perftest.NoMarker && o.RDMA == nil {
		mine.Ours = native.Version
	}
	if _, err := conn.Write(mine.Encode()); err != nil {
		return nil, control.Lost(ctx, "sending the first message", err)
	}
	var b [wire.HelloBytes]byte
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		e := control.Lost(ctx, "waiting for the server's first message", err)
		if l, is := errors.AsType[*control.LostError](e); is {
			l.Hint = "does its --allow admit this host? does another program have this port (-p)? what the server " +
				"prints says more"
		}
		return nil, e
	}
	theirs, err := wire.ParseHello(b[:])
	if err != nil {
		return nil, fmt.Errorf("%s answers %q: it is another program, not gobw or perftest; check the port (-p)",
			conn.RemoteAddr(), b)
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	_ = conn.SetDeadline(time.Time{})
	if mine.Ours > 0 && theirs.Ours > 0 {
		if err := native.CheckVersion(theirs.Ours, native.Version); err != nil {
			return nil, err
		}
		s := native.NewSession(conn, o)
		if err := s.Introduce(ctx); err != nil {
			if said, is := errors.AsType[*control.PeerError](err); is { // the token is another: no test has begun
				said.Refused = true
			}
			s.Abandon()
			return nil, err
		}
		return s, nil
	}
	v := wire.Versions{Peer: theirs.Version, Mine: advertised}
	if err := v.Check(); err != nil {
		return nil, err
	}
	if o.Token != nil {
		return nil, errors.New("the server speaks perftest's protocol, which has no token: leave --token-file out")
	}
	return wire.Resume(conn, nil, v, 0, o), nil
}

// keepAlive makes TCP notice a host that vanished within about the peer timeout.
func keepAlive(peer time.Duration) net.KeepAliveConfig {
	interval := max(peer/3, time.Second)
	return net.KeepAliveConfig{Enable: true, Idle: interval, Interval: interval, Count: 3}
}
