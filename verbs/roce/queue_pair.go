package roce

import (
	"errors"
	"fmt"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/internal/handle"
	"github.com/gobw/gobw/verbs/roce/rc"
	"github.com/gobw/gobw/verbs/roce/wire"
)

// queuePair is a verbs.QueuePair. Everything in it belongs to the engine's lock.
type queuePair struct {
	object
	pd        *protectionDomain
	transport verbs.Transport
	wire      wire.Transport
	state     verbs.QPState
	attr      verbs.QueuePairAttributes
	caps      verbs.QueuePairCapabilities
	signalAll bool

	sendCQ, recvCQ *completionQueue
	srq            *sharedReceiveQueue

	path *path // RC, UC
	// peerWindow is what the peer may have in flight to it; 0: it is no device like this one.
	peerWindow int
	mtu        uint32

	sends    sendMemory
	receives receiveQueue
	request  rc.Requester
	respond  rc.Responder
	current  incoming
	timed    bool // in engine.timed
	// established: in RTR it has received, and said so.
	established bool
	inAcks      bool // in engine.acks

	queued [2]bool
	next   [2]*queuePair
}

// CreateQP makes a queue pair.
func (pd *protectionDomain) CreateQP(o verbs.QueuePairOptions) (verbs.QueuePair, error) {
	e := pd.e
	const verb = "create queue pair"
	if o.Transport == 0 {
		o.Transport = verbs.RC
	}
	setDefault(&o.SendDepth, 128)
	setDefault(&o.SendSGEs, 1)
	setDefault(&o.RecvSGEs, 1)
	switch {
	case o.SRQ != nil:
		o.RecvDepth = 0
	case !o.NoRecvQueue:
		setDefault(&o.RecvDepth, 128)
	}
	needs := handle.Needs[*engine]{Of: e, List: []*handle.Handle{&e.device.Handle, &pd.Handle}}
	q := &queuePair{object: object{e: e}, pd: pd, transport: o.Transport, signalAll: o.SignalAll}
	if err := errors.Join(
		within("send depth", o.SendDepth, 1, maxQPWR), within("receive depth", o.RecvDepth, 0, maxQPWR),
		within("send scatter/gather entries", o.SendSGEs, 1, maxSGE),
		within("receive scatter/gather entries", o.RecvSGEs, 1, maxSGE),
		within("inline bytes", o.InlineBytes, 0, maxInline), q.choose(&o, &needs),
	); err != nil {
		return nil, pd.fail(verb, err)
	}
	q.caps = verbs.QueuePairCapabilities{
		SendDepth: o.SendDepth, RecvDepth: o.RecvDepth, SendSGEs: o.SendSGEs, RecvSGEs: o.RecvSGEs,
		InlineBytes: o.InlineBytes,
	}
	q.request = rc.NewRequester(o.SendDepth)
	n := int(rc.RingSize(o.SendDepth))
	q.sends = sendMemory{
		slots: make([]sendSlot, n), sges: make([]verbs.SGE, n*o.SendSGEs), inline: make([]byte, n*o.InlineBytes),
		mask: uint32(n - 1), maxSGE: uint32(o.SendSGEs), inlineBytes: uint32(o.InlineBytes),
	}
	q.receives = newReceiveQueue(o.RecvDepth, o.RecvSGEs)
	most := o.RecvSGEs
	if q.srq != nil {
		most = q.srq.queue.maxSGE
	}
	q.current.list = make([]verbs.SGE, 0, most)
	err := q.Open(kindQP, func() error {
		e.lock()
		defer e.unlock()
		return e.addQP(q)
	}, needs.List...)
	return made[verbs.QueuePair](e.device, q, verb, err)
}

// within tells where a size is none of those from lowest to highest.
func within(name string, v, lowest, highest int) error {
	if v < lowest || v > highest {
		return fmt.Errorf("%s %d: want %d to %d", name, v, lowest, highest)
	}
	return nil
}

// choose sets the queue pair's transport and queues.
func (q *queuePair) choose(o *verbs.QueuePairOptions, needs *handle.Needs[*engine]) error {
	var errs []error
	var known bool
	if q.wire, known = map[verbs.Transport]wire.Transport{
		verbs.RC: wire.RC, verbs.UC: wire.UC, verbs.UD: wire.UD,
	}[o.Transport]; !known {
		errs = append(errs, fmt.Errorf("transport %v: %w", o.Transport, verbs.ErrUnsupported))
	}
	q.sendCQ = handle.Need[*completionQueue](needs, "send completion queue", o.SendCQ)
	if q.recvCQ = q.sendCQ; o.RecvCQ != nil {
		q.recvCQ = handle.Need[*completionQueue](needs, "receive completion queue", o.RecvCQ)
	}
	if o.SRQ != nil {
		q.srq = handle.Need[*sharedReceiveQueue](needs, kindSRQ, o.SRQ)
	}
	return errors.Join(append(errs, needs.Err)...)
}

func setDefault(v *int, d int) {
	if *v == 0 {
		*v = d
	}
}

func (q *queuePair) Close() error {
	e := q.e
	return q.close("close queue pair", func() {
		if q.respond.AckDue { // what was received is acknowledged: the peer would otherwise resend it to nobody
			e.flushAcks()
			e.out.Flush()
		}
		q.withdraw()
		q.state = verbs.StateReset
		q.sendCQ.forget(q)
		q.recvCQ.forget(q)
		e.keys.unbindOf(q)
		e.removeQP(q)
	})
}

// unbindOf takes away the windows bound through a queue pair that goes.
func (t *keyTable) unbindOf(q *queuePair) {
	for _, r := range t.regions {
		if r != nil && r.window && r.qp == q {
			r.unbind()
		}
	}
}

// withdraw takes the queue pair off every list of the engine.
func (q *queuePair) withdraw() {
	q.respond.Forget() // flushAcks takes it off the list
	q.request.Stop()
}

func (q *queuePair) QPN() uint32                               { return q.qpn }
func (q *queuePair) Transport() verbs.Transport                { return q.transport }
func (q *queuePair) Device() verbs.Device                      { return q.e.device }
func (q *queuePair) Capabilities() verbs.QueuePairCapabilities { return q.caps }

func (q *queuePair) State() verbs.QPState {
	q.e.lock()
	defer q.e.unlock()
	if q.Closed() {
		return verbs.StateError
	}
	return q.state
}

// addressHandle is a verbs.AddressHandle.
type addressHandle struct {
	object
	pd   *protectionDomain
	path *path
}

// CreateAH makes an address handle.
func (pd *protectionDomain) CreateAH(a verbs.AddressVector) (verbs.AddressHandle, error) {
	e := pd.e
	const verb = "create address handle"
	if pd.Closed() {
		return nil, pd.fail(verb, verbs.ErrClosed)
	}
	h := &addressHandle{object: object{e: e}, pd: pd}
	g, err := e.device.source(a)
	if err == nil {
		e.lock()
		port := uint16(Port) // all queue pairs send by it
		if a.FlowLabel != 0 {
			port = sourcePort(a.FlowLabel, 0, 0)
		}
		h.path, err = e.pathTo(g, a, port)
		e.unlock()
	}
	if err != nil {
		return nil, pd.fail(verb, err)
	}
	return made[verbs.AddressHandle](e.device, h, verb, e.device.open(&h.Handle, kindAH, maxAH, &pd.Handle))
}

func (h *addressHandle) Close() error {
	return h.close("close address handle", func() {})
}
