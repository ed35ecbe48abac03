package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/rdmacm"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

const (
	joinLimit = 30 * time.Second       // for all queue pairs
	joinAgain = 100 * time.Millisecond // between two tries while the server does not listen yet
	tellLimit = 5 * time.Second        // for the datagram that tells a queue pair's number
)

// Join connects the queue pairs in order by RDMA CM and takes over what it chose: MTU, GID, Q_Key, first packet
// numbers. known is the peer's address, zero where it is not known.
func (e *Endpoint) Join(ctx context.Context, s control.Session, known verbs.GID) error {
	// The server's RDMA CM listens at the port of the control connection, and at its RDMA device's address.
	// An iWARP device has no address of its own (its GID is made of the MAC), and its ports are those of
	// TCP, where the session listens already.
	first := &e.Rails[0]
	info := first.Device.Info()
	iWARP := info.IWARP()
	server := netip.AddrPortFrom(s.LocalAddr(), s.ServerPort())
	if s.Dialled() {
		server = netip.AddrPortFrom(s.RemoteAddr().Addr(), s.ServerPort())
		if a := known.Addr(); !known.IsZero() && !a.IsLinkLocalUnicast() && !iWARP {
			server = netip.AddrPortFrom(a, server.Port())
		}
	}
	if e.plan.Ours() && iWARP {
		server = netip.AddrPortFrom(server.Addr(), server.Port()+1)
	}
	if err := e.joinAt(ctx, s, server); err != nil {
		return err
	}
	joined := e.qps[0].joined
	if joined.PathMTU != 0 {
		e.MTU = joined.PathMTU
	}
	if e.spec.Transport == verbs.UD {
		e.qkey = joined.QKey
	}
	if !joined.AddressVector.UseGID {
		return nil
	}
	table, err := first.Device.GIDs(first.Port.Number)
	if err != nil {
		return err
	}
	if at, err := GIDWithIndex(table, joined.AddressVector.SGIDIndex); err == nil {
		first.GID = at
	}
	return nil
}

// joinAt connects them. server is where the server's RDMA CM listens.
func (e *Endpoint) joinAt(ctx context.Context, s control.Session, server netip.AddrPort) error {
	m, err := rdmacm.ConnectionManagerOf(e.Rails[0].Device)
	if err != nil {
		return err
	}
	watch, unwatch := s.Watch(ctx)
	defer unwatch()
	ctx, cancel := context.WithTimeoutCause(watch, joinLimit, fmt.Errorf("no connection by RDMA CM within %v", joinLimit))
	defer cancel()
	outstanding := uint8(e.plan.Outstanding)
	o := verbs.ConnectOptions{
		MinRNRTimer: plan.RNRTimer, Timeout: e.spec.Timeout, RetryCount: e.spec.Retries, RNRRetry: plan.RNRRetries,
		AddressVector: verbs.AddressVector{SL: e.spec.SL, TrafficClass: e.spec.TrafficClass},
	}
	if e.plan.Row.Responded {
		o.MaxRDAtomic, o.MaxDestRDAtomic = outstanding, outstanding
	}
	next := func() (verbs.CMConnection, error) {
		return m.DialCM(ctx, server, verbs.CMOptions{Transport: e.spec.Transport, TOS: e.spec.TOS})
	}
	if !s.Dialled() {
		at := netip.AddrPortFrom(netip.IPv4Unspecified(), server.Port())
		if server.Addr().Is6() {
			at = netip.AddrPortFrom(netip.IPv6Unspecified(), server.Port())
		}
		listener, err := m.ListenCM(at, verbs.CMOptions{Transport: e.spec.Transport})
		if err != nil {
			return err
		}
		defer func() { _ = listener.Close() }()
		next = func() (verbs.CMConnection, error) { return listener.Accept(ctx) }
	}
	if err := s.Sync(ctx, control.PhaseListening, 0, false); err != nil {
		return err
	}
	for q, qp := range e.qps {
		if qp.joined, err = e.joinOne(ctx, qp.QueuePair, next, o); err != nil {
			return fmt.Errorf("queue pair %d of %d: %w", q+1, e.spec.QPs, err)
		}
		qp.psn = qp.joined.SendPSN
		if s.Dialled() && !e.plan.Ours() && e.spec.Transport == verbs.UD &&
			(e.spec.Bidirectional || e.spec.Kind == plan.Latency) {
			if err := e.tellQPN(qp); err != nil {
				return err
			}
		}
	}
	return s.Sync(ctx, control.PhaseJoined, 0, false)
}

// joinOne connects a queue pair over the next connection. A stock server listens only after the barrier: while it
// refuses, this end tries again.
func (e *Endpoint) joinOne(ctx context.Context, qp verbs.QueuePair, next func() (verbs.CMConnection, error),
	o verbs.ConnectOptions,
) (joined verbs.ConnectOptions, err error) {
	for {
		began := time.Now()
		c, err := next()
		if err != nil {
			return o, err
		}
		e.onClose(c.Close)
		err = e.timed("connect", began, func() (err error) {
			if err = e.initBy(c, qp); err == nil {
				joined, err = c.Join(ctx, qp, o)
			}
			return err
		})
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return joined, err
		}
		select {
		case <-ctx.Done():
			return o, errors.Join(err, context.Cause(ctx))
		case <-time.After(joinAgain):
		}
	}
}

// initBy brings a queue pair to INIT as its connection needs it, where no try before has.
func (e *Endpoint) initBy(c verbs.CMConnection, qp verbs.QueuePair) error {
	init, err := c.InitOptions()
	if err != nil {
		return err
	}
	if own := e.Rails[0].Port.Number; init.Port != own {
		return &verbs.Error{
			Verb: "connect by RDMA CM", Device: e.Rails[0].Device.Info().Name, QP: qp.QPN(),
			Err: fmt.Errorf("the route uses port %d, this end uses port %d", init.Port, own),
			Fix: fmt.Sprintf("use -i %d", init.Port),
		}
	}
	if qp.State() != verbs.StateReset {
		return nil
	}
	init.Access = verbs.AccessLocalWrite | e.plan.Row.Access
	return verbs.InitQP(qp, init)
}

// tellQPN sends perftest's server, where it must send too, the number of this end's queue pair: as
// the immediate of a datagram of four bytes. (Our server takes the number from the keys, and lets a
// stock client's datagram find no receive.)
func (e *Endpoint) tellQPN(qp *pair) error {
	ah, err := qp.pd.CreateAH(qp.joined.AddressVector)
	if err != nil {
		return err
	}
	defer func() { _ = ah.Close() }()
	err = qp.PostSend([]verbs.SendRequest{{
		Opcode: verbs.OpSendWithImmediate, Flags: verbs.Signaled, Immediate: qp.QPN(), AH: ah, RemoteQPN: qp.joined.DestQPN,
		RemoteQKey: qp.joined.QKey,
		SGEs:       []verbs.SGE{{Addr: qp.send.addr, Length: 4, LKey: qp.region.LKey()}},
	}})
	if err != nil {
		return err
	}
	var found [1]verbs.Completion
	for end := time.Now().Add(tellLimit); time.Now().Before(end); {
		switch n, err := qp.cqs[0].Poll(found[:]); {
		case err != nil:
			return err
		case n == 1 && found[0].Status != verbs.Success:
			return &verbs.CompletionError{Device: e.Rails[0].Device.Info().Name, Completion: found[0], Sent: 1}
		case n == 1:
			return nil
		}
		time.Sleep(100 * time.Microsecond)
	}
	return &verbs.Error{
		Verb: "tell the server a queue pair's number", Device: e.Rails[0].Device.Info().Name, QP: qp.QPN(),
		Err: fmt.Errorf("no completion within %v", tellLimit),
	}
}

// pair puts the peer's addresses in the order of this end's queue pairs: RDMA CM has told each one its partner.
func (e *Endpoint) pair(peer []control.Address) ([]control.Address, error) {
	// iWARP has no such numbers: both ends go in order
	if info := e.Rails[0].Device.Info(); e.spec.Transport == verbs.UD || info.IWARP() {
		return peer, nil
	}
	byQPN := map[uint32]control.Address{}
	for _, a := range peer {
		byQPN[a.QPN] = a
	}
	out := make([]control.Address, len(e.qps))
	for q, qp := range e.qps {
		a, is := byQPN[qp.joined.DestQPN]
		if !is {
			return nil, fmt.Errorf("queue pair %d is connected to QP %#x by RDMA CM, which is none of those that the peer "+
				"names: is a third program connecting there?", q, qp.joined.DestQPN)
		}
		out[q] = a
	}
	return out, nil
}
