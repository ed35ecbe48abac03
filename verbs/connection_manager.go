package verbs

import (
	"context"
	"errors"
	"io"
	"net/netip"
)

// ConnectionManager is a device that RDMA CM serves: its queue pairs can be connected by IP address and port, and
// nothing else has to carry their numbers (IBTA 12, annex A11). A device without one does not implement this.
type ConnectionManager interface {
	// DialCM resolves the address of a peer and the route there. The peer hears nothing of it before
	// [CMConnection.Join].
	DialCM(ctx context.Context, to netip.AddrPort, o CMOptions) (CMConnection, error)
	// ListenCM takes requests for an address and port; an unspecified address stands for all of them, port 0 for a free
	// one.
	ListenCM(at netip.AddrPort, o CMOptions) (CMListener, error)
}

// CMOptions describes connections by RDMA CM. Zero fields take the default shown.
type CMOptions struct {
	Transport Transport  // RC; or UD, whose port space is another
	Source    netip.Addr // the local address of DialCM: the system's choice
	TOS       *uint8     // type of service of the path (RFC 2474); nil: none. DialCM only: the other end is told
}

// CMListener takes requests. Several goroutines may call Accept; Close ends it.
type CMListener interface {
	io.Closer
	Addr() netip.AddrPort
	// Accept waits for a request. One that came in on another device is refused, and the error, which wraps
	// [ErrForeignRequest], names it: the listener goes on.
	Accept(ctx context.Context) (CMConnection, error)
}

// CMConnection is a connection by RDMA CM at one of its ends, before and after it is made. Its methods belong to one
// goroutine, except Gone. Close it after the queue pair's last use and before the queue pair.
type CMConnection interface {
	io.Closer
	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort
	// InitOptions is what the path prescribes to [InitQP]: port, P_Key index and, for UD, Q_Key.
	InitOptions() (ConnectOptions, error)
	// Join connects a queue pair in INIT and leaves it in RTS. Of o it takes what is this end's affair: the READs and
	// atomics in flight each way (the peer may allow fewer), the RNR timer, retry counts and, where not zero,
	// timeout, service level and traffic class; zero is the path's. It returns what is in force; at the listening end
	// of UD the peer's queue pair is not known.
	Join(ctx context.Context, qp QueuePair, o ConnectOptions) (ConnectOptions, error)
	// Disconnect tells the peer that the connection is over. What was sent must have completed.
	Disconnect() error
	// Gone is closed when the peer has disconnected or its process has ended (RC).
	Gone() <-chan struct{}
}

// ErrForeignRequest is the cause of an error of Accept: a request came in on another device than the listener's.
var ErrForeignRequest = errors.New("the request came in on another device")
