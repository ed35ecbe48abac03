package endpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// Endpoint is one end's verbs objects for one plan. It belongs to the goroutine that measures.
type Endpoint struct {
	plan *plan.Settled
	spec plan.Spec // of plan
	work workload
	qkey uint32 // RDMA CM may choose another than the plan's

	Rails   Rails              // the devices that it is on
	Threads []job.ThreadQueues // of each thread: where sends complete, and then where receives do, if there are any
	MTU     verbs.MTU          // of the path; RDMA CM may tell another than the plan's
	Inline  int                // bytes that a request carries itself, as granted by the device

	srq    verbs.SharedReceiveQueue
	qps    []*pair
	sparse bool       // verified data may have holes
	group  *verbs.GID // that it has joined

	undo []func() error // of what was made, in order

	created time.Time // when the first queue pair was to be
	step    func(name string, took time.Duration)
}

// pair is one queue pair: where it belongs, its memory, who its peer is, and what it did.
type pair struct {
	verbs.QueuePair
	number     int
	rail       *Rail
	pd         verbs.ProtectionDomain
	cqs        []verbs.CompletionQueue // of its thread
	region     verbs.MemoryRegion
	send, recv slot
	psn        uint32
	peer       control.Address
	joined     verbs.ConnectOptions // with RDMA CM: what is in force
	handle     verbs.AddressHandle  // UD, where this end sends

	taken       uint64 // receives completed in the rounds before
	outstanding int    // receives posted and not completed
	moved       movement
}

// slot is the part of a region that messages are sent from, or arrive in.
type slot struct {
	bytes []byte
	addr  uint64
}

// Options is what an endpoint needs beside its plan and its rails.
type Options struct {
	Step func(name string, took time.Duration) // told each step of a queue pair's life; nil: nobody wants to know
	// nobody tells how much was sent: what no message has reached is as it was before
	Sparse bool
}

// New makes every object of the plan, up to queue pairs in INIT.
func New(rails Rails, p *plan.Settled, o Options) (_ *Endpoint, err error) {
	e := &Endpoint{
		Rails: rails, plan: p, spec: p.Spec, work: workloadOf(p), MTU: p.MTU, qkey: p.Spec.QKey, step: o.Step,
		sparse: o.Sparse || p.Spec.Transport == verbs.UC,
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	if point := p.Point; point != nil && point.Transfer.Local.Blocks() == 0 {
		return nil, errors.New("the list of descriptors is not known")
	}
	var pds []verbs.ProtectionDomain
	for i := range rails {
		pd, err := rails[i].Device.AllocPD()
		if err != nil {
			return nil, err
		}
		pds = append(pds, pd)
		e.onClose(pd.Close)
	}
	d := p.Queues
	for range e.spec.Threads {
		if err := e.createCQs(d); err != nil {
			return nil, err
		}
	}
	for q := range e.spec.QPs { // they are dealt out to the threads, as the threads are to the rails
		e.qps = append(e.qps, &pair{
			number: q, rail: rails.Of(q), pd: pds[q%len(pds)], cqs: e.Threads[q%len(e.Threads)].CQs,
			psn: rand.Uint32() & 0xff_ffff,
		})
	}
	if err := e.allocate(); err != nil {
		return nil, err
	}
	if e.spec.SRQ && p.Receives() {
		if e.srq, err = pds[0].CreateSRQ(verbs.SharedReceiveQueueOptions{
			Depth: d.RecvWRs * e.spec.QPs, SGEs: d.RecvSGEs,
		}); err != nil {
			return nil, err
		}
		e.onClose(e.srq.Close)
	}
	e.created = time.Now()
	for q, qp := range e.qps {
		if err := e.createQP(qp, d); err != nil {
			return nil, fmt.Errorf("queue pair %d of %d: %w", q+1, e.spec.QPs, err)
		}
	}
	return e, e.joinGroup()
}

// joinGroup attaches the queue pair that receives to the plan's multicast group, if it has one.
func (e *Endpoint) joinGroup() error {
	gid, has := e.plan.Group(e.Rails[0].GID.GID)
	if !has {
		return nil
	}
	qp := e.qps[0]
	if err := qp.AttachMulticast(gid, 0); err != nil {
		return err
	}
	e.group = &gid
	e.onClose(func() error { return qp.DetachMulticast(gid, 0) })
	return nil
}

// createCQs makes the completion queues of the next thread, for its share of the queue pairs.
func (e *Endpoint) createCQs(d plan.Queues) (err error) {
	var t job.ThreadQueues
	dev := e.Rails.Of(len(e.Threads)).Device
	if e.spec.Events {
		if t.Channel, err = dev.CreateCompletionChannel(); err != nil {
			return err
		}
		e.onClose(t.Channel.Close)
	}
	vector := e.spec.Vector
	if dev.Info().Software { // which has one
		vector = 0
	}
	share := (e.spec.QPs + e.spec.Threads - 1) / e.spec.Threads
	requests := []int{d.SendWRs}
	if e.plan.Receives() {
		requests = append(requests, d.RecvWRs)
	}
	for _, n := range requests {
		cq, err := dev.CreateCQ(verbs.CompletionQueueOptions{
			Depth: max(n*share, 1), Channel: t.Channel, Vector: vector, Timestamps: e.plan.StampedByDevice(),
		})
		if err != nil {
			return err
		}
		e.onClose(cq.Close)
		t.CQs = append(t.CQs, cq)
	}
	e.Threads = append(e.Threads, t)
	return nil
}

// allocate makes and registers the memory: exactly the regions that are settled, where there are
// several rails one for each queue pair.
func (e *Endpoint) allocate() error {
	access := verbs.AccessLocalWrite
	if e.plan.Row.Addressed() { // of a SEND the peer writes nothing by itself
		access |= e.plan.Row.Access
	}
	if !e.plan.Strict() {
		access |= verbs.AccessRelaxedOrdering
	}
	if e.spec.OnDemand {
		access |= verbs.AccessOnDemand
	}
	slots := e.plan.Buffers
	count, bytes := slots.Regions()
	buffers, regions := make([]*verbs.Buffer, count), make([]verbs.MemoryRegion, count)
	for n := range count {
		node := -1
		if machine.NUMANodes() > 1 {
			node = e.qps[n].rail.NUMANode
		}
		b, err := verbs.Alloc(bytes, verbs.MemoryOptions{HugePages: e.spec.HugePages, NUMANode: node + 1, Touch: true})
		if err != nil {
			return err
		}
		e.onClose(b.Close)
		// An end that waits for the last byte of a WRITE, and a counter, begin with zeros.
		if row := e.plan.Row; !row.Counter && (!e.plan.Answers() || !row.ByLastByte) {
			fillRandom(b.Bytes())
		}
		mr, err := e.qps[n].pd.RegisterMemory(b, 0, b.Len(), access)
		if err != nil {
			return err
		}
		e.onClose(mr.Close)
		buffers[n], regions[n] = b, mr
	}
	for q, qp := range e.qps {
		n, send, recv := slots.SlotsAt(q)
		part := func(at, bytes int) slot {
			return slot{buffers[n].Bytes()[at:][:bytes], buffers[n].Addr() + uint64(at)}
		}
		qp.region, qp.send, qp.recv = regions[n], part(send, slots.SendBytes), part(recv, slots.RecvBytes)
	}
	return nil
}

func (e *Endpoint) createQP(qp *pair, d plan.Queues) error {
	o := verbs.QueuePairOptions{
		Transport: e.spec.Transport, SendCQ: qp.cqs[0], RecvCQ: qp.cqs[len(qp.cqs)-1], SRQ: e.srq,
		SendDepth: max(d.SendWRs, 1), RecvDepth: max(d.RecvWRs, 1), SendSGEs: max(d.SendSGEs, 1),
		RecvSGEs: max(d.RecvSGEs, 1),
	}
	if e.srq != nil {
		o.RecvDepth = 0
	}
	var by verbs.Posting
	if e.plan.Sends() {
		by.API = e.spec.PostAPI
	}
	if e.plan.Point == nil { // what a queue pair is not made for may make its requests larger
		by.Sends = verbs.OpcodesOf(e.plan.Row.Requests()...)
	}
	var err error
	want := d.Inline
	if qp.number > 0 && want < 0 {
		want = -e.Inline // as the one before got, or less on another device
	}
	for try := max(want, -want); ; try = try * 3 / 4 {
		o.InlineBytes = try
		err = e.timed("create", time.Now(), func() (err error) {
			qp.QueuePair, err = verbs.CreateQPPosting(qp.pd, o, by)
			return err
		})
		if err == nil || want >= 0 || try == 0 {
			break
		}
	}
	if err != nil {
		return err
	}
	e.Inline = o.InlineBytes
	e.onClose(func() error { return e.timed("destroy", time.Now(), qp.Close) })
	if e.spec.RDMACM { // it knows port and P_Key
		return nil
	}
	return e.timed("init", time.Now(), func() error {
		return verbs.InitQP(qp.QueuePair, verbs.ConnectOptions{
			Port: qp.rail.Port.Number, PKeyIndex: e.spec.PKeyIndex, Access: verbs.AccessLocalWrite | e.plan.Row.Access,
			QKey: e.qkey,
		})
	})
}

// timed takes a step, and tells whoever wants to know how long it has taken since then.
func (e *Endpoint) timed(name string, since time.Time, step func() error) error {
	err := step()
	if e.step != nil && err == nil {
		e.step(name, time.Since(since))
	}
	return err
}

// Addresses is what the peer must know.
func (e *Endpoint) Addresses() []control.Address {
	out := make([]control.Address, len(e.qps))
	for q, qp := range e.qps {
		r := qp.rail
		out[q] = control.Address{
			LID: r.Port.LID, QPN: qp.QPN(), PSN: qp.psn, RKey: qp.region.RKey(), Addr: qp.recv.addr,
			Bytes: uint64(len(qp.recv.bytes)), GID: r.GID.GID, HasGID: r.UseGID, Outstanding: e.plan.Outstanding,
			Window: r.Device.Info().Limits.ReceiveWindow,
		}
		if e.group != nil {
			out[q].QPN, out[q].GID, out[q].HasGID = verbs.MulticastQPN, *e.group, true
		}
	}
	return out
}

// Connect moves the queue pairs to RTR, and to RTS where this end posts requests. RDMA CM has done that already.
func (e *Endpoint) Connect(peer []control.Address, policy plan.DataPolicy) (err error) {
	if e.spec.RDMACM {
		if peer, err = e.pair(peer); err != nil {
			return err
		}
	}
	if err := e.checkPeer(peer, policy); err != nil {
		return err
	}
	for q, qp := range e.qps {
		qp.peer = peer[q]
		av := e.addressVector(qp)
		if e.spec.RDMACM {
			if known := qp.joined.AddressVector; known.DLID != 0 || known.UseGID {
				av = known
			}
		} else if err := e.connectQP(qp, av); err != nil {
			return err
		}
		if e.spec.Transport == verbs.UD && e.plan.Sends() {
			if qp.handle, err = qp.pd.CreateAH(av); err != nil {
				return err
			}
			e.onClose(qp.handle.Close)
		}
	}
	return nil
}

// checkPeer refuses addresses that cannot be what the plan needs, or to which this end's traffic may not go.
func (e *Endpoint) checkPeer(peer []control.Address, policy plan.DataPolicy) error {
	if len(peer) != len(e.qps) {
		return fmt.Errorf("the peer sent %d addresses for %d queue pairs", len(peer), len(e.qps))
	}
	need := uint64(e.plan.Buffers.RecvBytes)
	for q, a := range peer {
		if a.HasGID || !a.GID.IsZero() { // else a LID: the subnet manager's partition bounds it
			if err := e.plan.CheckAddress(a.GID.Addr(), policy); err != nil {
				return err
			}
		}
		if e.group != nil && a.GID == *e.group {
			return fmt.Errorf("both ends listen to the group %v, where each hears itself: leave --MGID (-M) out at one of them",
				a.GID)
		}
		if a.Bytes != 0 && a.Bytes < need && e.plan.Row.Addressed() {
			return fmt.Errorf("the peer's queue pair %d offers %d bytes, the test needs %d", q, a.Bytes, need)
		}
		if e.qps[q].rail.UseGID && !a.HasGID {
			return fmt.Errorf("this end uses GIDs, the peer sent none: give -x to both ends or to neither")
		}
	}
	return nil
}

func (e *Endpoint) connectQP(qp *pair, av verbs.AddressVector) error {
	o := verbs.ConnectOptions{
		Port: av.Port, PKeyIndex: e.spec.PKeyIndex, QKey: e.qkey, PathMTU: e.MTU, AddressVector: av,
		DestQPN: qp.peer.QPN, SendPSN: qp.psn, RecvPSN: qp.peer.PSN,
		// it may tell anything
		MaxRDAtomic:     uint8(min(qp.peer.Outstanding, max(qp.rail.Device.Info().Limits.MaxInitRDAtomic, 1), 255)),
		MaxDestRDAtomic: uint8(e.plan.Outstanding),
		MinRNRTimer:     plan.RNRTimer, Timeout: e.spec.Timeout, RetryCount: e.spec.Retries, RNRRetry: plan.RNRRetries,
		PeerWindow: qp.peer.Window, StayRTR: !e.plan.Sends(),
	}
	return e.timed("connect", time.Now(), func() error { return verbs.ConnectQP(qp.QueuePair, o) })
}

func (e *Endpoint) addressVector(qp *pair) verbs.AddressVector {
	r := qp.rail
	av := verbs.AddressVector{
		DLID: qp.peer.LID, SL: e.spec.SL, TrafficClass: e.spec.TrafficClass, FlowLabel: e.plan.FlowLabel(qp.number),
		Port: r.Port.Number,
	}
	if r.UseGID && qp.peer.HasGID {
		av.UseGID, av.DGID, av.SGIDIndex, av.HopLimit = true, qp.peer.GID, r.GID.Index, 255
	}
	return av
}

// Ready takes the last step: the ends tell each other that all queue pairs are connected.
func (e *Endpoint) Ready(meet func() error) error { return e.timed("ready", e.created, meet) }

// Peer is what the peer has told of the partner of each queue pair.
func (e *Endpoint) Peer() []control.Address {
	out := make([]control.Address, len(e.qps))
	for q, qp := range e.qps {
		out[q] = qp.peer
	}
	return out
}

// PostAPI is how the device takes requests.
func (e *Endpoint) PostAPI() verbs.PostAPI { return verbs.PostsBy(e.qps[0].QueuePair) }

// Has tells whether one of the queue pairs has a number.
func (e *Endpoint) Has(qpn uint32) bool {
	return slices.ContainsFunc(e.qps, func(qp *pair) bool { return qp.QPN() == qpn })
}

// Close frees everything, newest first, and reports every failure.
func (e *Endpoint) Close() error {
	var errs []error
	for _, undo := range slices.Backward(e.undo) {
		errs = append(errs, undo())
	}
	e.undo = nil
	return errors.Join(errs...)
}

func (e *Endpoint) onClose(undo func() error) { e.undo = append(e.undo, undo) }

// fillRandom writes random bytes, as perftest does: zeros could be compressed or special on the way.
func fillRandom(b []byte) {
	var seed [32]byte
	binary.NativeEndian.PutUint64(seed[:], rand.Uint64())
	_, _ = rand.NewChaCha8(seed).Read(b) // it cannot fail
}
