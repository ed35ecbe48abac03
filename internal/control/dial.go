package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
)

// Dial connects to a server at "host" or "host:port" and finds out which dialect it speaks. Nothing is sent for that
// beyond perftest's own first message.
func Dial(ctx context.Context, address string, o DialOptions) (Session, error) {
	o.Timeouts = o.Timeouts.withDefaults()
	if o.Perftest.Version == "" {
		o.Perftest.Version = "6.27"
	}
	advertised, err := parseVersion(o.Perftest.Version)
	if err != nil {
		return nil, err
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(address, strconv.Itoa(DefaultPort))
	}
	giveUp := time.Now().Add(o.Wait)
	for {
		conn, err := connect(ctx, address, o, giveUp)
		if err != nil {
			return nil, err
		}
		s, err := greet(ctx, conn, advertised, o)
		if err == nil {
			return s, nil
		}
		_ = conn.Close()
		if !errors.Is(err, ErrBusy) || time.Now().After(giveUp) {
			return nil, err
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

// connect opens the connection, trying again until giveUp while the server refuses.
func connect(ctx context.Context, address string, o DialOptions, giveUp time.Time) (net.Conn, error) {
	network := o.Network
	if network == "" {
		network = "tcp"
	}
	d := net.Dialer{Timeout: o.Timeouts.Hello, KeepAliveConfig: keepAlive(o.Timeouts.Peer)}
	if o.Source.IsValid() {
		d.LocalAddr = &net.TCPAddr{IP: o.Source.AsSlice(), Zone: o.Source.Zone()}
	}
	open := func() (net.Conn, error) { return d.DialContext(ctx, network, address) }
	if o.RDMA != nil {
		to, err := net.ResolveTCPAddr(network, address)
		if err != nil {
			return nil, &connectError{address, err}
		}
		open = func() (net.Conn, error) {
			ctx, cancel := context.WithTimeoutCause(ctx, o.Timeouts.Hello, errSilent)
			defer cancel()
			return dialRDMA(ctx, o.RDMA, to.AddrPort(), o.Source, o.Timeouts.Peer)
		}
	}
	for {
		conn, err := open()
		if err == nil {
			return conn, nil
		}
		if !errors.Is(err, syscall.ECONNREFUSED) || time.Now().After(giveUp) {
			return nil, &connectError{address, err}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(retryAfter):
		}
	}
}

// connectError is a connection that did not come about, without the names of the calls.
type connectError struct {
	address string
	err     error
}

func (e *connectError) Error() string {
	cause := e.err
	if op, is := errors.AsType[*net.OpError](cause); is {
		cause = op.Err
	}
	if call, is := errors.AsType[*os.SyscallError](cause); is {
		cause = call.Err
	}
	return fmt.Sprintf("connect to %s: %v", e.address, cause)
}

func (e *connectError) Unwrap() error { return e.err }

// greet exchanges the first messages and makes the session of the dialect that both ends speak.
func greet(ctx context.Context, conn net.Conn, advertised perftestVersion, o DialOptions) (Session, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(o.Timeouts.Hello))
	mine := hello{version: o.Perftest.Version}
	if !o.Perftest.NoMarker && o.RDMA == nil {
		mine.ours = ourVersion
	}
	if _, err := conn.Write(mine.encode()); err != nil {
		return nil, lost(ctx, "sending the first message", err)
	}
	var b [helloBytes]byte
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		e := lost(ctx, "waiting for the server's first message", err)
		if l, is := errors.AsType[*LostError](e); is {
			l.Hint = "is a perftest or gobw server on that port, is it free, and does its --allow admit this host?"
		}
		return nil, e
	}
	theirs, err := parseHello(b[:])
	if err != nil {
		return nil, fmt.Errorf("the server at %s is neither perftest nor gobw: %w", conn.RemoteAddr(), err)
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	_ = conn.SetDeadline(time.Time{})
	if mine.ours > 0 && theirs.ours > 0 {
		if err := checkOurVersion(theirs.ours, "server"); err != nil {
			return nil, err
		}
		s := newOurSession(conn, ourOptions{dialled: true, timeouts: o.Timeouts, program: o.Program})
		if err := s.introduce(ctx); err != nil {
			s.abandon()
			return nil, err
		}
		return s, nil
	}
	peer, err := parseVersion(theirs.version)
	if err != nil {
		return nil, err
	}
	if err := checkPerftestServer(peer, advertised); err != nil {
		return nil, err
	}
	return newPerftestSession(conn, perftestSetup{
		dialled: true, timeouts: o.Timeouts, peer: peer, mine: advertised, gbits: o.Perftest.Gbits, rdma: o.RDMA != nil,
	}), nil
}

// keepAlive makes TCP notice a host that vanished within about the peer timeout.
func keepAlive(peer time.Duration) net.KeepAliveConfig {
	interval := max(peer/3, time.Second)
	return net.KeepAliveConfig{Enable: true, Idle: interval, Interval: interval, Count: 3}
}

// lost words an error of the connection; a context that ended goes before it.
func lost(ctx context.Context, phase string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", phase, context.Cause(ctx))
	}
	timeout, is := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errClosed
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		err = errReset
	case is && timeout.Timeout():
		err = errSilent
	}
	return &LostError{Phase: phase, Cause: err}
}
