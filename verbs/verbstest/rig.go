package verbstest

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
)

const (
	// patience is how long anything may take before a test gives up; emulated machines are slow.
	patience = time.Minute
	// silence is how long a test waits to see that nothing happens.
	silence = 60 * time.Millisecond
	// A rig that finds nothing polls so often without a break, and then with one.
	spins = 100
	pause = 200 * time.Microsecond

	// The operations of most tests.
	write          = verbs.OpWrite
	writeImmediate = verbs.OpWriteWithImmediate
	read           = verbs.OpRead
	send           = verbs.OpSend
	fetchAdd       = verbs.OpFetchAdd
	compareSwap    = verbs.OpCompareSwap

	allRemote = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
	testQKey  = 0x11111111
)

// rigOptions describes the queue pairs of a rig; the zero value is RC with 64 KiB of memory on each end.
type rigOptions struct {
	transport verbs.Transport
	bytes     int
	access    verbs.Access // of the regions; 0: everything
	qp        verbs.QueuePairOptions
	cqDepth   int
	channel   verbs.CompletionChannel // of B's completion queues
	srq       verbs.SharedReceiveQueue
	pdB       verbs.ProtectionDomain // B's domain, where the test has one already
	with      *rig                   // share its domains and completion queues

	timestamps bool // completions carry them
	connect    func(side string, o *verbs.ConnectOptions)
	short      verbs.QPState // how many states before RTS to stop
}

// rig is a connected pair of queue pairs with memory, the stage of most tests.
type rig struct {
	*test
	a, b     *side
	unpolled *side       // left alone when the rig is polled; nil: none
	met      []io.Closer // what Pair.Connect has made
	timeout  time.Duration
	empty    int // polls in a row that found nothing
	filled   int // bytes at both ends, see refill
	zeroAt   int // where in B's memory the zero of a zero-based window is; 0: addresses are B's
	seed     uint32
}

// side is one end of a rig.
type side struct {
	r      *rig
	name   string
	end    End
	pd     verbs.ProtectionDomain
	sendCQ verbs.CompletionQueue
	recvCQ verbs.CompletionQueue
	qp     verbs.QueuePair
	buf    *verbs.Buffer
	mem    []byte // the whole buffer
	mr     verbs.MemoryRegion
	ah     verbs.AddressHandle
	sends  completions
	recvs  completions
}

// completions are those of one of a side's queues that were polled and not yet looked at.
type completions struct {
	x    *side
	what string
	list []verbs.Completion
}

func closing(t testing.TB, c io.Closer) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("close %T: %v", c, err)
		}
	})
}

// closeAll closes handles, of which any may be nil, in this order.
func closeAll(t testing.TB, list ...io.Closer) {
	t.Helper()
	for _, c := range list {
		if c != nil {
			if err := c.Close(); err != nil {
				t.Fatalf("close %T: %v", c, err)
			}
		}
	}
}

// attempt is what a call made, or why it did not.
type attempt[T io.Closer] struct {
	made T
	err  error
}

func got[T io.Closer](made T, err error) attempt[T] { return attempt[T]{made, err} }

// need is what was made.
func (a attempt[T]) need(t testing.TB) T {
	t.Helper()
	if a.err != nil {
		t.Fatal(a.err)
	}
	return a.made
}

// closing is what was made, which is closed when the test ends.
func (a attempt[T]) closing(t testing.TB) T {
	t.Helper()
	closing(t, a.need(t))
	return a.made
}

// on runs a part of the test on a rig of its own.
func (t *test) on(name string, o rigOptions, run func(r *rig)) {
	t.Run(name, func(t *test) { run(newRig(t, o)) })
}

func newRig(t *test, o rigOptions) *rig {
	t.Helper()
	if o.transport == 0 {
		o.transport = verbs.RC
	}
	if o.bytes == 0 {
		o.bytes = 64 << 10
	}
	if o.access == 0 {
		o.access = allRemote
	}
	if o.cqDepth == 0 {
		o.cqDepth = 512
	}
	if o.transport != verbs.RC && t.lacks(HasUnconnected) {
		t.Skipf("the device has no %v queue pairs", o.transport)
	}
	r := &rig{test: t, timeout: patience}
	r.a = r.newSide("A", t.A, o)
	r.b = r.newSide("B", t.B, o)
	for _, x := range []*side{r.a, r.b} {
		if o.transport == verbs.UD {
			x.ah = got(x.pd.CreateAH(x.vector(x.peer()))).closing(t)
		}
	}
	r.connect(o)
	return r
}

func (r *rig) newSide(name string, e End, o rigOptions) *side {
	t := r
	t.Helper()
	x := &side{r: r, name: name, end: e}
	switch {
	case o.with != nil:
		like := o.with.side(name)
		x.pd, x.sendCQ, x.recvCQ = like.pd, like.sendCQ, like.recvCQ
	case name == "B" && o.pdB != nil:
		x.pd = o.pdB
	default:
		x.pd = got(e.Device.AllocPD()).closing(t)
	}
	queue := verbs.CompletionQueueOptions{Depth: o.cqDepth, Timestamps: o.timestamps || x.r.Timestamps}
	if name == "B" {
		queue.Channel, o.qp.SRQ = o.channel, o.srq
	}
	if x.sendCQ == nil {
		x.sendCQ = got(e.Device.CreateCQ(queue)).closing(t)
		x.recvCQ = got(e.Device.CreateCQ(queue)).closing(t)
	}
	x.sends, x.recvs = completions{x: x, what: "send"}, completions{x: x, what: "receive"}
	x.buf, x.mr = x.memory(o.bytes, o.access)
	x.mem = x.buf.Bytes()
	o.qp.Transport, o.qp.SendCQ, o.qp.RecvCQ = o.transport, x.sendCQ, x.recvCQ
	x.qp = got(x.pd.CreateQP(o.qp)).closing(t)
	return x
}

// memory allocates and registers a buffer that lives as long as the test.
func (x *side) memory(bytes int, access verbs.Access) (*verbs.Buffer, verbs.MemoryRegion) {
	t := x.r
	t.Helper()
	buf := got(verbs.Alloc(bytes, verbs.MemoryOptions{})).closing(t)
	return buf, got(x.pd.RegisterMemory(buf, 0, buf.Len(), access)).closing(t)
}

// region registers the side's memory once more.
func (x *side) region(access verbs.Access) verbs.MemoryRegion {
	x.r.Helper()
	return got(x.pd.RegisterMemory(x.buf, 0, x.buf.Len(), access)).closing(x.r)
}

func (x *side) addressHandle(to verbs.AddressVector) verbs.AddressHandle {
	x.r.Helper()
	return got(x.pd.CreateAH(to)).closing(x.r)
}

func (r *rig) connectOptions(x *side, o rigOptions) verbs.ConnectOptions {
	peer, psn := x.peer(), map[string]uint32{"A": 0xfffff0, "B": 0x001000} // A's sequence numbers wrap soon
	c := verbs.ConnectOptions{
		Port: x.end.Port, Access: allRemote, QKey: testQKey, PathMTU: r.MTU, DestQPN: peer.qp.QPN(),
		AddressVector: x.vector(peer),
		SendPSN:       psn[x.name], RecvPSN: psn[peer.name],
		MaxRDAtomic: 4, MaxDestRDAtomic: 4, MinRNRTimer: 1, Timeout: 14, RetryCount: 7, RNRRetry: 7,
	}
	if o.connect != nil {
		o.connect(x.name, &c)
	}
	return c
}

func (x *side) vector(peer *side) verbs.AddressVector {
	return verbs.AddressVector{
		DGID: peer.end.GID, SGIDIndex: x.end.GIDIndex, UseGID: true, HopLimit: 64, Port: max(x.end.Port, 1),
	}
}

func (r *rig) connect(o rigOptions) {
	r.Helper()
	if r.Connect == nil || o.short > 0 {
		r.climb(o)
		return
	}
	r.met = r.Connect(r, r.a.qp, r.b.qp, r.connectOptions(r.a, o), r.connectOptions(r.b, o))
}

// climb connects by what the ends are told of each other.
func (r *rig) climb(o rigOptions) {
	r.Helper()
	to := verbs.StateRTS - o.short
	for _, x := range []*side{r.a, r.b} {
		c := r.connectOptions(x, o)
		c.StayRTR = c.StayRTR || to == verbs.StateRTR
		var err error
		if to >= verbs.StateInit {
			err = verbs.InitQP(x.qp, c)
		}
		if err == nil && to >= verbs.StateRTR {
			err = verbs.ConnectQP(x.qp, c)
		}
		if err != nil {
			r.Fatalf("%s to %v: %v", x.name, to, err)
		}
	}
}

// side is an end by its name; "": A.
func (r *rig) side(name string) *side {
	if name == "B" {
		return r.b
	}
	return r.a
}

// peer is the other end.
func (x *side) peer() *side {
	if x == x.r.a {
		return x.r.b
	}
	return x.r.a
}

func (x *side) sge(offset, length int) verbs.SGE {
	return verbs.SGE{Addr: x.buf.Addr() + uint64(offset), Length: uint32(length), LKey: x.mr.LKey()}
}

// split divides a range of the buffer into n entries of uneven length; 0 entries name nothing.
func (x *side) split(offset, length, n int) []verbs.SGE {
	var list []verbs.SGE
	for i := range n {
		part := length / n
		if i%2 == 0 && part > 1 && i < n-1 {
			part-- // uneven, so that entries end between the packets' ends
		}
		if i == n-1 {
			part = length
		}
		list = append(list, x.sge(offset, part))
		offset, length = offset+part, length-part
	}
	return list
}

// request is a signaled request from the front of the buffer to the front of the peer's.
func (x *side) request(id uint64, op verbs.Opcode, length int) verbs.SendRequest {
	q := verbs.SendRequest{
		ID: id, Opcode: op, Flags: verbs.Signaled, SGEs: []verbs.SGE{x.sge(0, length)},
		RemoteAddr: x.peer().buf.Addr(), RKey: x.peer().mr.RKey(),
	}
	if x.ah != nil {
		q.AH, q.RemoteQPN, q.RemoteQKey = x.ah, x.peer().qp.QPN(), testQKey
	}
	return q
}

func (x *side) post(q ...verbs.SendRequest) {
	x.r.Helper()
	for i := range q {
		x.r.needOpcode(q[i].Opcode)
	}
	if err := x.try(q...); err != nil {
		x.r.Fatalf("%s: post send: %v", x.name, err)
	}
}

// try posts requests that may be refused.
func (x *side) try(q ...verbs.SendRequest) error { return x.qp.PostSend(q) }

// refuses posts a request that may not be taken.
func (x *side) refuses(what string, q verbs.SendRequest) {
	x.r.Helper()
	if x.try(q) == nil {
		x.r.Errorf("%s was taken", what)
	}
}

// requests are n of them, by IDs from 0 on.
func (x *side) requests(n int, op verbs.Opcode, length int) (list []verbs.SendRequest) {
	for i := range n {
		list = append(list, x.request(uint64(i), op, length))
	}
	return list
}

// receives posts n receives of as many bytes, by IDs from first on.
func (x *side) receives(first uint64, n, length int) {
	x.r.Helper()
	for i := range uint64(n) {
		x.receive(first+i, x.sge(0, length))
	}
}

func (x *side) receive(id uint64, list ...verbs.SGE) {
	x.r.Helper()
	if len(list) == 0 && x.r.lacks(HasEmptyLists) {
		list = []verbs.SGE{x.sge(0, 0)}
	}
	if err := postReceive(x.qp, id, list...); err != nil {
		x.r.Fatalf("%s: post receive: %v", x.name, err)
	}
}

// postReceive posts one receive to a queue pair, or to a shared queue.
func postReceive(to interface {
	PostReceive(r []verbs.ReceiveRequest) error
}, id uint64, list ...verbs.SGE,
) error {
	return to.PostReceive([]verbs.ReceiveRequest{{ID: id, SGEs: list}})
}

// poll moves what has completed on either end into the sides' lists.
func (r *rig) poll() {
	r.Helper()
	var c [16]verbs.Completion
	found := false
	for _, x := range []*side{r.a, r.b} {
		if x == r.unpolled {
			continue
		}
		for _, cq := range []verbs.CompletionQueue{x.sendCQ, x.recvCQ} {
			n, err := cq.Poll(c[:])
			if err != nil {
				r.Fatalf("%s: poll: %v", x.name, err)
			}
			found = found || n > 0
			if cq == x.sendCQ {
				x.sends.list = append(x.sends.list, c[:n]...)
			} else {
				x.recvs.list = append(x.recvs.list, c[:n]...)
			}
		}
	}
	switch {
	case found:
		r.empty = 0
	case r.empty < spins:
		r.empty++
		runtime.Gosched() //nolint:forbidigo // a test that measures nothing
	default:
		<-time.After(pause) // a timer of the device is awaited, or nothing: the processor is for others
	}
}

// until polls until done says so.
func (r *rig) until(what string, done func() bool) {
	r.Helper()
	for deadline := time.Now().Add(r.timeout); !done(); {
		if time.Now().After(deadline) {
			r.Fatalf("waited %v for %s", r.timeout, what)
		}
		r.poll()
	}
}

// never polls for a while, in which something may not happen.
func (r *rig) never(what string, happened func() bool) {
	r.Helper()
	for deadline := time.Now().Add(silence); time.Now().Before(deadline); {
		r.poll()
		if happened() {
			r.Fatalf("%s: A completed %+v %+v, B %+v %+v", what, r.a.sends.list, r.a.recvs.list, r.b.sends.list, r.b.recvs.list)
		}
	}
}

// quiet sees that nothing completes.
func (r *rig) quiet(what string) {
	r.Helper()
	r.never(what, func() bool { return r.left() > 0 })
}

// left is how many completions nobody has looked at.
func (r *rig) left() int {
	return len(r.a.sends.list) + len(r.a.recvs.list) + len(r.b.sends.list) + len(r.b.recvs.list)
}

// next waits for a completion.
func (q *completions) next() verbs.Completion {
	r := q.x.r
	r.Helper()
	r.until(q.x.name+"'s "+q.what+" completion", func() bool { return len(q.list) > 0 })
	c := q.list[0]
	q.list = q.list[1:]
	return c
}

// want waits for a completion and checks it. It may have any of the statuses; none named: Success.
func (q *completions) want(id uint64, status ...verbs.Status) verbs.Completion {
	t, x := q.x.r, q.x
	t.Helper()
	if len(status) == 0 {
		status = []verbs.Status{verbs.Success}
	}
	c := q.next()
	if c.ID != id || !slices.Contains(status, c.Status) {
		t.Errorf("%s: %s %d completed with %v, want %d with %v", x.name, q.what, c.ID, c.Status, id, status)
	}
	if c.QPN != x.qp.QPN() {
		t.Errorf("%s: %s completed on qp %#x, want %#x", x.name, q.what, c.QPN, x.qp.QPN())
	}
	return c
}

// wantAll waits for n completions, by IDs from first on.
func (q *completions) wantAll(first uint64, n int, status ...verbs.Status) {
	q.x.r.Helper()
	for i := range uint64(n) {
		q.want(first+i, status...)
	}
}

// to moves the side's queue pair to a state that needs no attributes.
func (x *side) to(state verbs.QPState) {
	x.r.Helper()
	if err := x.qp.Modify(verbs.QueuePairAttributes{Mask: verbs.AttrState, State: state}); err != nil {
		x.r.Fatalf("%s: to %v: %v", x.name, state, err)
	}
}

// sendOne does a SEND from the front of the buffer.
func (x *side) sendOne(id uint64, length int) {
	x.r.Helper()
	x.do(x.request(id, send, length))
}

// postOne posts a signaled request from the front of the buffer to the front of the peer's.
func (x *side) postOne(id uint64, op verbs.Opcode, length int) {
	x.r.Helper()
	x.post(x.request(id, op, length))
}

// do posts a request and waits for it to complete.
func (x *side) do(q verbs.SendRequest) {
	x.r.Helper()
	x.post(q)
	x.wantCompleted(q)
}

// wantCompleted waits for a request to complete as what it is.
func (x *side) wantCompleted(q verbs.SendRequest) {
	x.r.Helper()
	if c := x.sends.want(q.ID); c.Opcode != q.Opcode.Completed() {
		x.r.Errorf("%s: %v completed as %v, want %v", x.name, q.Opcode, c.Opcode, q.Opcode.Completed())
	}
}

// exchange has A send n messages one after another, which B has receives for, by IDs from first on.
func (r *rig) exchange(first uint64, n, length int) {
	r.Helper()
	for i := range uint64(n) {
		r.a.sendOne(first+i, length)
		r.b.recvs.want(first + i)
	}
}

// wantError waits until the queue pair is in ERR.
func (x *side) wantError() {
	x.r.Helper()
	broken := func() bool { return x.qp.State() == verbs.StateError }
	if x.r.deviates(ErrorStateTold) {
		x.r.never("take the row away: the state ERR is told", broken)
		return
	}
	x.r.until(x.name+" in state ERR", broken)
}

// fill writes a pattern that differs at every place and for every seed.
func fill(b []byte, seed uint32) {
	v := seed*2654435761 + 1
	for i := range b {
		v = v*1664525 + 1013904223
		b[i] = byte(v >> 24)
	}
}

// same compares memory with what should be there.
func same(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got[:len(want)], want) {
		return
	}
	i := 0
	for got[i] == want[i] {
		i++
	}
	t.Errorf("%s: byte %d of %d is %#x, want %#x", what, i, len(want), got[i], want[i])
}
