//go:build linux && cgo

package ibv

// #include "rdmacm.h"
import "C"

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/internal/handle"
)

const (
	cmResolveMs  = 2000 // for one try, as perftest has it
	cmTries      = 3    // of a resolution that timed out: the first packet to a host may be lost to ARP
	cmConnection = "connect by RDMA CM"
)

// connection is one end of a connection by RDMA CM, on a channel of its own. The queue pair stays its owner's: RDMA CM
// is told its number, and says what to set.
type connection struct {
	cmHandle
	request *C.struct_vb_cm_event // at the listening end
	events  chan *C.struct_vb_cm_event
	gone    chan struct{}
	local   netip.AddrPort
	remote  netip.AddrPort
	leave   sync.Once
}

// newCMConnection opens a channel, and has identify make the identifier on it.
func newCMConnection(d *device, verb string, request *C.struct_vb_cm_event, identify identifier) (*connection, error) {
	c := &connection{
		cmHandle: cmHandle{object: object{d: d}}, request: request, events: make(chan *C.struct_vb_cm_event, 16),
		gone: make(chan struct{}),
	}
	if err := c.open(verb, "connection by RDMA CM", identify); err != nil {
		return nil, err
	}
	c.local, c.remote = addrPort(&c.id.route.src), addrPort(&c.id.route.dst)
	c.each(func() bool {
		var e C.struct_vb_cm_event
		if C.vb_cm_next_event(c.cm, c.ch, &e) != 0 {
			return false
		}
		c.take(&e)
		return true
	})
	return c, nil
}

// DialCM resolves the address of a peer and the route there.
func (d *device) DialCM(ctx context.Context, to netip.AddrPort, o verbs.CMOptions) (verbs.CMConnection, error) {
	c, err := newCMConnection(d, cmConnection, nil, newID(o.Transport))
	if err != nil {
		return nil, err
	}
	c.remote = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	if err := c.reach(ctx, o); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// reach resolves the peer's address and the route there.
func (c *connection) reach(ctx context.Context, o verbs.CMOptions) error {
	cm, id, peer := c.cm, c.id, c.remote.Addr()
	verb := fmt.Sprintf("resolve %v by RDMA CM", peer)
	local, dst := sockaddr(netip.AddrPortFrom(o.Source, 0)), sockaddr(c.remote)
	from := &local
	if !o.Source.IsValid() {
		from = nil
	}
	err := c.resolve(ctx, verb, C.VB_CM_ADDR_RESOLVED,
		func() C.int { return C.vb_cm_resolve_addr(cm, id, from, &dst, cmResolveMs) })
	if err != nil {
		return err
	}
	c.local = addrPort(&id.route.src)
	if name := deviceOf(id); name != c.d.info.Name {
		return c.failure(verb, fmt.Errorf("the way there leads through %s", name),
			"use "+name+", or an address of the peer that this device reaches")
	}
	if o.TOS != nil {
		tos := *o.TOS
		const level, option = 0, 0 // RDMA_OPTION_ID, RDMA_OPTION_ID_TOS
		if rc := C.vb_cm_set_option(cm, id, level, option, unsafe.Pointer(&tos), 1); rc != 0 {
			return c.fail(fmt.Sprintf("set type of service %d by RDMA CM", tos), errnoError(rc))
		}
	}
	return c.resolve(ctx, fmt.Sprintf("find the route to %v by RDMA CM", peer), C.VB_CM_ROUTE_RESOLVED, func() C.int {
		return C.vb_cm_resolve_route(cm, id, cmResolveMs)
	})
}

// resolve runs one of the two resolutions, again where it timed out.
func (c *connection) resolve(ctx context.Context, verb string, want C.int, start func() C.int) error {
	for try := 1; ; try++ {
		if rc := start(); rc != 0 {
			return c.unreachable(verb, syscall.Errno(rc))
		}
		_, err := c.await(ctx, verb, want)
		e, is := errors.AsType[*cmEventError](err)
		switch {
		case err == nil || !is:
			return err
		case try == cmTries || !errors.Is(e, syscall.ETIMEDOUT):
			return c.unreachable(verb, e)
		}
	}
}

func (c *connection) unreachable(verb string, err error) error {
	if errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.EADDRNOTAVAIL) {
		err = fmt.Errorf("%w: no RDMA device leads there", err)
	}
	return c.failure(verb, err,
		"RDMA CM goes by IP address: the peer's must be one of its RDMA device's network interface, "+
			"and 'ip route get' must name this device's ('rdma link' tells both)")
}

// take passes an event on to whoever waits; the peer's end is seen at once.
func (c *connection) take(e *C.struct_vb_cm_event) {
	switch {
	case e.event == C.VB_CM_DISCONNECTED || e.event == C.VB_CM_DEVICE_REMOVAL:
		c.leave.Do(func() { close(c.gone) })
	case e.event <= C.VB_CM_ESTABLISHED: // of others, such as a changed address, nothing follows
		select {
		case c.events <- e:
		case <-c.quit:
		}
	}
}

// await waits for one of the wanted events.
func (c *connection) await(ctx context.Context, verb string, want ...C.int) (*C.struct_vb_cm_event, error) {
	select {
	case e := <-c.events:
		for _, w := range want {
			if e.event == w && e.status == 0 {
				return e, nil
			}
		}
		return nil, &cmEventError{event: int(e.event), status: int(e.status)}
	case <-c.gone:
		return nil, c.fail(verb, errors.New("the peer disconnected"))
	case <-c.quit:
		return nil, c.fail(verb, verbs.ErrClosed)
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", verb, context.Cause(ctx))
	}
}

// cmEventError is an event that says why there is no connection.
type cmEventError struct{ event, status int }

// Reasons of a rejection (IBTA table 107); status of a datagram's answer (IBTA 12.11.2.2).
const (
	rejectedNoListener = 8  // invalid service ID
	rejectedByProgram  = 28 // consumer reject
	noSuchService      = 1  // unsupported
)

// nobodyListens tells that the peer's RDMA CM answered, and has no listener at that port.
func (e *cmEventError) nobodyListens() bool {
	return e.event == C.VB_CM_REJECTED && e.status == rejectedNoListener || e.event == C.VB_CM_UNREACHABLE &&
		e.status == noSuchService
}

func (e *cmEventError) Error() string {
	names := []string{
		"ADDR_RESOLVED", "ADDR_ERROR", "ROUTE_RESOLVED", "ROUTE_ERROR", "CONNECT_REQUEST", "CONNECT_RESPONSE",
		"CONNECT_ERROR",
		"UNREACHABLE", "REJECTED", "ESTABLISHED",
	}
	name := fmt.Sprintf("event %d", e.event)
	if e.event < len(names) {
		name = names[e.event]
	}
	switch {
	case e.nobodyListens():
		return "the peer refuses: nobody listens there by RDMA CM"
	case e.event == C.VB_CM_REJECTED && e.status == rejectedByProgram:
		return "the peer's program rejects the connection"
	case e.event == C.VB_CM_REJECTED:
		return fmt.Sprintf("the peer's RDMA CM rejects the connection, reason %d (IBTA table 107)", e.status)
	case e.status < 0:
		return fmt.Sprintf("%s: %v", name, syscall.Errno(-e.status))
	default:
		return fmt.Sprintf("%s, status %d", name, e.status)
	}
}

// Unwrap returns the errno that the event stands for.
func (e *cmEventError) Unwrap() error {
	switch {
	case e.nobodyListens():
		return syscall.ECONNREFUSED
	case e.event == C.VB_CM_REJECTED:
		return syscall.ECONNRESET
	case e.status < 0:
		return syscall.Errno(-e.status)
	}
	return nil
}

// LocalAddr is this end's address.
func (c *connection) LocalAddr() netip.AddrPort { return c.local }

// RemoteAddr is the peer's address.
func (c *connection) RemoteAddr() netip.AddrPort { return c.remote }

// attributes asks RDMA CM what a queue pair needs for a state.
func (c *connection) attributes(s verbs.QPState) (verbs.QueuePairAttributes, error) {
	var room struct { // a later library may write a longer struct
		a C.struct_vb_qp_attr
		_ [256]byte
	}
	var mask C.int
	room.a.qp_state = C.int32_t(s)
	rc := C.vb_cm_init_qp_attr(c.cm, c.id, &room.a, &mask)
	return goAttributes(&room.a), c.fail(fmt.Sprintf("ask RDMA CM for the attributes of %v", s), errnoError(rc))
}

// InitOptions is what the path prescribes to the state INIT.
func (c *connection) InitOptions() (o verbs.ConnectOptions, err error) {
	err = c.inside(cmConnection, func() error {
		a, err := c.attributes(verbs.StateInit)
		o = verbs.ConnectOptions{Port: a.Port, PKeyIndex: a.PKeyIndex, QKey: a.QKey}
		return err
	})
	return o, err
}

// Join connects a queue pair in INIT and leaves it in RTS.
func (c *connection) Join(ctx context.Context, qp verbs.QueuePair,
	o verbs.ConnectOptions,
) (verbs.ConnectOptions, error) {
	if err := c.Enter(); err != nil {
		return o, c.fail(cmConnection, err)
	}
	defer c.Leave()
	o.StayRTR = false
	init, err := c.InitOptions()
	if err != nil {
		return o, err
	}
	o.Port, o.QKey = init.Port, init.QKey
	if c.request != nil {
		return c.accept(ctx, qp, o)
	}
	return c.connect(ctx, qp, o)
}

// connect is the dialling end.
func (c *connection) connect(ctx context.Context, qp verbs.QueuePair,
	o verbs.ConnectOptions,
) (verbs.ConnectOptions, error) {
	verb := fmt.Sprintf("connect to %v by RDMA CM", c.remote)
	p := parameters(qp, o)
	if rc := C.vb_cm_connect(c.cm, c.id, &p); rc != 0 {
		return o, c.fail(verb, errnoError(rc))
	}
	e, err := c.await(ctx, verb, C.VB_CM_CONNECT_RESPONSE, C.VB_CM_ESTABLISHED)
	if err != nil {
		return o, c.refused(verb, qp, err, "have the peer listen by RDMA CM, at that port and for that transport")
	}
	if qp.Transport() == verbs.UD {
		ud := C.vb_cm_ud(e)
		o.AddressVector, o.DestQPN, o.QKey = withClass(goAddressVector(&ud.ah_attr), o), uint32(ud.qp_num), uint32(ud.qkey)
		return o, verbs.ConnectQP(qp, o)
	}
	if o, err = c.prepare(qp, o, e); err == nil && e.event == C.VB_CM_CONNECT_RESPONSE {
		err = c.fail(verb, errnoError(C.vb_cm_establish(c.cm, c.id)))
	}
	return o, err
}

// refused adds what to do where an event said why there is no connection.
func (c *connection) refused(verb string, qp verbs.QueuePair, err error, fix string) error {
	if _, told := errors.AsType[*cmEventError](err); told {
		e := c.failure(verb, err, fix)
		e.QP = qp.QPN()
		return e
	}
	return err
}

// accept is the listening end: the queue pair must be ready before the peer hears of it.
func (c *connection) accept(ctx context.Context, qp verbs.QueuePair,
	o verbs.ConnectOptions,
) (verbs.ConnectOptions, error) {
	verb := fmt.Sprintf("accept %v by RDMA CM", c.remote)
	var err error
	if qp.Transport() == verbs.UD {
		err = verbs.ConnectQP(qp, o)
	} else {
		o, err = c.prepare(qp, o, c.request)
	}
	if err != nil {
		return o, err
	}
	p := parameters(qp, o)
	if rc := C.vb_cm_accept(c.cm, c.id, &p); rc != 0 {
		return o, c.fail(verb, errnoError(rc))
	}
	if qp.Transport() != verbs.UD { // there, nothing comes back
		_, err = c.await(ctx, verb, C.VB_CM_ESTABLISHED)
	}
	return o, c.refused(verb, qp, err, "the peer went away while connecting: see its output")
}

// parameters is what the peer's RDMA CM is told.
func parameters(qp verbs.QueuePair, o verbs.ConnectOptions) C.struct_vb_cm_conn_param {
	return C.struct_vb_cm_conn_param{
		responder_resources: C.uint8_t(o.MaxDestRDAtomic), initiator_depth: C.uint8_t(o.MaxRDAtomic),
		retry_count: C.uint8_t(o.RetryCount), rnr_retry_count: C.uint8_t(o.RNRRetry), qp_num: C.uint32_t(qp.QPN()),
	}
}

// prepare moves a connected queue pair to RTS with what RDMA CM found out and the peer agreed to in e.
func (c *connection) prepare(qp verbs.QueuePair, o verbs.ConnectOptions,
	e *C.struct_vb_cm_event,
) (verbs.ConnectOptions, error) {
	peer := C.vb_cm_conn(e)
	o.MaxRDAtomic = min(o.MaxRDAtomic, uint8(peer.initiator_depth))
	o.MaxDestRDAtomic = min(o.MaxDestRDAtomic, uint8(peer.responder_resources))
	rtr, err := c.attributes(verbs.StateRTR)
	if err != nil {
		return o, err
	}
	if c.d.info.IWARP() {
		return o, c.prepareIWARP(qp, rtr)
	}
	rts, err := c.attributes(verbs.StateRTS)
	if err != nil {
		return o, err
	}
	o.AddressVector, o.PathMTU = withClass(rtr.AddressVector, o), rtr.PathMTU
	o.DestQPN, o.RecvPSN, o.SendPSN = rtr.DestQPN, rtr.RecvPSN, rts.SendPSN
	o.Timeout = cmp.Or(o.Timeout, rts.Timeout)
	return o, verbs.ConnectQP(qp, o)
}

// prepareIWARP leaves the way to RTS to the kernel: its iWARP CM goes it when the connection is made. The listening end
// says that it is ready; there are no addresses, numbers or timers to set.
func (c *connection) prepareIWARP(qp verbs.QueuePair, rtr verbs.QueuePairAttributes) error {
	q, err := handle.Own[*queuePair](c.d, "queue pair", qp)
	if err != nil {
		return c.fail(cmConnection, err)
	}
	if c.request != nil {
		rtr.State, rtr.Mask = verbs.StateRTR, verbs.AttrState|verbs.AttrAccess
		if err := q.set(&rtr); err != nil {
			return q.fail("modify queue pair to RTR", err)
		}
	}
	q.qp.state = C.int32_t(verbs.StateRTS) // what the library was not told
	return nil
}

// withClass lets this end's own service level and traffic class go before the path's.
func withClass(av verbs.AddressVector, o verbs.ConnectOptions) verbs.AddressVector {
	av.SL, av.TrafficClass = cmp.Or(o.AddressVector.SL, av.SL), cmp.Or(o.AddressVector.TrafficClass, av.TrafficClass)
	return av
}

// Disconnect tells the peer that the connection is over.
func (c *connection) Disconnect() error {
	return c.inside("disconnect by RDMA CM", func() error {
		err := errnoError(C.vb_cm_disconnect(c.cm, c.id))
		if errors.Is(err, syscall.EINVAL) { // it is over already
			return nil
		}
		return err
	})
}

// Gone is closed when the peer has disconnected.
func (c *connection) Gone() <-chan struct{} { return c.gone }
