package bench

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/verbs"
)

// Endpoint is one end's verbs objects for one plan. It belongs to the goroutine that measures.
type Endpoint struct {
	Device verbs.Device

	plan      control.Plan
	role      Role
	work      workload
	layout    layout
	port      verbs.PortInfo
	gid       verbs.GIDEntry
	useGID    bool
	mtu       verbs.MTU
	openEnded bool // receives are kept posted across rounds, for any number of messages
	inline    int  // bytes granted
	rxDepth   int

	channel        verbs.CompletionChannel
	sendCQ, recvCQ verbs.CompletionQueue // recvCQ is sendCQ where nothing is received
	pd             verbs.ProtectionDomain
	srq            verbs.SharedReceiveQueue
	buffers        []*verbs.Buffer // one, or one per queue pair
	regions        []verbs.MemoryRegion
	qps            []verbs.QueuePair
	handles        []verbs.AddressHandle  // UD
	joined         []verbs.ConnectOptions // with RDMA CM: what is in force, per queue pair
	psns           []uint32
	posted         []uint64 // receives posted so far, per queue pair
	outstanding    []int    // receives posted and not completed, per queue pair

	closers closers
}

// endpointOptions is what an endpoint needs beside its plan.
type endpointOptions struct {
	role       Role
	page, line int
	mtu        verbs.MTU
	port       verbs.PortInfo
	gid        verbs.GIDEntry
	useGID     bool
	server     verbs.GID // the server's, where both tables are known
	openEnded  bool
	numaNode   int // -1: no binding
}

// newEndpoint makes every object of the plan, up to queue pairs in INIT.
func newEndpoint(dev verbs.Device, p control.Plan, o endpointOptions) (_ *Endpoint, err error) {
	work, err := workloadOf(p, o.page, o.line)
	if err != nil {
		return nil, err
	}
	d, err := work.demand(dev.Info().Limits)
	if err != nil {
		return nil, err
	}
	e := &Endpoint{
		Device: dev, plan: p, role: o.role, work: work, layout: newLayout(p.QPs, d), port: o.port, gid: o.gid,
		useGID: o.useGID, mtu: o.mtu, openEnded: o.openEnded, rxDepth: d.recvWRs,
		posted: make([]uint64, p.QPs), outstanding: make([]int, p.QPs),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	if e.pd, err = dev.AllocPD(); err != nil {
		return nil, err
	}
	e.closers.add(e.pd)
	if err := e.createCQs(d); err != nil {
		return nil, err
	}
	if err := e.allocate(o); err != nil {
		return nil, err
	}
	if p.SRQ && receives(p, o.role) {
		if e.srq, err = e.pd.CreateSRQ(verbs.SharedReceiveQueueOptions{Depth: d.recvWRs * p.QPs, SGEs: d.recvSGEs}); err != nil {
			return nil, err
		}
		e.closers.add(e.srq)
	}
	for q := range p.QPs {
		if err := e.createQP(d); err != nil {
			return nil, fmt.Errorf("queue pair %d of %d: %w", q+1, p.QPs, err)
		}
	}
	return e, nil
}

func (e *Endpoint) createCQs(d demand) (err error) {
	if e.plan.Events {
		if e.channel, err = e.Device.CreateCompletionChannel(); err != nil {
			return err
		}
		e.closers.add(e.channel)
	}
	limit := e.Device.Info().Limits.MaxCQE
	create := func(depth int) (verbs.CompletionQueue, error) {
		cq, err := e.Device.CreateCQ(verbs.CompletionQueueOptions{Depth: atMost(max(depth, 1), limit), Channel: e.channel})
		if err != nil {
			return nil, err
		}
		e.closers.add(cq)
		return cq, nil
	}
	if e.sendCQ, err = create(d.sendWRs * e.plan.QPs); err != nil {
		return err
	}
	e.recvCQ = e.sendCQ
	if receives(e.plan, e.role) {
		e.recvCQ, err = create(d.recvWRs * e.plan.QPs)
	}
	return err
}

// allocate makes and registers the memory: one region, or one per queue pair.
func (e *Endpoint) allocate(o endpointOptions) error {
	access := verbs.AccessLocalWrite | remoteAccess(e.plan)
	if !e.plan.StrictOrdering && (e.plan.Kind != control.Latency || e.plan.Operation != control.Write) {
		access |= verbs.AccessRelaxedOrdering // write latency needs the last byte placed last
	}
	sizes := []int{e.layout.total}
	if e.plan.MRPerQP {
		sizes = slices.Repeat([]int{e.layout.sendBytes + e.layout.lead + e.layout.recvBytes}, e.plan.QPs)
	}
	for _, n := range sizes {
		b, err := verbs.Alloc(n, verbs.MemoryOptions{HugePages: e.plan.HugePages, NUMANode: o.numaNode + 1, Touch: true})
		if err != nil {
			return err
		}
		e.buffers = append(e.buffers, b)
		e.closers.add(b)
		if e.plan.Kind != control.Latency || e.plan.Operation != control.Write {
			fillRandom(b.Bytes())
		}
		if e.plan.Operation == control.Atomic {
			clear(b.Bytes())
		}
		mr, err := e.pd.RegisterMemory(b.Bytes(), access)
		if err != nil {
			return err
		}
		e.regions = append(e.regions, mr)
		e.closers.add(mr)
	}
	return nil
}

func (e *Endpoint) createQP(d demand) error {
	o := verbs.QueuePairOptions{
		Transport: e.plan.Transport, SendCQ: e.sendCQ, RecvCQ: e.recvCQ, SRQ: e.srq,
		SendDepth: max(d.sendWRs, 1), RecvDepth: max(d.recvWRs, 1), SendSGEs: max(d.sendSGEs, 1), RecvSGEs: max(d.recvSGEs, 1),
	}
	if e.srq != nil {
		o.RecvDepth = 0
	}
	var qp verbs.QueuePair
	var err error
	want := d.inline
	if len(e.qps) > 0 && want < 0 {
		want = e.inline // as the first one got
	}
	for try := max(want, -want); ; try = try * 3 / 4 {
		o.InlineBytes = try
		if qp, err = e.pd.CreateQP(o); err == nil || want >= 0 || try == 0 {
			break
		}
	}
	if err != nil {
		return err
	}
	e.inline = o.InlineBytes
	e.closers.add(qp)
	e.qps = append(e.qps, qp)
	e.psns = append(e.psns, rand.Uint32()&0xff_ffff)
	if e.plan.RDMACM { // it knows port and P_Key
		return nil
	}
	return verbs.InitQP(qp, verbs.ConnectOptions{
		Port: e.port.Number, PKeyIndex: e.plan.PKeyIndex, Access: verbs.AccessLocalWrite | remoteAccess(e.plan), QKey: e.plan.QKey,
	})
}

// remoteAccess is the right that the peer needs.
func remoteAccess(p control.Plan) verbs.Access {
	switch p.Operation {
	case control.Read:
		return verbs.AccessRemoteRead
	case control.Atomic:
		return verbs.AccessRemoteAtomic
	default:
		return verbs.AccessRemoteWrite
	}
}

// addresses is what the peer must know.
func (e *Endpoint) addresses(outstanding int) []control.Address {
	out := make([]control.Address, len(e.qps))
	for q, qp := range e.qps {
		out[q] = control.Address{
			LID: e.port.LID, QPN: qp.QPN(), PSN: e.psns[q], RKey: e.region(q).RKey(), Addr: e.recvAddr(q),
			Bytes: uint64(e.layout.recvBytes), GID: e.gid.GID, HasGID: e.useGID, Outstanding: outstanding,
		}
	}
	return out
}

// connect moves the queue pairs to RTR, and to RTS where this end posts requests. RDMA CM has done that already.
func (e *Endpoint) connect(peer []control.Address, outstanding int) error {
	for q, qp := range e.qps {
		av := e.addressVector(peer[q])
		if e.plan.RDMACM {
			if known := e.joined[q].AddressVector; known.DLID != 0 || known.UseGID {
				av = known
			}
		} else if err := e.connectQP(q, qp, av, peer[q], outstanding); err != nil {
			return err
		}
		if e.plan.Transport == verbs.UD && sends(e.plan, e.role) {
			ah, err := e.pd.CreateAH(av)
			if err != nil {
				return err
			}
			e.handles = append(e.handles, ah)
			e.closers.add(ah)
		}
	}
	return nil
}

func (e *Endpoint) connectQP(q int, qp verbs.QueuePair, av verbs.AddressVector, peer control.Address, outstanding int) error {
	return verbs.ConnectQP(qp, verbs.ConnectOptions{
		Port: e.port.Number, PKeyIndex: e.plan.PKeyIndex, QKey: e.plan.QKey, PathMTU: e.mtu, AddressVector: av,
		DestQPN: peer.QPN, SendPSN: e.psns[q], RecvPSN: peer.PSN,
		MaxRDAtomic:     uint8(min(peer.Outstanding, max(e.Device.Info().Limits.MaxInitRDAtomic, 1), 255)),
		MaxDestRDAtomic: uint8(min(outstanding, 255)),
		MinRNRTimer:     defaultMinRNRTimer, Timeout: e.plan.Timeout, RetryCount: e.plan.Retries, RNRRetry: e.plan.RNRRetries,
		StayRTR: !sends(e.plan, e.role),
	})
}

func (e *Endpoint) addressVector(peer control.Address) verbs.AddressVector {
	av := verbs.AddressVector{
		DLID: peer.LID, SL: e.plan.SL, TrafficClass: e.plan.TrafficClass, FlowLabel: e.plan.FlowLabel,
		HopLimit: e.plan.HopLimit, Port: e.port.Number,
	}
	if e.useGID && peer.HasGID {
		av.UseGID, av.DGID, av.SGIDIndex = true, peer.GID, e.gid.Index
		if av.HopLimit == 0 {
			av.HopLimit = 255
		}
	}
	return av
}

func (e *Endpoint) region(q int) verbs.MemoryRegion {
	if e.plan.MRPerQP {
		return e.regions[q]
	}
	return e.regions[0]
}

func (e *Endpoint) lkey(q int) uint32 { return e.region(q).LKey() }

func (e *Endpoint) sendSlot(q int) []byte {
	if e.plan.MRPerQP {
		return e.buffers[q].Bytes()[:e.layout.sendBytes]
	}
	return e.buffers[0].Bytes()[e.layout.sendAt(q):][:e.layout.sendBytes]
}

func (e *Endpoint) recvSlot(q int) []byte {
	if e.plan.MRPerQP {
		return e.buffers[q].Bytes()[e.layout.sendBytes+e.layout.lead:]
	}
	return e.buffers[0].Bytes()[e.layout.recvAt(q):][:e.layout.recvBytes]
}

func (e *Endpoint) sendAddr(q int) uint64 {
	if e.plan.MRPerQP {
		return e.buffers[q].Addr()
	}
	return e.buffers[0].Addr() + uint64(e.layout.sendAt(q))
}

func (e *Endpoint) recvAddr(q int) uint64 {
	if e.plan.MRPerQP {
		return e.buffers[q].Addr() + uint64(e.layout.sendBytes+e.layout.lead)
	}
	return e.buffers[0].Addr() + uint64(e.layout.recvAt(q))
}

// Close frees everything, newest first.
func (e *Endpoint) Close() error { return e.closers.Close() }

// closers closes what was opened, newest first, and reports every failure.
type closers []io.Closer

func (c *closers) add(x io.Closer) { *c = append(*c, x) }

func (c *closers) Close() error {
	var errs []error
	for _, x := range slices.Backward(*c) {
		errs = append(errs, x.Close())
	}
	*c = nil
	return errors.Join(errs...)
}

// fillRandom writes random bytes, as perftest does: zeros could be compressed or special on the way.
func fillRandom(b []byte) {
	r := rand.NewPCG(rand.Uint64(), rand.Uint64())
	for len(b) >= 8 {
		v := r.Uint64()
		b[0], b[1], b[2], b[3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
		b[4], b[5], b[6], b[7] = byte(v>>32), byte(v>>40), byte(v>>48), byte(v>>56)
		b = b[8:]
	}
	for i := range b {
		b[i] = byte(r.Uint64())
	}
}
