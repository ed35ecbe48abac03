//go:build linux && cgo

package ibv

// #include "shim.h"
import "C"

import (
	"cmp"
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
	object
	qp        *C.struct_vb_qp
	transport verbs.Transport
	caps      verbs.QueuePairCapabilities
	sendCQ    *completionQueue
	recvCQ    *completionQueue
	srq       *sharedReceiveQueue
	api       verbs.PostAPI
	post      *C.vb_post_send_fn // of lists of any kind
	sendable  verbs.Opcodes      // where ibv_wr_* is used: what the queue pair was made for
	sends     list[C.struct_vb_send_wr]
	receives  receiver
	entered   []*handle.Handle         // those that the requests of a post name
	groups    map[attachment]io.Closer // attached to: what the host joined for them
}

// CreateQP makes a queue pair in state RESET.
func (p *protectionDomain) CreateQP(o verbs.QueuePairOptions) (verbs.QueuePair, error) {
	return p.CreateQPPosting(o, verbs.Posting{})
}

// CreateQPPosting implements [verbs.PostingDomain].
func (p *protectionDomain) CreateQPPosting(o verbs.QueuePairOptions, by verbs.Posting) (verbs.QueuePair, error) {
	o.Transport = cmp.Or(o.Transport, verbs.RC)
	q, err := p.newQP(o, by)
	if err != nil {
		return nil, p.beyondLimits(p.fail(fmt.Sprintf("create %v queue pair", o.Transport), err), o)
	}
	return q, nil
}

func (p *protectionDomain) newQP(o verbs.QueuePairOptions, by verbs.Posting) (*queuePair, error) {
	needs := handle.Needs[*device]{Of: p.d, List: []*handle.Handle{&p.Handle}}
	q := &queuePair{object: object{d: p.d}, transport: o.Transport}
	q.sendCQ = handle.Need[*completionQueue](&needs, "send completion queue", o.SendCQ)
	if q.recvCQ = q.sendCQ; o.RecvCQ != nil {
		q.recvCQ = handle.Need[*completionQueue](&needs, "receive completion queue", o.RecvCQ)
	}
	if o.SRQ != nil {
		q.srq = handle.Need[*sharedReceiveQueue](&needs, "shared receive queue", o.SRQ)
	}
	if needs.Err != nil {
		return nil, needs.Err
	}
	a := C.struct_vb_qp_init_attr{
		send_cq: q.sendCQ.cq, recv_cq: q.recvCQ.cq, qp_type: C.int32_t(o.Transport), sq_sig_all: flag(o.SignalAll),
	}
	if q.srq != nil {
		a.srq = q.srq.srq
	}
	a.cap = C.struct_vb_qp_cap{
		max_send_wr: orDefault(o.SendDepth, defaultDepth), max_send_sge: orDefault(o.SendSGEs, 1),
		max_inline_data: C.uint32_t(o.InlineBytes),
	}
	if q.srq == nil && !o.NoRecvQueue {
		a.cap.max_recv_wr, a.cap.max_recv_sge = orDefault(o.RecvDepth, defaultDepth), orDefault(o.RecvSGEs, 1)
	}
	q.kind, q.destroy = "queue pair", func() C.int { return C.vb_destroy_qp(q.d.v, q.qp) }
	if err := q.Open(q.kind, func() error { return q.create(p.pd, &a, by) }, needs.List...); err != nil {
		return nil, err
	}
	q.announce(unsafe.Pointer(q.qp), q)
	if q.qpn = uint32(q.qp.qp_num); q.qpn > mostQPN {
		return nil, errors.Join(fmt.Errorf("%w: a queue pair with the number %#x", errLie, q.qpn), q.Close())
	}
	q.caps = verbs.QueuePairCapabilities{
		SendDepth: int(a.cap.max_send_wr), RecvDepth: int(a.cap.max_recv_wr), SendSGEs: int(a.cap.max_send_sge),
		RecvSGEs: int(a.cap.max_recv_sge), InlineBytes: int(a.cap.max_inline_data),
	}
	q.receives = receiver{sges: q.caps.RecvSGEs, by: unsafe.Pointer(p.d.context.ops.post_recv), from: unsafe.Pointer(q.qp)}
	if q.caps.InlineBytes < o.InlineBytes {
		return nil,
			errors.Join(fmt.Errorf("the device grants %d bytes inline, %d were asked", q.caps.InlineBytes, o.InlineBytes),
				q.Close())
	}
	return q, nil
}

// mostQPN is the largest number of a queue pair. EFA begins with 0.
const mostQPN = 1<<24 - 1

func orDefault(v, byDefault int) C.uint32_t { return C.uint32_t(cmp.Or(v, byDefault)) }

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
	} {
		if c.asked > c.is {
			e.Err = fmt.Errorf("%w; %s %d exceeds the device's %d", e.Err, c.what, c.asked, c.is)
		}
	}
	if o.InlineBytes > 0 { // no device tells how many it takes
		e.Err = fmt.Errorf("%w; with %d bytes inline", e.Err, o.InlineBytes)
	}
	return e
}

func (q *queuePair) PostAPI() verbs.PostAPI                    { return q.api }
func (q *queuePair) QPN() uint32                               { return q.qpn }
func (q *queuePair) Transport() verbs.Transport                { return q.transport }
func (q *queuePair) Capabilities() verbs.QueuePairCapabilities { return q.caps }
func (q *queuePair) Device() verbs.Device                      { return q.d }

// State asks the device; where it does not answer, the state is the one last set. A closed queue pair is in ERR.
func (q *queuePair) State() verbs.QPState {
	if q.Enter() != nil {
		return verbs.StateError
	}
	defer q.Leave()
	return q.known()
}

func (q *queuePair) known() verbs.QPState {
	known := q.qp.state
	// Software iWARP answers, and leaves the state out: 0, which libibverbs keeps. No
	// queue pair goes back to RESET by itself.
	a, err := q.ask(verbs.AttrState)
	if err != nil || a.State == verbs.StateReset {
		q.qp.state = known
		return verbs.QPState(known)
	}
	return a.State
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
	if a.Mask&verbs.AttrState == 0 {
		a.State = from
	}
	verb := fmt.Sprintf("modify queue pair to %v", a.State)
	if err := cmp.Or(verbs.CheckTransition(q.transport, from, a.State, a.Mask),
		verbs.CheckValues(&a, &q.d.info)); err != nil {
		return q.fail(verb, err)
	}
	err := q.set(&a)
	if err == nil {
		return nil
	}
	f := q.failure(verb, err, "")
	switch {
	case a.Mask&verbs.AttrAddressVector != 0 && errors.Is(err, syscall.ETIMEDOUT):
		f.Fix = fmt.Sprintf("no neighbour answered for %v: ping it from this port's address", a.AddressVector.DGID)
	case a.Mask&verbs.AttrAddressVector != 0 && !a.AddressVector.UseGID &&
		q.linkLayer(a.AddressVector.Port) == verbs.LinkEthernet:
		f.Fix = "RoCE needs a GID in the address vector (UseGID)"
	}
	return explain(f, 0)
}

func (q *queuePair) linkLayer(port int) verbs.LinkLayer {
	p, err := q.d.Port(max(port, 1))
	if err != nil {
		return verbs.LinkUnspecified
	}
	return p.LinkLayer
}

// queried are the attributes that Query asks for.
const queried = verbs.AttrState | verbs.AttrCurrentState | verbs.AttrAccess | verbs.AttrPKeyIndex | verbs.AttrPort |
	verbs.AttrQKey |
	verbs.AttrAddressVector | verbs.AttrPathMTU | verbs.AttrTimeout | verbs.AttrRetryCount | verbs.AttrRNRRetry |
	verbs.AttrRecvPSN |
	verbs.AttrMaxRDAtomic | verbs.AttrMinRNRTimer | verbs.AttrSendPSN | verbs.AttrMaxDestRDAtomic |
	verbs.AttrCapabilities | verbs.AttrDestQPN

// Query returns the attributes in force.
func (q *queuePair) Query() (a verbs.QueuePairAttributes, err error) {
	err = q.inside("query queue pair", func() error {
		a, err = q.ask(queried)
		return err
	})
	return a, err
}

// ask asks libibverbs for attributes.
func (q *queuePair) ask(mask verbs.AttributeMask) (verbs.QueuePairAttributes, error) {
	var a C.struct_vb_qp_attr
	var i C.struct_vb_qp_init_attr
	err := errnoError(C.vb_query_qp(q.d.v, q.qp, &a, C.int(mask), &i))
	return goAttributes(&a), err
}

// set has libibverbs set the attributes in the mask.
func (q *queuePair) set(a *verbs.QueuePairAttributes) (err error) {
	c := C.struct_vb_qp_attr{en_sqd_async_notify: C.uint8_t(flag(a.SQDAsyncNotify))}
	if a.Mask&verbs.AttrAddressVector != 0 {
		if c.ah_attr, err = cAddressVector(a.AddressVector); err != nil {
			return err
		}
	}
	attributeFields(true, &c, a)
	return errnoError(C.vb_modify_qp(q.d.v, q.qp, &c, C.int(a.Mask)))
}

func goAttributes(c *C.struct_vb_qp_attr) verbs.QueuePairAttributes {
	a := verbs.QueuePairAttributes{
		Mask: queried, AddressVector: goAddressVector(&c.ah_attr), SQDAsyncNotify: c.en_sqd_async_notify != 0,
	}
	attributeFields(false, c, &a)
	return a
}

// attributeFields copies the attributes that are numbers, to C or from there.
func attributeFields(toC bool, c *C.struct_vb_qp_attr, a *verbs.QueuePairAttributes) {
	field(toC, &c.qp_state, &a.State)
	field(toC, &c.cur_qp_state, &a.CurrentState)
	field(toC, &c.path_mtu, &a.PathMTU)
	field(toC, &c.qkey, &a.QKey)
	field(toC, &c.rq_psn, &a.RecvPSN)
	field(toC, &c.sq_psn, &a.SendPSN)
	field(toC, &c.dest_qp_num, &a.DestQPN)
	field(toC, &c.qp_access_flags, &a.Access)
	field(toC, &c.pkey_index, &a.PKeyIndex)
	field(toC, &c.max_rd_atomic, &a.MaxRDAtomic)
	field(toC, &c.max_dest_rd_atomic, &a.MaxDestRDAtomic)
	field(toC, &c.min_rnr_timer, &a.MinRNRTimer)
	field(toC, &c.port_num, &a.Port)
	field(toC, &c.timeout, &a.Timeout)
	field(toC, &c.retry_cnt, &a.RetryCount)
	field(toC, &c.rnr_retry, &a.RNRRetry)
}

// inlineOpcodes are those whose data can be copied while posting, as bits.
const inlineOpcodes = 1<<verbs.OpWrite | 1<<verbs.OpWriteWithImmediate | 1<<verbs.OpSend |
	1<<verbs.OpSendWithImmediate | 1<<verbs.OpSendWithInvalidate

// check refuses what libibverbs would answer with EINVAL or a failed completion, and says why. It
// adds the handles that the request names.
func (q *queuePair) check(r *verbs.SendRequest, to []*handle.Handle) ([]*handle.Handle, error) {
	if !q.transport.Supports(r.Opcode) {
		return nil, fmt.Errorf("%v over %v: %w (IBTA table 38)", r.Opcode, q.transport, verbs.ErrUnsupported)
	}
	if q.api == verbs.PostWR && !q.sendable.Has(r.Opcode) {
		return nil, fmt.Errorf("%v: the queue pair was not made for it (Posting.Sends), "+
			"or the device has it only by ibv_post_send", r.Opcode)
	}
	limit := q.caps.SendSGEs
	if read := q.d.info.Limits.MaxSGERead; r.Opcode == verbs.OpRead && read > 0 {
		limit = min(limit, read)
	}
	if err := limitSGEs(len(r.SGEs), limit); err != nil {
		return nil, err
	}
	if r.Flags&verbs.Inline != 0 && inlineOpcodes&(1<<r.Opcode) == 0 {
		return nil, fmt.Errorf("%v inline: only SEND and WRITE carry data from this end", r.Opcode)
	}
	if most := q.d.info.Limits.MaxMessageBytes; most > 0 && r.Length() > most {
		return nil, fmt.Errorf("a message of %d bytes: the port takes at most %d", r.Length(), most)
	}
	if r.Flags&verbs.Inline != 0 && r.Length() > uint64(q.caps.InlineBytes) {
		return nil, fmt.Errorf("%d bytes inline: the queue pair was made for %d", r.Length(), q.caps.InlineBytes)
	}
	return q.named(r, to)
}

// admit checks a request, and keeps the handles that it names until they are left.
func (q *queuePair) admit(r *verbs.SendRequest) error {
	named, err := q.check(r, q.entered)
	for i := len(q.entered); i < len(named) && err == nil; i++ {
		if err = named[i].Enter(); err != nil {
			return fmt.Errorf("a handle of the request: %w", err)
		}
		q.entered = named[:i+1]
	}
	return err
}

func (q *queuePair) leaveNamed() {
	for _, h := range q.entered {
		h.Leave()
	}
	q.entered = q.entered[:0]
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
	defer q.leaveNamed()
	checked := r
	var refused error
	for i := range r {
		if err := q.admit(&r[i]); err != nil {
			checked, refused = r[:i], q.fail(verb, &verbs.PostError{Index: i, Err: err})
			break
		}
	}
	if len(checked) == 0 {
		return refused
	}
	entries := 0
	for i := range checked {
		entries += len(checked[i].SGEs)
	}
	wr, sge := q.sends.room(&q.memory, len(checked), entries)
	for i := range checked {
		fillSend(&wr[i], &sge, &checked[i], q.transport)
		if i > 0 {
			wr[i-1].next = &wr[i]
		}
	}
	var bad *C.struct_vb_send_wr
	if rc := C.vb_post_send(q.post, q.qp, &wr[0], &bad); rc != 0 {
		checked = checked[:posted(bad, &wr[0], len(checked))]
		refused = q.fail(verb, &verbs.PostError{Index: len(checked), Err: postErrno(rc)})
	}
	for i := range checked { // the window's key is what the next bind has to name
		if b := checked[i].Bind; checked[i].Opcode == verbs.OpBindMW {
			w := b.Window.(*memoryWindow)
			w.mw.rkey = w.mw.rkey&^0xff | C.uint32_t(b.RKey&0xff)
			w.rkey.Store(uint32(w.mw.rkey))
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
		return q.fail(verb,
			&verbs.PostError{Err: errors.New("the queue pair takes its receives from a shared receive queue")})
	}
	return q.fail(verb, q.postReceives(&q.receives, r))
}

// postErrno says what a post's errno means: ENOMEM is a full queue.
func postErrno(rc C.int) error {
	if errno := syscall.Errno(rc); errno != syscall.ENOMEM {
		return errno
	}
	return verbs.ErrQueueFull
}

// sharedReceiveQueue may serve several queue pairs; posting belongs to one goroutine at a time.
type sharedReceiveQueue struct {
	object
	srq      *C.struct_vb_srq
	depth    int
	receives receiver
}

// CreateSRQ makes a shared receive queue.
func (p *protectionDomain) CreateSRQ(o verbs.SharedReceiveQueueOptions) (verbs.SharedReceiveQueue, error) {
	a := C.struct_vb_srq_init_attr{
		attr: C.struct_vb_srq_attr{max_wr: orDefault(o.Depth, defaultDepth), max_sge: orDefault(o.SGEs, 1)},
	}
	s := &sharedReceiveQueue{object: object{d: p.d}}
	err := s.open("create shared receive queue", "shared receive queue", func() (err error) {
		s.srq, err = C.vb_create_srq(p.d.v, p.pd, &a)
		return refusal(s.srq, err)
	}, func() C.int { return C.vb_destroy_srq(s.d.v, s.srq) }, &p.Handle)
	if err != nil {
		return nil, err
	}
	s.announce(unsafe.Pointer(s.srq), s)
	s.depth = int(a.attr.max_wr)
	s.receives = receiver{
		sges: int(a.attr.max_sge), by: unsafe.Pointer(p.d.context.ops.post_srq_recv), from: unsafe.Pointer(s.srq),
	}
	return s, nil
}

// PostReceive queues receives in order.
func (s *sharedReceiveQueue) PostReceive(r []verbs.ReceiveRequest) error {
	const verb = "post receive to shared receive queue"
	if err := s.Enter(); err != nil {
		return s.fail(verb, &verbs.PostError{Err: err})
	}
	defer s.Leave()
	return s.fail(verb, s.postReceives(&s.receives, r))
}

// srqLimit is IBV_SRQ_LIMIT of ibv_srq_attr_mask.
const srqLimit = 1 << 1

// SetLimit arms one SRQ_LIMIT_REACHED event.
func (s *sharedReceiveQueue) SetLimit(limit int) error {
	return s.inside(fmt.Sprintf("set the shared receive queue's limit to %d of %d", limit, s.depth), func() error {
		a := C.struct_vb_srq_attr{srq_limit: C.uint32_t(limit)}
		return errnoError(C.vb_modify_srq(s.d.v, s.srq, &a, srqLimit))
	})
}
