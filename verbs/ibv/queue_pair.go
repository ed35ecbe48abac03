//go:build linux && cgo

package ibv

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/internal/handle"
)

// queuePair's posting belongs to one goroutine at a time.
type queuePair struct {
	handle.Handle
	p         *protectionDomain
	qp        *C.struct_vb_qp
	qpn       uint32
	transport verbs.Transport
	caps      verbs.QueuePairCapabilities
	sendCQ    *completionQueue
	recvCQ    *completionQueue
	srq       *sharedReceiveQueue
	post      *C.vb_post_send_fn // of lists of any kind
	sendable  verbs.Opcodes      // where ibv_wr_* is used: what the queue pair was made for
	sends     sendList
	receives  receiveList
	groups    map[attachment]io.Closer // attached to: what the host joined for them
}

// CreateQP makes a queue pair in state RESET.
func (p *protectionDomain) CreateQP(o verbs.QueuePairOptions) (verbs.QueuePair, error) {
	return p.createQP(o, (*queuePair).create)
}

func (p *protectionDomain) createQP(o verbs.QueuePairOptions, create func(*queuePair, *C.struct_vb_qp_init_attr, verbs.QueuePairOptions) error) (verbs.QueuePair, error) {
	if o.Transport == 0 {
		o.Transport = verbs.RC
	}
	verb := fmt.Sprintf("create %v queue pair", o.Transport)
	sendCQ, ok := o.SendCQ.(*completionQueue)
	if !ok || sendCQ.d != p.d {
		return nil, p.d.fail(verb, errors.New("a send completion queue of the same device is required"))
	}
	recvCQ := sendCQ
	if o.RecvCQ != nil {
		if recvCQ, ok = o.RecvCQ.(*completionQueue); !ok || recvCQ.d != p.d {
			return nil, p.d.fail(verb, errors.New("the receive completion queue is another device's"))
		}
	}
	parents := []*handle.Handle{&p.Handle, &sendCQ.Handle, &recvCQ.Handle}
	a := C.struct_vb_qp_init_attr{send_cq: sendCQ.cq, recv_cq: recvCQ.cq, qp_type: C.int32_t(o.Transport)}
	q := &queuePair{p: p, transport: o.Transport, sendCQ: sendCQ, recvCQ: recvCQ}
	if o.SRQ != nil {
		if q.srq, ok = o.SRQ.(*sharedReceiveQueue); !ok || q.srq.p.d != p.d {
			return nil, p.d.fail(verb, errors.New("the shared receive queue is another device's"))
		}
		a.srq = q.srq.srq
		parents = append(parents, &q.srq.Handle)
	}
	if o.SignalAll {
		a.sq_sig_all = 1
	}
	defaultTo := func(v, byDefault int) C.uint32_t {
		if v == 0 {
			v = byDefault
		}
		return C.uint32_t(v)
	}
	a.cap.max_send_wr, a.cap.max_send_sge = defaultTo(o.SendDepth, defaultDepth), defaultTo(o.SendSGEs, 1)
	if q.srq == nil && !o.NoRecvQueue {
		a.cap.max_recv_wr, a.cap.max_recv_sge = defaultTo(o.RecvDepth, defaultDepth), defaultTo(o.RecvSGEs, 1)
	}
	a.cap.max_inline_data = C.uint32_t(o.InlineBytes)
	if err := q.Open("queue pair", func() error { return create(q, &a, o) }, parents...); err != nil {
		return nil, p.beyondLimits(p.d.fail(verb, err), o)
	}
	p.d.objects.Store(unsafe.Pointer(q.qp), q)
	q.qpn = uint32(q.qp.qp_num)
	q.caps = verbs.QueuePairCapabilities{
		SendDepth: int(a.cap.max_send_wr), RecvDepth: int(a.cap.max_recv_wr), SendSGEs: int(a.cap.max_send_sge),
		RecvSGEs: int(a.cap.max_recv_sge), InlineBytes: int(a.cap.max_inline_data), PostAPI: q.caps.PostAPI,
	}
	if q.caps.InlineBytes < o.InlineBytes {
		err := fmt.Errorf("the device grants %d bytes inline, %d were asked", q.caps.InlineBytes, o.InlineBytes)
		return nil, errors.Join(p.d.fail(verb, err), q.Close())
	}
	return q, nil
}

// beyondLimits adds to a refusal what was asked beyond the device's limits.
func (p *protectionDomain) beyondLimits(err error, o verbs.QueuePairOptions) error {
	e, ok := errors.AsType[*verbs.Error](err)
	if !ok {
		return err
	}
	lim := p.d.info.Limits
	for _, c := range []struct {
		what      string
		asked, is int
	}{
		{"send depth", o.SendDepth, lim.MaxQPWR},
		{"receive depth", o.RecvDepth, lim.MaxQPWR},
		{"send scatter/gather entries", o.SendSGEs, lim.MaxSGE},
		{"receive scatter/gather entries", o.RecvSGEs, lim.MaxSGE},
		{"inline bytes", o.InlineBytes, max(lim.MaxInline, 0)},
	} {
		if c.asked > c.is {
			e.Err = fmt.Errorf("%w; %s %d exceeds the device's %d", e.Err, c.what, c.asked, c.is)
		}
	}
	return e
}

func (q *queuePair) QPN() uint32                               { return q.qpn }
func (q *queuePair) Transport() verbs.Transport                { return q.transport }
func (q *queuePair) Capabilities() verbs.QueuePairCapabilities { return q.caps }
func (q *queuePair) Device() verbs.Device                      { return q.p.d }

func (q *queuePair) fail(verb string, err error) error {
	return explain(failure{verb: verb, device: q.p.d.info.Name, qp: q.qpn, err: err})
}

// State asks the device; where it does not answer, the state is the one last set. A closed queue pair is in ERR.
func (q *queuePair) State() verbs.QPState {
	if q.Enter() != nil {
		return verbs.StateError
	}
	defer q.Leave()
	return q.known()
}

func (q *queuePair) known() verbs.QPState {
	var a C.struct_vb_qp_attr
	var i C.struct_vb_qp_init_attr
	known := q.qp.state
	// Software iWARP answers, and leaves the state out: 0, which libibverbs keeps. No queue pair goes back to RESET by itself.
	if C.vb_query_qp(q.p.d.v, q.qp, &a, C.int(verbs.AttrState), &i) != 0 || verbs.QPState(a.qp_state) == verbs.StateReset {
		q.qp.state = known
		return verbs.QPState(known)
	}
	return verbs.QPState(a.qp_state)
}

// Modify moves the queue pair. Moves that the state machine does not have are refused before libibverbs sees them, with
// the attributes that are missing or too many: it would only say EINVAL.
func (q *queuePair) Modify(a verbs.QueuePairAttributes) error {
	if err := q.Enter(); err != nil {
		return q.fail("modify queue pair", err)
	}
	defer q.Leave()
	from := q.known()
	if a.Mask&verbs.AttrCurrentState != 0 {
		from = a.CurrentState
	}
	to := from
	if a.Mask&verbs.AttrState != 0 {
		to = a.State
	}
	verb := fmt.Sprintf("modify queue pair to %v", to)
	if err := verbs.CheckTransition(q.transport, from, to, a.Mask); err != nil {
		return q.fail(verb, err)
	}
	if err := q.checkValues(a); err != nil {
		return q.fail(verb, err)
	}
	av, err := cAddressVector(a.AddressVector)
	if err != nil && a.Mask&verbs.AttrAddressVector != 0 {
		return q.fail(verb, err)
	}
	c := C.struct_vb_qp_attr{
		qp_state: C.int32_t(to), cur_qp_state: C.int32_t(a.CurrentState), path_mtu: C.int32_t(a.PathMTU), qkey: C.uint32_t(a.QKey),
		rq_psn: C.uint32_t(a.RecvPSN), sq_psn: C.uint32_t(a.SendPSN), dest_qp_num: C.uint32_t(a.DestQPN), qp_access_flags: C.uint32_t(a.Access),
		ah_attr: av, pkey_index: C.uint16_t(a.PKeyIndex), max_rd_atomic: C.uint8_t(a.MaxRDAtomic), max_dest_rd_atomic: C.uint8_t(a.MaxDestRDAtomic),
		min_rnr_timer: C.uint8_t(a.MinRNRTimer), port_num: C.uint8_t(a.Port), timeout: C.uint8_t(a.Timeout), retry_cnt: C.uint8_t(a.RetryCount),
		rnr_retry: C.uint8_t(a.RNRRetry),
	}
	if a.SQDAsyncNotify {
		c.en_sqd_async_notify = 1
	}
	rc := C.vb_modify_qp(q.p.d.v, q.qp, &c, C.int(a.Mask))
	if rc == 0 {
		return nil
	}
	f := failure{verb: verb, device: q.p.d.info.Name, qp: q.qpn, err: syscall.Errno(rc)}
	switch {
	case a.Mask&verbs.AttrAddressVector != 0 && syscall.Errno(rc) == syscall.ETIMEDOUT:
		f.hint = fmt.Sprintf("no neighbour answered for %v: ping it from this port's address", a.AddressVector.DGID)
	case a.Mask&verbs.AttrAddressVector != 0 && !a.AddressVector.UseGID && q.linkLayer(a.AddressVector.Port) == verbs.LinkEthernet:
		f.hint = "RoCE needs a GID in the address vector (UseGID)"
	}
	return explain(f)
}

// checkValues refuses attributes that are out of range, by name: libibverbs says EINVAL, or takes them.
func (q *queuePair) checkValues(a verbs.QueuePairAttributes) error {
	lim := q.p.d.info.Limits
	var errs []error
	for _, c := range []struct {
		attr          verbs.AttributeMask
		what          string
		value, lo, hi int
	}{
		{verbs.AttrPort, "port", a.Port, 1, q.p.d.info.Ports},
		{verbs.AttrPathMTU, "path MTU code", int(a.PathMTU), int(verbs.MTU256), int(verbs.MTU4096)},
		{verbs.AttrTimeout, "timeout code", int(a.Timeout), 0, 31},
		{verbs.AttrRetryCount, "retry count", int(a.RetryCount), 0, 7},
		{verbs.AttrRNRRetry, "RNR retry count", int(a.RNRRetry), 0, 7},
		{verbs.AttrMinRNRTimer, "RNR timer code", int(a.MinRNRTimer), 0, 31},
		{verbs.AttrMaxRDAtomic, "outstanding READs and atomics", int(a.MaxRDAtomic), 0, lim.MaxInitRDAtomic},
		{verbs.AttrMaxDestRDAtomic, "READs and atomics served at once", int(a.MaxDestRDAtomic), 0, lim.MaxRDAtomic},
		{verbs.AttrDestQPN, "destination QP number", int(a.DestQPN), 0, 1<<24 - 1},
	} {
		if a.Mask&c.attr != 0 && (c.value < c.lo || c.value > c.hi) {
			errs = append(errs, fmt.Errorf("%s %d: want %d to %d", c.what, c.value, c.lo, c.hi))
		}
	}
	return errors.Join(errs...)
}

func (q *queuePair) linkLayer(port int) verbs.LinkLayer {
	p, err := q.p.d.Port(max(port, 1))
	if err != nil {
		return verbs.LinkUnspecified
	}
	return p.LinkLayer
}

// queried are the attributes that Query asks for.
const queried = verbs.AttrState | verbs.AttrCurrentState | verbs.AttrAccess | verbs.AttrPKeyIndex | verbs.AttrPort | verbs.AttrQKey |
	verbs.AttrAddressVector | verbs.AttrPathMTU | verbs.AttrTimeout | verbs.AttrRetryCount | verbs.AttrRNRRetry | verbs.AttrRecvPSN |
	verbs.AttrMaxRDAtomic | verbs.AttrMinRNRTimer | verbs.AttrSendPSN | verbs.AttrMaxDestRDAtomic | verbs.AttrCapabilities | verbs.AttrDestQPN

// Query returns the attributes in force.
func (q *queuePair) Query() (verbs.QueuePairAttributes, error) {
	if err := q.Enter(); err != nil {
		return verbs.QueuePairAttributes{}, q.fail("query queue pair", err)
	}
	defer q.Leave()
	var a C.struct_vb_qp_attr
	var i C.struct_vb_qp_init_attr
	if rc := C.vb_query_qp(q.p.d.v, q.qp, &a, C.int(queried), &i); rc != 0 {
		return verbs.QueuePairAttributes{}, q.fail("query queue pair", syscall.Errno(rc))
	}
	return verbs.QueuePairAttributes{
		Mask: queried, State: verbs.QPState(a.qp_state), CurrentState: verbs.QPState(a.cur_qp_state), Access: verbs.Access(a.qp_access_flags),
		PKeyIndex: int(a.pkey_index), Port: int(a.port_num), QKey: uint32(a.qkey), AddressVector: goAddressVector(&a.ah_attr),
		PathMTU: verbs.MTU(a.path_mtu), Timeout: uint8(a.timeout), RetryCount: uint8(a.retry_cnt), RNRRetry: uint8(a.rnr_retry),
		RecvPSN: uint32(a.rq_psn), SendPSN: uint32(a.sq_psn), MaxRDAtomic: uint8(a.max_rd_atomic), MaxDestRDAtomic: uint8(a.max_dest_rd_atomic),
		MinRNRTimer: uint8(a.min_rnr_timer), DestQPN: uint32(a.dest_qp_num), SQDAsyncNotify: a.en_sqd_async_notify != 0,
	}, nil
}

// inlineOpcodes are those whose data can be copied while posting, as bits.
const inlineOpcodes = 1<<verbs.OpWrite | 1<<verbs.OpWriteWithImmediate | 1<<verbs.OpSend | 1<<verbs.OpSendWithImmediate | 1<<verbs.OpSendWithInvalidate

// checkSend refuses what libibverbs would answer with EINVAL or a failed completion, and says why.
func (q *queuePair) checkSend(r *verbs.SendRequest) error {
	if !q.transport.Supports(r.Opcode) {
		return fmt.Errorf("%v over %v: %w (IBTA table 38)", r.Opcode, q.transport, verbs.ErrUnsupported)
	}
	if q.caps.PostAPI == verbs.PostWR && !q.sendable.Has(r.Opcode) {
		return fmt.Errorf("%v: the queue pair was not made for it (QueuePairOptions.Sends), or the device has it only by ibv_post_send", r.Opcode)
	}
	limit := q.caps.SendSGEs
	if read := q.p.d.info.Limits.MaxSGERead; r.Opcode == verbs.OpRead && read > 0 {
		limit = min(limit, read)
	}
	if err := limitSGEs(len(r.SGEs), limit); err != nil {
		return err
	}
	if r.Flags&verbs.Inline != 0 && inlineOpcodes&(1<<r.Opcode) == 0 {
		return fmt.Errorf("%v inline: only SEND and WRITE carry data from this end", r.Opcode)
	}
	if most := q.p.d.info.Limits.MaxMessageBytes; most > 0 && r.Length() > most {
		return fmt.Errorf("a message of %d bytes: the port takes at most %d", r.Length(), most)
	}
	if r.Flags&verbs.Inline != 0 && r.Length() > uint64(q.caps.InlineBytes) {
		return fmt.Errorf("%d bytes inline: the queue pair was made for %d", r.Length(), q.caps.InlineBytes)
	}
	if q.transport == verbs.UD && r.AH == nil {
		return errors.New("a UD send without an address handle")
	}
	return q.ownHandles(r)
}

// enterPost lets a post in, and refuses it in states where the answer would be EINVAL or silence (IBTA 10.3.1).
func (q *queuePair) enterPost(min verbs.QPState) error {
	if err := q.Enter(); err != nil {
		return err
	}
	if s := verbs.QPState(q.qp.state); s < min {
		q.Leave()
		return fmt.Errorf("the queue pair is in %v: it takes this from %v on", s, min)
	}
	return nil
}

// PostSend queues requests in order, as one list.
func (q *queuePair) PostSend(r []verbs.SendRequest) error {
	const verb = "post send"
	if err := q.enterPost(verbs.StateRTS); err != nil {
		return q.fail(verb, &verbs.PostError{Err: err})
	}
	defer q.Leave()
	checked := r
	var refused error
	for i := range r {
		err := q.checkSend(&r[i])
		if err == nil {
			err = q.enterHandles(&r[i])
		}
		if err != nil {
			checked, refused = r[:i], q.fail(verb, &verbs.PostError{Index: i, Err: err})
			break
		}
	}
	defer q.leaveHandles(checked)
	if len(checked) == 0 {
		return refused
	}
	head := q.sends.fill(checked, q.transport)
	var bad *C.struct_vb_send_wr
	if rc := C.vb_post_send(q.post, q.qp, head, &bad); rc != 0 {
		checked = checked[:posted(bad, head, len(checked))]
		refused = q.fail(verb, &verbs.PostError{Index: len(checked), Err: postErrno(int(rc))})
	}
	for i := range checked { // the window's key is what the next bind has to name
		if b := checked[i].Bind; checked[i].Opcode == verbs.OpBindMW {
			w := b.Window.(*memoryWindow)
			w.mw.rkey = C.uint32_t(b.RKey)
			w.rkey.Store(b.RKey)
		}
	}
	return refused
}

// PostReceive queues receives in order.
func (q *queuePair) PostReceive(r []verbs.ReceiveRequest) error {
	const verb = "post receive"
	if err := q.enterPost(verbs.StateInit); err != nil {
		return q.fail(verb, &verbs.PostError{Err: err})
	}
	defer q.Leave()
	if q.srq != nil {
		return q.fail(verb, &verbs.PostError{Err: errors.New("the queue pair takes its receives from a shared receive queue")})
	}
	err := q.receives.post(r, q.caps.RecvSGEs, func(head *C.struct_vb_recv_wr, bad **C.struct_vb_recv_wr) C.int {
		return C.vb_post_recv(q.qp, head, bad)
	})
	if err != nil {
		return q.fail(verb, err)
	}
	return nil
}

// postErrno says what a post's errno means: ENOMEM is a full queue.
func postErrno(rc int) error {
	if errno := syscall.Errno(rc); errno != syscall.ENOMEM {
		return errno
	}
	return verbs.ErrQueueFull
}

// Close destroys the queue pair.
func (q *queuePair) Close() error {
	err := q.Handle.Close(nil, func() error {
		if rc := C.vb_destroy_qp(q.p.d.v, q.qp); rc != 0 {
			return syscall.Errno(rc)
		}
		q.p.d.objects.CompareAndDelete(unsafe.Pointer(q.qp), q)
		q.sends.ring.free()
		q.receives.free()
		return nil
	})
	if err != nil {
		return q.fail("destroy queue pair", err)
	}
	return nil
}

// sharedReceiveQueue may serve several queue pairs; posting belongs to one goroutine at a time.
type sharedReceiveQueue struct {
	handle.Handle
	p        *protectionDomain
	srq      *C.struct_vb_srq
	sges     int
	depth    int
	receives receiveList
}

// CreateSRQ makes a shared receive queue.
func (p *protectionDomain) CreateSRQ(o verbs.SharedReceiveQueueOptions) (verbs.SharedReceiveQueue, error) {
	var a C.struct_vb_srq_init_attr
	a.attr.max_wr, a.attr.max_sge = defaultDepth, 1
	if o.Depth > 0 {
		a.attr.max_wr = C.uint32_t(o.Depth)
	}
	if o.SGEs > 0 {
		a.attr.max_sge = C.uint32_t(o.SGEs)
	}
	s := &sharedReceiveQueue{p: p}
	err := s.Open("shared receive queue", func() (err error) {
		s.srq, err = C.vb_create_srq(p.d.v, p.pd, &a)
		return refusal(s.srq, err)
	}, &p.Handle)
	if err != nil {
		return nil, p.d.fail("create shared receive queue", err)
	}
	p.d.objects.Store(unsafe.Pointer(s.srq), s)
	s.sges, s.depth = int(a.attr.max_sge), int(a.attr.max_wr)
	return s, nil
}

// PostReceive queues receives in order.
func (s *sharedReceiveQueue) PostReceive(r []verbs.ReceiveRequest) error {
	const verb = "post receive to shared receive queue"
	if err := s.Enter(); err != nil {
		return s.p.d.fail(verb, &verbs.PostError{Err: err})
	}
	defer s.Leave()
	err := s.receives.post(r, s.sges, func(head *C.struct_vb_recv_wr, bad **C.struct_vb_recv_wr) C.int {
		return C.vb_post_srq_recv(s.srq, head, bad)
	})
	if err != nil {
		return s.p.d.fail(verb, err)
	}
	return nil
}

// srqLimit is IBV_SRQ_LIMIT of ibv_srq_attr_mask.
const srqLimit = 1 << 1

// SetLimit arms one SRQ_LIMIT_REACHED event.
func (s *sharedReceiveQueue) SetLimit(limit int) error {
	verb := fmt.Sprintf("set the shared receive queue's limit to %d of %d", limit, s.depth)
	if err := s.Enter(); err != nil {
		return s.p.d.fail(verb, err)
	}
	defer s.Leave()
	a := C.struct_vb_srq_attr{srq_limit: C.uint32_t(limit)}
	if rc := C.vb_modify_srq(s.p.d.v, s.srq, &a, srqLimit); rc != 0 {
		return s.p.d.fail(verb, syscall.Errno(rc))
	}
	return nil
}

// Limit is the armed limit.
func (s *sharedReceiveQueue) Limit() (int, error) {
	if err := s.Enter(); err != nil {
		return 0, s.p.d.fail("query shared receive queue", err)
	}
	defer s.Leave()
	var a C.struct_vb_srq_attr
	if rc := C.vb_query_srq(s.p.d.v, s.srq, &a); rc != 0 {
		return 0, s.p.d.fail("query shared receive queue", syscall.Errno(rc))
	}
	return int(a.srq_limit), nil
}

// Close destroys the queue, unless queue pairs use it.
func (s *sharedReceiveQueue) Close() error {
	return s.p.d.close(&s.Handle, "destroy shared receive queue", func() error {
		if rc := C.vb_destroy_srq(s.p.d.v, s.srq); rc != 0 {
			return syscall.Errno(rc)
		}
		s.p.d.objects.CompareAndDelete(unsafe.Pointer(s.srq), s)
		s.receives.free()
		return nil
	})
}
