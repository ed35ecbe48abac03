//go:build linux && cgo

package ibv

// #include "rdmacm.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"

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
	handle.Handle
	d       *device
	channel *cmChannel
	id      *C.struct_vb_cm_id
	request *C.struct_vb_cm_event // at the listening end
	events  chan *C.struct_vb_cm_event
	gone    chan struct{}
	local   netip.AddrPort
	remote  netip.AddrPort
	leave   sync.Once
}

// newCMConnection opens a channel, and has identify make the identifier on it.
func newCMConnection(d *device, request *C.struct_vb_cm_event, identify func(*cmChannel) (*C.struct_vb_cm_id, error)) (*connection, error) {
	c := &connection{d: d, request: request, events: make(chan *C.struct_vb_cm_event, 16), gone: make(chan struct{})}
	err := c.Open("connection by RDMA CM", func() (err error) {
		if c.channel, err = openCMChannel(d.cm); err != nil {
			return err
		}
		if c.id, err = identify(c.channel); err != nil {
			c.channel.stop()
			c.channel.destroy()
		}
		return err
	}, &d.Handle)
	if err != nil {
		return nil, err
	}
	c.local, c.remote = addrPort(&c.id.route.src), addrPort(&c.id.route.dst)
	c.channel.read(c.take)
	return c, nil
}

// DialCM resolves the address of a peer and the route there.
func (d *device) DialCM(ctx context.Context, to netip.AddrPort, o verbs.CMOptions) (_ verbs.CMConnection, err error) {
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	space, err := portSpace(o.Transport)
	if err != nil {
		return nil, d.fail(cmConnection, err)
	}
	c, err := newCMConnection(d, nil, func(channel *cmChannel) (id *C.struct_vb_cm_id, err error) {
		if rc := C.vb_cm_create_id(channel.cm, channel.ch, space, &id); rc != 0 {
			return nil, d.fail(cmConnection, syscall.Errno(rc))
		}
		return id, nil
	})
	if err != nil {
		return nil, err
	}
	channel, id := c.channel, c.id
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	from, dst := sockaddr(netip.AddrPortFrom(o.Source, 0)), sockaddr(to)
	err = c.resolve(ctx, fmt.Sprintf("resolve %v by RDMA CM", to.Addr()), C.VB_CM_ADDR_RESOLVED, func() C.int {
		return C.vb_cm_resolve_addr(channel.cm, id, &from, &dst, cmResolveMs)
	})
	if err != nil {
		return nil, err
	}
	c.local, c.remote = addrPort(&id.route.src), to
	if name := deviceOf(id); name != d.info.Name {
		return nil, &verbs.Error{
			Verb: fmt.Sprintf("resolve %v by RDMA CM", to.Addr()), Device: d.info.Name,
			Err: fmt.Errorf("the way there leads through %s", name), Fix: "use " + name + ", or an address of the peer that this device reaches",
		}
	}
	if o.TOS != nil {
		if rc := C.vb_cm_set_tos(channel.cm, id, C.uint8_t(*o.TOS)); rc != 0 {
			return nil, d.fail(fmt.Sprintf("set type of service %d by RDMA CM", *o.TOS), syscall.Errno(rc))
		}
	}
	err = c.resolve(ctx, fmt.Sprintf("find the route to %v by RDMA CM", to.Addr()), C.VB_CM_ROUTE_RESOLVED, func() C.int {
		return C.vb_cm_resolve_route(channel.cm, id, cmResolveMs)
	})
	return c, err
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
	f := failure{verb: verb, device: c.d.info.Name, err: err}
	if errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.EADDRNOTAVAIL) {
		f.err = fmt.Errorf("%w: no RDMA device leads there", err)
	}
	f.hint = "RDMA CM goes by IP address: the peer's must be one of its RDMA device's network interface, and 'ip route get' must name this device's ('rdma link' tells both)"
	return &verbs.Error{Verb: f.verb, Device: f.device, Err: f.err, Fix: f.hint}
}

// take passes an event on to whoever waits; the peer's end is seen at once.
func (c *connection) take(e *C.struct_vb_cm_event) {
	switch e.event {
	case C.VB_CM_DISCONNECTED, C.VB_CM_DEVICE_REMOVAL:
		c.leave.Do(func() { close(c.gone) })
	case C.VB_CM_ADDR_RESOLVED, C.VB_CM_ADDR_ERROR, C.VB_CM_ROUTE_RESOLVED, C.VB_CM_ROUTE_ERROR, C.VB_CM_CONNECT_RESPONSE,
		C.VB_CM_CONNECT_ERROR, C.VB_CM_UNREACHABLE, C.VB_CM_REJECTED, C.VB_CM_ESTABLISHED:
		select {
		case c.events <- e:
		case <-c.channel.quit:
		}
	default: // the address changed, a connection's time of waiting is over: nothing to do
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
		return nil, c.d.fail(verb, errors.New("the peer disconnected"))
	case <-c.channel.quit:
		return nil, c.d.fail(verb, verbs.ErrClosed)
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
	return e.event == C.VB_CM_REJECTED && e.status == rejectedNoListener || e.event == C.VB_CM_UNREACHABLE && e.status == noSuchService
}

func (e *cmEventError) Error() string {
	names := []string{
		"ADDR_RESOLVED", "ADDR_ERROR", "ROUTE_RESOLVED", "ROUTE_ERROR", "CONNECT_REQUEST", "CONNECT_RESPONSE", "CONNECT_ERROR",
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
func (c *connection) attributes(s verbs.QPState) (C.struct_vb_qp_attr, error) {
	var a C.struct_vb_qp_attr
	if rc := C.vb_cm_init_qp_attr(c.channel.cm, c.id, C.int(s), &a); rc != 0 {
		return a, c.d.fail(fmt.Sprintf("ask RDMA CM for the attributes of %v", s), syscall.Errno(rc))
	}
	return a, nil
}

// InitOptions is what the path prescribes to the state INIT.
func (c *connection) InitOptions() (verbs.ConnectOptions, error) {
	if err := c.Enter(); err != nil {
		return verbs.ConnectOptions{}, c.d.fail(cmConnection, err)
	}
	defer c.Leave()
	a, err := c.attributes(verbs.StateInit)
	return verbs.ConnectOptions{Port: int(a.port_num), PKeyIndex: int(a.pkey_index), QKey: uint32(a.qkey)}, err
}

// Join connects a queue pair in INIT and leaves it in RTS.
func (c *connection) Join(ctx context.Context, qp verbs.QueuePair, o verbs.ConnectOptions) (verbs.ConnectOptions, error) {
	if err := c.Enter(); err != nil {
		return o, c.d.fail(cmConnection, err)
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
func (c *connection) connect(ctx context.Context, qp verbs.QueuePair, o verbs.ConnectOptions) (verbs.ConnectOptions, error) {
	verb := fmt.Sprintf("connect to %v by RDMA CM", c.remote)
	p := parameters(qp, o)
	if rc := C.vb_cm_connect(c.channel.cm, c.id, &p); rc != 0 {
		return o, c.d.fail(verb, syscall.Errno(rc))
	}
	e, err := c.await(ctx, verb, C.VB_CM_CONNECT_RESPONSE, C.VB_CM_ESTABLISHED)
	if err != nil {
		if _, is := errors.AsType[*cmEventError](err); is {
			err = &verbs.Error{Verb: verb, Device: c.d.info.Name, QP: qp.QPN(), Err: err, Fix: "have the peer listen by RDMA CM, at that port and for that transport"}
		}
		return o, err
	}
	if qp.Transport() == verbs.UD {
		ud := C.vb_cm_ud(e)
		o.AddressVector, o.DestQPN, o.QKey = c.withClass(goAddressVector(&ud.ah_attr), o), uint32(ud.qp_num), uint32(ud.qkey)
		return o, verbs.ConnectQP(qp, o)
	}
	if o, err = c.prepare(qp, o, e); err != nil {
		return o, err
	}
	if e.event == C.VB_CM_CONNECT_RESPONSE {
		if rc := C.vb_cm_establish(c.channel.cm, c.id); rc != 0 {
			return o, c.d.fail(verb, syscall.Errno(rc))
		}
	}
	return o, nil
}

// accept is the listening end: the queue pair must be ready before the peer hears of it.
func (c *connection) accept(ctx context.Context, qp verbs.QueuePair, o verbs.ConnectOptions) (verbs.ConnectOptions, error) {
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
	if rc := C.vb_cm_accept(c.channel.cm, c.id, &p); rc != 0 {
		return o, c.d.fail(verb, syscall.Errno(rc))
	}
	if qp.Transport() == verbs.UD { // nothing comes back
		return o, nil
	}
	if _, err = c.await(ctx, verb, C.VB_CM_ESTABLISHED); err != nil {
		if _, is := errors.AsType[*cmEventError](err); is {
			err = &verbs.Error{Verb: verb, Device: c.d.info.Name, QP: qp.QPN(), Err: err, Fix: "the peer went away while connecting: see its output"}
		}
	}
	return o, err
}

// parameters is what the peer's RDMA CM is told.
func parameters(qp verbs.QueuePair, o verbs.ConnectOptions) C.struct_vb_cm_conn_param {
	return C.struct_vb_cm_conn_param{
		responder_resources: C.uint8_t(o.MaxDestRDAtomic), initiator_depth: C.uint8_t(o.MaxRDAtomic),
		retry_count: C.uint8_t(retries(o.RetryCount)), rnr_retry_count: C.uint8_t(retries(o.RNRRetry)), qp_num: C.uint32_t(qp.QPN()),
	}
}

// retries is perftest's count where none was asked for.
func retries(n uint8) uint8 {
	switch n {
	case 0:
		return 7
	case verbs.Zero:
		return 0
	}
	return n
}

// prepare moves a connected queue pair to RTS with what RDMA CM found out and the peer agreed to in e.
func (c *connection) prepare(qp verbs.QueuePair, o verbs.ConnectOptions, e *C.struct_vb_cm_event) (verbs.ConnectOptions, error) {
	rtr, err := c.attributes(verbs.StateRTR)
	if err != nil {
		return o, err
	}
	if c.d.isIWARP() {
		return c.prepareIWARP(qp, o, e, &rtr)
	}
	rts, err := c.attributes(verbs.StateRTS)
	if err != nil {
		return o, err
	}
	peer := C.vb_cm_conn(e)
	o.MaxRDAtomic = min(o.MaxRDAtomic, uint8(peer.initiator_depth))
	o.MaxDestRDAtomic = min(o.MaxDestRDAtomic, uint8(peer.responder_resources))
	o.AddressVector, o.PathMTU = c.withClass(goAddressVector(&rtr.ah_attr), o), verbs.MTU(rtr.path_mtu)
	o.DestQPN, o.RecvPSN, o.SendPSN = uint32(rtr.dest_qp_num), uint32(rtr.rq_psn), uint32(rts.sq_psn)
	if o.MinRNRTimer == 0 {
		o.MinRNRTimer = uint8(rtr.min_rnr_timer)
	}
	if o.Timeout == 0 {
		o.Timeout = uint8(rts.timeout)
	}
	if o.RetryCount == 0 {
		o.RetryCount = uint8(rts.retry_cnt)
	}
	if o.RNRRetry == 0 {
		o.RNRRetry = uint8(rts.rnr_retry)
	}
	exact := o // a 0 of the path's, or that both ends agreed to, is meant
	for _, v := range []*uint8{&exact.MaxRDAtomic, &exact.MaxDestRDAtomic, &exact.MinRNRTimer, &exact.Timeout, &exact.RetryCount, &exact.RNRRetry} {
		*v = verbs.Exactly(*v)
	}
	return o, verbs.ConnectQP(qp, exact)
}

// prepareIWARP leaves the way to RTS to the kernel: its iWARP CM goes it when the connection is made. The listening end says
// that it is ready; there are no addresses, numbers or timers to set.
func (c *connection) prepareIWARP(qp verbs.QueuePair, o verbs.ConnectOptions, e *C.struct_vb_cm_event, rtr *C.struct_vb_qp_attr) (verbs.ConnectOptions, error) {
	q, ok := qp.(*queuePair)
	if !ok || q.p.d != c.d {
		return o, c.d.fail("connect by RDMA CM", errors.New("the queue pair is another device's"))
	}
	if c.request != nil {
		rtr.qp_state = C.int32_t(verbs.StateRTR)
		if rc := C.vb_modify_qp(c.d.v, q.qp, rtr, C.int(verbs.AttrState|verbs.AttrAccess)); rc != 0 {
			return o, q.fail("modify queue pair to RTR", syscall.Errno(rc))
		}
	}
	peer := C.vb_cm_conn(e)
	o.MaxRDAtomic = min(o.MaxRDAtomic, uint8(peer.initiator_depth))
	o.MaxDestRDAtomic = min(o.MaxDestRDAtomic, uint8(peer.responder_resources))
	q.qp.state = C.int32_t(verbs.StateRTS) // what the library was not told
	return o, nil
}

// withClass lets this end's own service level and traffic class go before the path's.
func (*connection) withClass(av verbs.AddressVector, o verbs.ConnectOptions) verbs.AddressVector {
	if o.AddressVector.SL != 0 {
		av.SL = o.AddressVector.SL
	}
	if o.AddressVector.TrafficClass != 0 {
		av.TrafficClass = o.AddressVector.TrafficClass
	}
	return av
}

// Disconnect tells the peer that the connection is over.
func (c *connection) Disconnect() error {
	if err := c.Enter(); err != nil {
		return c.d.fail("disconnect by RDMA CM", err)
	}
	defer c.Leave()
	if rc := C.vb_cm_disconnect(c.channel.cm, c.id); rc != 0 && syscall.Errno(rc) != syscall.EINVAL { // EINVAL: it is over already
		return c.d.fail("disconnect by RDMA CM", syscall.Errno(rc))
	}
	return nil
}

// Gone is closed when the peer has disconnected.
func (c *connection) Gone() <-chan struct{} { return c.gone }

// Close ends the connection; the peer is told.
func (c *connection) Close() error {
	return closeCM(&c.Handle, c.d, c.channel, c.id, "close a connection by RDMA CM", func() {})
}
