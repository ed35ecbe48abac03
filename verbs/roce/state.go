package roce

import (
	"cmp"
	"fmt"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/rc"
)

// Modify moves the queue pair through its states (IBTA 10.3.1).
func (q *queuePair) Modify(a verbs.QueuePairAttributes) error {
	e := q.e
	var g *gid
	var noSource error
	if a.Mask&verbs.AttrAddressVector != 0 {
		g, noSource = e.device.source(a.AddressVector)
	}
	e.lock()
	defer e.unlock()
	to := q.state
	if a.Mask&verbs.AttrState != 0 {
		to = a.State
	}
	err := q.mayChange(to, &a)
	if err == nil {
		err = noSource
	}
	var p *path
	if g != nil && err == nil {
		if err = q.mayUse(g, &a); err == nil {
			peer := q.attr.DestQPN
			if a.Mask&verbs.AttrDestQPN != 0 {
				peer = a.DestQPN
			}
			p, err = e.pathTo(g, a.AddressVector, sourcePort(a.AddressVector.FlowLabel, q.qpn, peer))
		}
	}
	if err != nil {
		return q.fail(fmt.Sprintf("modify queue pair to %v", to), err)
	}
	q.set(&a, p)
	if to == verbs.StateRTR {
		q.peerWindow = a.PeerWindow
	}
	q.enterState(to)
	return nil
}

// mayChange tells why attributes may not be set, if they may not.
func (q *queuePair) mayChange(to verbs.QPState, a *verbs.QueuePairAttributes) error {
	switch {
	case q.Closed():
		return verbs.ErrClosed
	case a.Mask&verbs.AttrCurrentState != 0 && a.CurrentState != q.state:
		return fmt.Errorf("its state is %v, not %v", q.state, a.CurrentState)
	}
	if err := cmp.Or(verbs.CheckTransition(q.transport, q.state, to, a.Mask),
		verbs.CheckValues(a, &q.e.device.info)); err != nil {
		return err
	}
	switch known := remoteAccess | verbs.AccessLocalWrite | verbs.AccessMWBind | verbs.AccessRelaxedOrdering; {
	case a.Mask&verbs.AttrPKeyIndex != 0 && a.PKeyIndex != 0:
		return fmt.Errorf("P_Key index %d: the table has one entry, 0", a.PKeyIndex)
	case a.Mask&verbs.AttrAccess != 0 && a.Access&^known != 0:
		return fmt.Errorf("access %v of a queue pair: %w", a.Access, verbs.ErrUnsupported)
	}
	return nil
}

// mayUse tells why a path from a GID cannot have these attributes, if it cannot.
func (q *queuePair) mayUse(g *gid, a *verbs.QueuePairAttributes) error {
	if most := activeMTU(g.mtu); a.Mask&verbs.AttrPathMTU != 0 && a.PathMTU > most {
		return fmt.Errorf("path MTU %v: interface %s carries %v at most; take that, or raise its MTU (ip link set)",
			a.PathMTU, g.name, most)
	}
	return nil
}

// set stores attributes that were checked.
func (q *queuePair) set(a *verbs.QueuePairAttributes, p *path) {
	m, to := a.Mask, &q.attr
	put(m, verbs.AttrAccess, &to.Access, a.Access)
	put(m, verbs.AttrPKeyIndex, &to.PKeyIndex, a.PKeyIndex)
	put(m, verbs.AttrPort, &to.Port, a.Port)
	put(m, verbs.AttrQKey, &to.QKey, a.QKey)
	put(m, verbs.AttrPathMTU, &to.PathMTU, a.PathMTU)
	if m&verbs.AttrPathMTU != 0 {
		q.mtu = uint32(to.PathMTU.Bytes())
	}
	put(m, verbs.AttrTimeout, &to.Timeout, a.Timeout)
	put(m, verbs.AttrRetryCount, &to.RetryCount, a.RetryCount)
	put(m, verbs.AttrRNRRetry, &to.RNRRetry, a.RNRRetry)
	put(m, verbs.AttrMaxRDAtomic, &to.MaxRDAtomic, a.MaxRDAtomic)
	put(m, verbs.AttrMaxDestRDAtomic, &to.MaxDestRDAtomic, a.MaxDestRDAtomic)
	put(m, verbs.AttrMinRNRTimer, &to.MinRNRTimer, a.MinRNRTimer)
	put(m, verbs.AttrDestQPN, &to.DestQPN, a.DestQPN)
	put(m, verbs.AttrSendPSN, &to.SendPSN, a.SendPSN)
	put(m, verbs.AttrRecvPSN, &to.RecvPSN, a.RecvPSN)
	put(m, verbs.AttrSQDAsyncNotify, &to.SQDAsyncNotify, a.SQDAsyncNotify)
	if p != nil {
		to.AddressVector, q.path = a.AddressVector, p
	}
}

func put[T any](mask, bit verbs.AttributeMask, to *T, v T) {
	if mask&bit != 0 {
		*to = v
	}
}

// enterState performs a legal change of state.
func (q *queuePair) enterState(to verbs.QPState) {
	from := q.state
	switch to {
	case verbs.StateReset:
		q.reset()
	case verbs.StateError:
		q.enterError()
		return
	case verbs.StateInit:
	case verbs.StateRTR:
		if from != verbs.StateRTR {
			q.beginReceiving()
			if q.transport == verbs.UD {
				q.mtu = q.e.portMTU()
			}
		}
	case verbs.StateRTS:
		if from == verbs.StateRTR {
			q.beginSending()
		}
		q.request.Resume()
		q.state = to
		q.kick()
	case verbs.StateSQD:
		q.state = to
		q.request.Drain()
		q.settle()
	case verbs.StateSQE:
	}
	q.state = to
	if (from == verbs.StateRTS || from == verbs.StateSQD) && (to == verbs.StateRTS || to == verbs.StateSQD) {
		q.request.Change(q.requesterSetup())
		q.respond.Serve(q.attr.MaxDestRDAtomic)
	}
}

// beginReceiving starts the responder at the transition to RTR.
func (q *queuePair) beginReceiving() {
	var pool *rc.Pool
	if q.transport == verbs.RC && q.peerWindow > 0 {
		pool = &q.e.pool
	}
	if q.transport == verbs.UD {
		q.path = &q.e.datagrams
	}
	q.established = false
	q.respond.Begin(q.attr.RecvPSN, q.mtu, q.attr.MaxDestRDAtomic, pool, &q.e.count.Counts)
}

// beginSending starts the requester at the transition to RTS.
func (q *queuePair) beginSending() {
	if n := q.peerWindow; n > 0 && q.transport != verbs.UD {
		q.path.Widen(n)
	}
	q.request.Begin(q.attr.SendPSN, q.requesterSetup())
}

func (q *queuePair) requesterSetup() rc.Setup {
	s := rc.Setup{
		Reliable: q.transport == verbs.RC, Retries: q.attr.RetryCount, RNRRetries: q.attr.RNRRetry,
		Reads:   int(q.attr.MaxRDAtomic),
		Timeout: q.e.ackTimeout[q.attr.Timeout&31], Keeps: q.peerWindow > 0, Count: &q.e.count.Counts,
	}
	if q.transport != verbs.UD { // a UD message is one packet, whatever its length
		s.MTU, s.Flow = q.mtu, q.path.Flow
	}
	return s
}

// reset discards everything, without completions.
func (q *queuePair) reset() {
	q.withdraw()
	q.current.hasWork = false
	q.sendCQ.forget(q)
	q.recvCQ.forget(q)
	q.receives.head = q.receives.tail
	q.request.Reset()
	q.respond.Reset()
	q.path, q.peerWindow = nil, 0
	q.attr = verbs.QueuePairAttributes{}
}

// Query returns the attributes in force.
func (q *queuePair) Query() (a verbs.QueuePairAttributes, err error) {
	err = q.locked("query queue pair", func() error {
		a = q.attributes()
		return nil
	})
	return a, err
}

func (q *queuePair) attributes() verbs.QueuePairAttributes {
	a := q.attr
	a.State, a.CurrentState = q.state, q.state
	a.SendPSN, a.RecvPSN = q.request.SendPSN(), q.respond.Expected
	if q.state == verbs.StateReset || q.state == verbs.StateInit {
		a.SendPSN, a.RecvPSN = 0, 0
	}
	if q.state == verbs.StateRTR {
		a.SendPSN = q.attr.SendPSN
	}
	a.Mask = verbs.AttrState | verbs.AttrCurrentState | verbs.AttrAccess | verbs.AttrPKeyIndex | verbs.AttrPort |
		verbs.AttrQKey |
		verbs.AttrAddressVector | verbs.AttrPathMTU | verbs.AttrTimeout | verbs.AttrRetryCount | verbs.AttrRNRRetry |
		verbs.AttrRecvPSN |
		verbs.AttrMaxRDAtomic | verbs.AttrMinRNRTimer | verbs.AttrSendPSN | verbs.AttrMaxDestRDAtomic | verbs.AttrDestQPN
	return a
}

// enterError stops the queue pair and flushes both queues (IBTA 10.3.1.5).
func (q *queuePair) enterError() {
	if q.state == verbs.StateError {
		return
	}
	q.withdraw()
	q.state = verbs.StateError
	q.failReceive(verbs.FlushError)
	q.flush()
	if q.srq != nil { // it takes no more of them (IBTA 10.2.9.3)
		q.e.raise(verbs.AsyncEvent{Type: verbs.EventQPLastWQEReached, QP: q})
	}
}

// flush completes what is posted with FlushError, as far as there is room in the completion queues.
func (q *queuePair) flush() {
	if q.state == verbs.StateError || q.state == verbs.StateSQE {
		q.request.Flush()
	}
	q.settle()
	if q.state != verbs.StateError {
		return
	}
	for !q.receives.empty() {
		if !q.recvCQ.room() {
			q.recvCQ.awaitRoom(q)
			break
		}
		r := q.receives.take()
		q.recvCQ.push(&entry{
			Completion: verbs.Completion{ID: r.id, Status: verbs.FlushError, Opcode: verbs.CompletedReceive, QPN: q.qpn},
		}, false)
	}
}

// vendorError tells where in this device an error arose: the requester's are 0x100 and the status.
func vendorError(s verbs.Status) uint32 { return 0x100 | uint32(s) }
