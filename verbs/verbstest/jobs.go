package verbstest

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// ringReceives is how many receives an end keeps posted.
const ringReceives = 32

// engine is who runs an end's job: the reference, or the device.
type engine string

const (
	byReference engine = "reference"
	byDevice    engine = "device"
)

func (e engine) prepare(x *side, j *job.Job) (job.Runner, error) {
	if e == byReference {
		return job.NewVerbsRunner(x.end.Device, j)
	}
	return job.Prepare(x.end.Device, j)
}

// stage is what a job case is built on: one or more connected pairs that share completion queues.
type stage struct {
	*test
	rigs  []*rig
	slice time.Duration // how long each Run lasts; 10 ms
	stop  *atomic.Uint32
}

// jobCase is a job for both ends, and what must hold afterwards. It is a stream of messages of one kind from A to B,
// or a ping-pong, which edit may change. What a stream of a count has sent is compared with what has arrived, and what
// a ping-pong has sent with its samples.
type jobCase struct {
	name  string
	rig   rigOptions
	slice time.Duration // see stage

	op                    verbs.Opcode
	size                  int
	count                 uint64
	window, signal, batch int
	lanes, list           int  // queue pairs, 0: 1; receives posted again as one list
	pingPong              bool // not a stream: what ends a step is await, and A moves first
	await                 job.Await
	stamped               bool // samples by the device's clock
	edit                  func(g *stage, a, b *job.Job)
	check                 func(g *stage, a, b outcome)
	want                  verbs.Status // the status A's job fails with; Success: none
	channel               bool         // B waits for events
}

// outcome is how an end's job went.
type outcome struct {
	progress job.Progress
	err      error
	trace    []job.TraceEvent
	record   *job.Recorder
	job      *job.Job
	took     time.Duration
}

// testJobs runs every shape of job by the reference and by the device, in all combinations, and holds each to the same
// numbers. In 'make quick' both ends are of one kind: each loop runs each case all the same.
func testJobs(t *test) {
	engines := [][2]engine{
		{byReference, byReference}, {byDevice, byDevice}, {byDevice, byReference}, {byReference, byDevice},
	}
	if testing.Short() {
		engines = engines[:2]
	}
	for _, c := range jobCases(t) {
		for _, e := range engines {
			t.Run(fmt.Sprintf("%s by %s and %s", c.name, e[0], e[1]), func(t *test) { runCase(t, c, e[0], e[1]) })
		}
	}
	t.on("refused", rigOptions{}, func(r *rig) {
		bad := job.Job{Lanes: []job.Lane{{QP: r.a.qp, Ring: r.a.ring(write, 8, 1), Window: 0, Signal: 3, Batch: 1}}}
		if _, err := job.Prepare(r.A.Device, &bad); err == nil {
			r.Error("the device prepared a job without a window, count or completion queue")
		}
	})
}

func runCase(t *test, c jobCase, ea, eb engine) {
	t.Helper()
	if t.deviates(RefusedByPeer) && c.want != verbs.Success {
		t.Skip("no message tells that the peer has refused it")
	}
	if c.channel {
		c.rig.channel = got(t.B.Device.CreateCompletionChannel()).closing(t)
	}
	g := newStage(t, c.lanes, c.rig)
	g.slice = c.slice
	pa, pb := c.jobs(g)
	pb.Channel = c.rig.channel
	if c.stamped {
		stamp(pa, c.count, t.A)
		stamp(pb, c.count, t.B)
	}
	a, b := g.run(pa, pb, ea, eb, func() {})
	if c.want != verbs.Success {
		var e *verbs.CompletionError
		if !errors.Is(a.err, c.want) || !errors.As(a.err, &e) {
			t.Errorf("A ended with %v, want a CompletionError of %v", a.err, c.want)
		}
		return
	}
	if a.err != nil || b.err != nil {
		t.Fatalf("A: %v, B: %v", a.err, b.err)
	}
	a.verify(t, "A", c.size)
	b.verify(t, "B", c.size)
	switch {
	case c.pingPong && c.count > 0:
		c.checkPingPong(g, a, b)
	case c.size > 0 && c.count > 0:
		c.checkStream(g)
	}
	if c.check != nil {
		c.check(g, a, b)
	}
}

// newStage has so many pairs, at least one, whose ends may be off the processor for long.
func newStage(t *test, pairs int, o rigOptions) *stage {
	t.Helper()
	g := &stage{test: t}
	o.connect = patient
	for i := range max(pairs, 1) {
		if i > 0 {
			o.with = g.rigs[0]
		}
		g.rigs = append(g.rigs, newRig(t, o))
	}
	return g
}

// patient lets an end be off the processor for seconds, as two spinning ends on a busy machine are.
func patient(_ string, o *verbs.ConnectOptions) { o.Timeout = 18 }

func (g *stage) prepare(x *side, j *job.Job, e engine, o *outcome) (job.Runner, error) {
	j.CQs = []verbs.CompletionQueue{x.sendCQ, x.recvCQ}
	if j.Shape == job.Serve {
		j.Stop = g.stop
	}
	if j.Record == nil {
		j.Record = job.NewRecorder(64)
	}
	j.Record.Samples, j.Record.Peak, j.Record.CPU = true, true, j.NeedsGo()
	o.trace = make([]job.TraceEvent, 0, 8192) // more than any case has: a run allocates nothing
	j.Trace = func(ev job.TraceEvent) { o.trace = append(o.trace, ev) }
	o.job, o.record = j, j.Record
	for i := range j.Lanes {
		l := &j.Lanes[i]
		if len(l.Receives) > 0 {
			if err := l.PostInitial(ringReceives); err != nil {
				return nil, err
			}
		}
	}
	return e.prepare(x, j)
}

// run prepares the jobs of both ends and runs them to their ends. In between, when both are ready, it calls ready.
func (g *stage) run(a, b *job.Job, ea, eb engine, ready func()) (oa, ob outcome) {
	g.Helper()
	g.stop = new(atomic.Uint32)
	slice := g.ticks(cmp.Or(g.slice, 10*time.Millisecond))
	ra, errA := g.prepare(g.rigs[0].a, a, ea, &oa)
	rb, errB := g.prepare(g.rigs[0].b, b, eb, &ob)
	if oa.err = errors.Join(errA, errB); oa.err == nil {
		ready()
		done := make(chan struct{})
		go func() {
			defer close(done)
			g.finish(rb, slice, &ob, a.Shape == job.Serve)
		}()
		g.finish(ra, slice, &oa, b.Shape == job.Serve)
		<-done
	}
	for _, r := range []job.Runner{ra, rb} {
		if r == nil {
			continue
		}
		if err := r.Close(); err != nil {
			g.Errorf("close runner: %v", err)
		}
	}
	return oa, ob
}

// finish runs a prepared job to its end. When the other end only serves, it is told to stop.
func (g *stage) finish(r job.Runner, slice job.Ticks, o *outcome, otherServes bool) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := time.Now()
	for !o.progress.Done && o.err == nil {
		o.progress, o.err = r.Run(job.Now() + slice)
		if time.Since(start) > patience {
			o.err = errors.Join(o.err, fmt.Errorf("not done after %v: %+v", patience, o.progress))
			g.stop.Store(1)
		}
	}
	o.took = time.Since(start)
	if otherServes || o.err != nil && o.job.Shape != job.Serve {
		g.stop.Store(1)
	}
}

// verify replays a trace against the job's own numbers.
func (o *outcome) verify(t testing.TB, name string, size int) {
	t.Helper()
	lanes, samples := make([]struct{ posted, retired, received, reposted uint64 }, len(o.job.Lanes)), uint64(0)
	for i := range lanes {
		lanes[i].reposted = o.job.Lanes[i].Posted
	}
	for _, e := range o.trace {
		if e.Lane < 0 || e.Lane >= len(lanes) {
			t.Fatalf("%s: trace of lane %d of %d", name, e.Lane, len(lanes))
		}
		l, at := &o.job.Lanes[e.Lane], &lanes[e.Lane]
		want := at.posted
		switch e.Kind {
		case job.TracePost:
			at.posted++
			if at.posted-at.retired > uint64(l.Window) {
				t.Fatalf("%s lane %d: %d messages in flight, the window is %d", name, e.Lane, at.posted-at.retired, l.Window)
			}
		case job.TraceComplete:
			want = at.retired + uint64(l.Signal) - 1
			if l.Count > 0 {
				want = min(want, l.Count-1)
			}
			at.retired = e.N + 1
			samples++
			if at.retired > at.posted {
				t.Fatalf("%s lane %d: message %d completed before it was posted", name, e.Lane, e.N)
			}
		case job.TraceReceive:
			want = at.received
			at.received++
		case job.TraceRepost:
			want = at.reposted
			at.reposted++
			if l.Expect > 0 && at.reposted > l.Expect {
				t.Fatalf("%s lane %d: receive %d posted, %d expected", name, e.Lane, at.reposted, l.Expect)
			}
		}
		if e.N != want {
			t.Fatalf("%s lane %d: %v %d, want %d", name, e.Lane, e.Kind, e.N, want)
		}
	}
	var posted, completed, received uint64
	for i := range lanes {
		l, at := &o.job.Lanes[i], &lanes[i]
		posted, completed, received = posted+at.posted, completed+at.retired, received+at.received
		if l.Count > 0 && at.posted != l.Count || l.Expect > 0 && (at.received != l.Expect || at.reposted != l.Expect) {
			t.Errorf("%s lane %d: %+v, want %d messages posted and %d received", name, i, *at, l.Count, l.Expect)
		}
	}
	p := o.progress
	if p.Posted != posted || p.Completed != completed || p.Received != received {
		t.Errorf("%s: progress says %d posted, %d completed, %d received; the trace %d, %d, %d",
			name, p.Posted, p.Completed, p.Received, posted, completed, received)
	}
	if n := uint64(size); p.BytesOut != completed*n || p.BytesIn != received*n {
		t.Errorf("%s: %d bytes out, %d in, of %d and %d messages of %d", name, p.BytesOut, p.BytesIn, completed, received, n)
	}
	if o.job.Shape == job.Stream && (o.record.N != samples || (o.record.PeakTicks > 0) != (samples > 0)) {
		t.Errorf("%s: %d samples of %d completions, and a peak of %d ticks", name, o.record.N, samples, o.record.PeakTicks)
	}
	if !o.job.Abandon && p.Completed != p.Posted {
		t.Errorf("%s: done with %d of %d messages completed", name, p.Completed, p.Posted)
	}
	if p.Posted > 0 && (p.FirstPost == 0 || (p.Completed > 0 && p.LastDone <= p.FirstPost)) {
		t.Errorf("%s: first post at %d, last completion at %d", name, p.FirstPost, p.LastDone)
	}
}

// ring is n messages of one request each, at n places of the buffer.
func (x *side) ring(op verbs.Opcode, size, n int) []job.Message {
	var ring []job.Message
	for k := range n {
		q := x.request(0, op, size)
		q.Flags = 0
		q.SGEs = []verbs.SGE{x.sge(k*size, size)}
		q.RemoteAddr += uint64(k * size)
		if op == fetchAdd {
			q.RemoteAddr, q.CompareAdd = x.peer().buf.Addr(), 1
		}
		ring = append(ring, job.Message{Steps: []job.Step{{Requests: []verbs.SendRequest{q}}}, Bytes: uint64(size)})
	}
	return ring
}

// receiveRing is a ring of 32 receives in the upper half of the buffer.
func (x *side) receiveRing(size int) []verbs.ReceiveRequest {
	var ring []verbs.ReceiveRequest
	room := size
	if x.qp.Transport() == verbs.UD {
		room += verbs.GRHBytes
	}
	for k := range ringReceives {
		ring = append(ring, verbs.ReceiveRequest{ID: uint64(k), SGEs: []verbs.SGE{x.sge(x.buf.Len()/2+k*room, room)}})
	}
	return ring
}

// serve is the job of an end that only serves: it ends when the other end's has.
func serve() *job.Job { return &job.Job{Shape: job.Serve} }

// stream is a stream of count messages on every lane of one end.
func (g *stage) stream(end string, op verbs.Opcode, size int, count uint64, window, signal, batch int) *job.Job {
	g.needOpcode(op)
	if g.deviates(ReceiverNotReady) && op == send && count > ringReceives {
		g.Skip("nothing holds back SENDs that outrun the receives")
	}
	p := new(job.Job)
	for _, r := range g.rigs {
		x := r.a
		if end == "B" {
			x = r.b
		}
		fill(x.buf.Bytes()[:8*size], 6)
		p.Lanes = append(p.Lanes,
			job.Lane{QP: x.qp, Ring: x.ring(op, size, 8), Count: count, Window: window, Signal: signal, Batch: batch})
	}
	return p
}

// sink receives what a stream sends, and posts its receives again in lists; 0: as they come.
func (g *stage) sink(size int, count uint64, list int) *job.Job {
	p := new(job.Job)
	for _, r := range g.rigs {
		p.Lanes = append(p.Lanes, job.Lane{QP: r.b.qp, Receives: r.b.receiveRing(size), Expect: count, ReceiveList: list})
	}
	return p
}

// sameRings checks that the ring of messages is at the target, where it was written, or received.
func (g *stage) sameRings(size, at int) {
	g.Helper()
	for i, r := range g.rigs {
		same(g, fmt.Sprintf("lane %d", i), r.b.buf.Bytes()[at:], r.a.buf.Bytes()[:8*size])
	}
}

// jobs are those of both ends.
func (c jobCase) jobs(g *stage) (a, b *job.Job) {
	switch {
	case c.pingPong:
		a, b = c.alternating(g.rigs[0].a), c.alternating(g.rigs[0].b)
		if c.await == job.AwaitCompletion {
			b = serve()
		}
	default:
		a, b = g.stream("A", c.op, c.size, c.count, c.window, c.signal, c.batch), serve()
		if c.op == read {
			fill(g.rigs[0].b.buf.Bytes()[:8*c.size], 12)
		}
		if c.op.NeedsReceive() {
			b = g.sink(c.size, c.count, c.list)
		}
	}
	if c.edit != nil {
		c.edit(g, a, b)
	}
	return a, b
}

func (c jobCase) checkStream(g *stage) {
	g.Helper()
	x := g.rigs[0].b.buf
	switch {
	case c.op == fetchAdd:
		if got := word(x.Bytes()); got != c.count {
			g.Errorf("the counter is %d, want %d", got, c.count)
		}
	case c.op == send:
		g.sameRings(c.size, x.Len()/2)
	case c.count >= 8:
		g.sameRings(c.size, 0)
	}
}

func jobCases(t *test) []jobCase {
	long, large := 3*t.MTU.Bytes()+9, rigOptions{bytes: 256 << 10}
	cases := []jobCase{
		{
			name: "write of several packets", op: write, size: long, count: 40, window: 8, signal: 2, batch: 2, rig: large,
			slice: 200 * time.Microsecond,
		},
		{name: "read", op: read, size: long, count: 24, window: 4, signal: 1, batch: 1, rig: large},
		{name: "atomic", op: fetchAdd, size: 8, count: 30, window: 4, signal: 2, batch: 1},
		{name: "send", op: send, size: 700, count: 80, window: 16, signal: 4, batch: 4, rig: large},
		{name: "send on three queue pairs", op: send, size: 100, count: 40, window: 8, signal: 4, batch: 2, lanes: 3},
		{
			name: "receives posted in lists", op: send, size: 100, count: 163, window: 8, signal: 4, batch: 2, lanes: 2, list: 7,
		},
		{name: "write on four queue pairs", op: write, size: 64, count: 60, window: 16, signal: 8, batch: 4, lanes: 4},
		{name: "write with immediate", op: writeImmediate, size: 64, count: 40, window: 8, signal: 2, batch: 1},
		{
			name: "receives of a write posted in a list as long as the queue", op: writeImmediate, size: 64, count: 100, window: 8,
			signal: 2, batch: 1, list: ringReceives,
			edit: func(_ *stage, _, b *job.Job) {
				b.Lanes[0].Receives, b.Lanes[0].Posted = []verbs.ReceiveRequest{{}}, ringReceives
			},
		},
		{
			name: "chains of requests", op: write, size: 90, count: 30, window: 8, signal: 4, batch: 2,
			edit: requests(func(q verbs.SendRequest) []verbs.SendRequest {
				return []verbs.SendRequest{piece(q, 0, 30), piece(q, 30, 30), piece(q, 60, 30)}
			}),
		},
		{
			name: "WRITEs that READs flush", op: write, size: 90, count: 30, window: 8, signal: 4, batch: 2,
			edit: requests(func(q verbs.SendRequest) []verbs.SendRequest {
				flush := piece(q, 89, 1)
				flush.Opcode = read
				return []verbs.SendRequest{q, flush}
			}),
		},
		{
			name: "lists of one entry and of two", rig: rigOptions{qp: verbs.QueuePairOptions{SendSGEs: 2}}, op: send, size: 90,
			count: 41, window: 8, signal: 4, batch: 2, edit: requests(func(q verbs.SendRequest) []verbs.SendRequest {
				if q.SGEs[0].Addr/90%2 == 0 {
					q.SGEs = append(piece(q, 0, 30).SGEs, piece(q, 30, 60).SGEs...)
				}
				return []verbs.SendRequest{q}
			}),
		},
		{name: "events", op: send, size: 100, count: 40, window: 4, signal: 1, batch: 1, channel: true},
		{
			name: "kernels", op: write, size: 100, count: 20, window: 1, signal: 1, batch: 1, edit: packing, check: checkKernels,
		},
		{
			name: "kernels on arrival", op: send, size: 100, count: 40, window: 4, signal: 1, batch: 1, edit: unpacking,
			check: checkUnpack,
		},
		{
			name: "both directions", op: send, size: 300, count: 50, window: 8, signal: 2, batch: 2, lanes: 2,
			rig: rigOptions{bytes: 128 << 10}, edit: bothWays,
		},
	}
	// Windows, signals and batches that divide each other and that do not.
	for _, n := range []struct {
		count                 uint64
		window, signal, batch int
	}{
		{1, 1, 1, 1},
		{20, 1, 1, 1},
		{50, 16, 4, 1},
		{51, 16, 4, 2},
		{50, 16, 1, 5},
		{37, 16, 5, 3},
		{64, 16, 16, 16},
		{7, 64, 64, 4},
	} {
		name := fmt.Sprintf("write count %d window %d signal %d batch %d", n.count, n.window, n.signal, n.batch)
		cases = append(cases,
			jobCase{name: name, op: write, size: 200, count: n.count, window: n.window, signal: n.signal, batch: n.batch})
	}
	return append(append(cases, pingPongCases(t)...), endingCases()...)
}

// bothWays has B send 33 messages on each lane as well.
func bothWays(g *stage, a, b *job.Job) {
	back := g.stream("B", send, 300, 33, 8, 4, 1)
	for i, r := range g.rigs {
		a.Lanes[i].Receives, a.Lanes[i].Expect = r.a.receiveRing(300), 33
		back.Lanes[i].Receives, back.Lanes[i].Expect = b.Lanes[i].Receives, 50
	}
	*b = *back
}

// requests makes another list of each message's only request.
func requests(of func(q verbs.SendRequest) []verbs.SendRequest) func(g *stage, a, _ *job.Job) {
	return func(_ *stage, a, _ *job.Job) {
		for k := range a.Lanes[0].Ring {
			step := &a.Lanes[0].Ring[k].Steps[0]
			step.Requests = of(step.Requests[0])
		}
	}
}

// piece is n bytes of a request with one entry.
func piece(q verbs.SendRequest, at, n int) verbs.SendRequest {
	e := q.SGEs[0]
	q.SGEs = []verbs.SGE{{Addr: e.Addr + uint64(at), Length: uint32(n), LKey: e.LKey}}
	q.RemoteAddr += uint64(at)
	return q
}

// kernel is the argument of the test's kernels.
type kernel struct {
	calls int
	from  []byte
	to    []byte
}

func copyKernel(arg unsafe.Pointer) {
	k := (*kernel)(arg)
	k.calls++
	copy(k.to, k.from)
}

// copies are kernels that copy pieces of a side's memory, one behind the other.
func (x *side) copies(n, size, from, to int) (list []job.Work) {
	b := x.buf.Bytes()
	for i := range n {
		k := &kernel{from: b[from+i*size:][:size], to: b[to+i*size:][:size]}
		list = append(list, job.Work{Go: copyKernel, Arg: unsafe.Pointer(k)})
	}
	return list
}

// packing packs each half of a message before posting it, and unpacks what a READ fetched.
func packing(g *stage, p, _ *job.Job) {
	x := g.rigs[0].a
	fill(x.buf.Bytes()[32<<10:], 3)
	packs, unpacks := x.copies(16, 50, 32<<10, 0), x.copies(8, 100, 0, 48<<10)
	for k := range p.Lanes[0].Ring {
		m := &p.Lanes[0].Ring[k]
		q := m.Steps[0].Requests[0]
		m.Steps = nil
		for i := range 2 {
			m.Steps = append(m.Steps, job.Step{Pack: packs[2*k+i], Requests: []verbs.SendRequest{piece(q, 50*i, 50)}})
		}
		m.Done = unpacks[k]
	}
}

func checkKernels(g *stage, a, _ outcome) {
	b := g.rigs[0].a.buf.Bytes()
	same(g, "packed", b, b[32<<10:32<<10+800])
	same(g, "unpacked", b[48<<10:], b[:800])
	var all []job.Work
	for _, m := range a.job.Lanes[0].Ring {
		all = append(all, m.Steps[0].Pack, m.Steps[1].Pack, m.Done)
	}
	wantCalls(g, all, 3*20)
	if r := a.record; r.PackTicks == 0 || r.UnpackTicks == 0 || r.PostTicks == 0 {
		g.Errorf("ticks packing %d, unpacking %d, posting %d; want all above 0", r.PackTicks, r.UnpackTicks, r.PostTicks)
	}
}

// unpacking unpacks every message that arrives.
func unpacking(g *stage, _, b *job.Job) {
	x := g.rigs[0].b
	b.Lanes[0].Unpack = x.copies(ringReceives, 100, x.buf.Len()/2, 0)
}

func checkUnpack(g *stage, _, b outcome) {
	g.sameRings(100, 0)
	wantCalls(g, b.job.Lanes[0].Unpack, 40)
}

func wantCalls(t testing.TB, list []job.Work, want int) {
	t.Helper()
	calls := 0
	for _, w := range list {
		calls += (*kernel)(w.Arg).calls
	}
	if calls != want {
		t.Errorf("%d kernel calls, want %d", calls, want)
	}
}

func pingPongCases(t *test) []jobCase {
	clock := !t.A.Device.Info().Clock.IsZero()
	latency := jobCase{
		name: "read latency", pingPong: true, op: read, size: 64, count: 30, signal: 1, await: job.AwaitCompletion,
	}
	cases := []jobCase{latency}
	if clock {
		latency.name += " by the device's clock"
		latency.stamped, latency.rig.timestamps = true, true
		cases = append(cases, latency)
	}
	for _, transport := range []verbs.Transport{verbs.RC, verbs.UC, verbs.UD} {
		send := jobCase{
			pingPong: true, rig: rigOptions{transport: transport}, op: send, size: 64, count: 40,
			await: job.AwaitReceive,
		}
		for _, send.signal = range []int{1, 8} {
			send.name = fmt.Sprintf("%v send ping-pong signal %d", transport, send.signal)
			cases = append(cases, send)
		}
		if clock {
			send.name = transport.String() + " send ping-pong by the device's clock"
			send.stamped, send.rig.timestamps = true, true
			cases = append(cases, send)
		}
		if transport == verbs.UD {
			continue
		}
		write := jobCase{
			pingPong: true, rig: rigOptions{transport: transport}, op: write, count: 40, signal: 4,
			await: job.AwaitLastByte,
		}
		for _, write.size = range []int{2*t.MTU.Bytes() + 3, 1} {
			write.name = fmt.Sprintf("%v write ping-pong of %d bytes", transport, write.size)
			if transport == verbs.RC && write.size == 1 {
				write.count = 300 // the byte that is awaited wraps
			}
			cases = append(cases, write)
		}
	}
	return cases
}

// stamp has the samples of a job taken by the clock of its device.
func stamp(j *job.Job, samples uint64, e End) {
	j.Record = job.NewRecorder(int(samples))
	if j.Shape == job.PingPong {
		j.Record.Clock = e.Device.Info().Clock
	}
}

// alternating is one end of a ping-pong; A moves first.
func (c jobCase) alternating(x *side) *job.Job {
	l := job.Lane{
		QP: x.qp, Ring: x.ring(c.op, c.size, 1), Count: c.count, Window: 16, Signal: c.signal, Batch: 1, Await: c.await,
	}
	switch c.await {
	case job.AwaitReceive:
		l.Receives, l.Expect = x.receiveRing(c.size), c.count
	case job.AwaitLastByte: // WRITEs go from the lower half to the peer's upper half
		half := x.buf.Len() / 2
		l.Ring[0].Steps[0].Requests[0].RemoteAddr += uint64(half)
		l.FlagOut, l.FlagIn = &x.buf.Bytes()[c.size-1], &x.buf.Bytes()[half+c.size-1]
	case job.AwaitCompletion:
	}
	return &job.Job{Shape: job.PingPong, First: x == x.r.a, Lanes: []job.Lane{l}}
}

func (c jobCase) checkPingPong(g *stage, a, b outcome) {
	g.Helper()
	for i, o := range []outcome{a, b} {
		if o.job.Shape == job.Serve {
			continue
		}
		if c.stamped {
			c.checkStamped(g, o, a.took+b.took)
			continue
		}
		if want := c.count - uint64(i); o.record.N != want { // B has none of its first step
			g.Errorf("%d samples, want %d", o.record.N, want)
		}
		if o.record.Min <= 0 || o.record.Max < o.record.Min {
			g.Errorf("samples from %d to %d ticks", o.record.Min, o.record.Max)
		}
	}
}

// checkStamped holds samples by the device's clock against how long the jobs took: the first message may
// have arrived before this end's job began.
func (c jobCase) checkStamped(g *stage, o outcome, most time.Duration) {
	g.Helper()
	if o.record.N != c.count-1 || o.record.RawLen != c.count-1 {
		g.Errorf("%d samples of %d messages, %d of them kept, want one less than messages", o.record.N, c.count,
			o.record.RawLen)
	}
	if sum := time.Duration(o.record.Sum / o.record.Clock.Hz * 1e9); sum <= 0 || sum > most+most/100 {
		g.Errorf("samples of %v in all, of jobs that took %v", sum, most)
	}
	if o.record.Elapsed <= 0 || g.rate.Duration(o.record.Elapsed) > o.took+o.took/100 {
		g.Errorf("samples of %d ticks by the host's clock, of a job that took %v", o.record.Elapsed, o.took)
	}
}

// within checks how long A's messages took.
func within(least, most time.Duration) func(g *stage, a, b outcome) {
	return func(g *stage, a, _ outcome) {
		g.Helper()
		if took := g.rate.Duration(a.progress.LastDone - a.progress.FirstPost); took < least || took > most {
			g.Errorf("the messages took %v, want %v to %v", took, least, most)
		}
	}
}

func endingCases() []jobCase {
	return []jobCase{
		{
			name: "stopped within a batch", op: write, size: 64, window: 16, signal: 5, batch: 3,
			edit: func(_ *stage, a, _ *job.Job) { stopSoon(a) },
			check: func(g *stage, a, _ outcome) {
				if a.progress.Posted%5 != 0 { // none, where the machine was busy elsewhere
					g.Errorf("%d messages posted, want a multiple of 5", a.progress.Posted)
				}
				if late := a.took - 30*time.Millisecond; late > 5*time.Second {
					g.Errorf("ended %v after it was stopped", late)
				}
			},
		},
		{
			name: "stopped", op: write, size: 64, window: 16, signal: 4, batch: 2,
			edit: func(_ *stage, a, _ *job.Job) { stopSoon(a) },
		},
		{ // 2 ms apart: from the first to the last 18 ms
			name: "paced", op: write, size: 64, count: 10, window: 4, signal: 1, batch: 1,
			check: within(17500*time.Microsecond, time.Minute),
			edit:  func(g *stage, a, _ *job.Job) { a.Pace = g.ticks(2 * time.Millisecond) },
		},
		{ // 3 bursts, 20 ms apart
			name: "paced in bursts", op: write, size: 64, count: 30, window: 4, signal: 1, batch: 1,
			check: within(39500*time.Microsecond, time.Minute),
			edit:  func(g *stage, a, _ *job.Job) { a.Pace, a.Burst = g.ticks(2*time.Millisecond), 10 },
		},
		{ // one by one they take 29 s
			name: "one burst", op: write, size: 64, count: 30, window: 4, signal: 1, batch: 1, check: within(0, 15*time.Second),
			edit: func(g *stage, a, _ *job.Job) { a.Pace, a.Burst = g.ticks(time.Second), 30 },
		},
		{
			name: "failing", op: write, size: 64, count: 30, window: 8, signal: 4, batch: 1, want: verbs.RemoteAccessError,
			edit: func(_ *stage, a, _ *job.Job) { a.Lanes[0].Ring[5].Steps[0].Requests[0].RKey ^= 0x12345600 },
		},
		{
			name: "ping-pong stopped", pingPong: true, op: send, size: 64, signal: 1, await: job.AwaitReceive,
			edit: func(_ *stage, a, b *job.Job) { stopSoon(a, b) },
		},
	}
}

// stopSoon stops jobs at the same time.
func stopSoon(jobs ...*job.Job) {
	stop := new(atomic.Uint32)
	for _, j := range jobs {
		j.Stop = stop
	}
	time.AfterFunc(30*time.Millisecond, func() { stop.Store(1) })
}
