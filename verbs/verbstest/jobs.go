package verbstest

import (
	"errors"
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// jobCase is a job for both ends, and what must hold afterwards. It is a stream of messages of one kind from A to B,
// or a ping-pong, which edit may change. What a stream of a count has sent is compared with what has arrived, and what
// a ping-pong has sent with its samples.
type jobCase struct {
	name  string
	rig   rigOptions
	slice time.Duration // see stage

	op                    verbs.Opcode // the zero value is a WRITE
	size                  int
	count                 uint64
	window, signal, batch int
	lanes, list           int  // queue pairs, 0: 1; receives posted again as one list
	pingPong              bool // not a stream: what ends a step is await, and A moves first
	await                 job.Await
	stamped               bool // samples by the device's clock
	edit, check           func(g *stage)
	want                  verbs.Status // the status A's job fails with; Success: none
	channel               bool         // B waits for events
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

func runCase(t *test, c jobCase, a, b engine) {
	t.Helper()
	if t.deviates(RefusedByPeer) && c.want != verbs.Success {
		t.Skip("no message tells that the peer has refused it")
	}
	if c.channel {
		c.rig.channel = got(t.B.Device.CreateCompletionChannel()).closing(t)
	}
	g := newStage(t, c.lanes, c.rig, a, b)
	g.slice = c.slice
	c.jobs(g)
	g.b.Channel = c.rig.channel
	g.run()
	if c.want != verbs.Success {
		var e *verbs.CompletionError
		if !errors.Is(g.a.err, c.want) || !errors.As(g.a.err, &e) {
			t.Errorf("A ended with %v, want a CompletionError of %v", g.a.err, c.want)
		}
		return
	}
	if g.a.err != nil || g.b.err != nil {
		t.Fatalf("A: %v, B: %v", g.a.err, g.b.err)
	}
	g.a.verify("", c.size)
	g.b.verify("", c.size)
	switch {
	case c.count == 0:
	case c.pingPong:
		c.checkPingPong(g)
	default:
		c.checkStream(g)
	}
	if c.check != nil {
		c.check(g)
	}
}

// stream is the case's stream on every lane of one end.
func (c jobCase) stream(g *stage, from string) *job.Job {
	g.needOpcode(c.op)
	if c.op == send && c.count > ringReceives && g.deviates(ReceiverNotReady) {
		g.Skip("nothing holds back SENDs that outrun the receives")
	}
	p := new(job.Job)
	for _, r := range g.rigs {
		x := r.side(from)
		fill(x.mem[:8*c.size], 6)
		p.Lanes = append(p.Lanes, job.Lane{
			QP: x.qp, Ring: x.ring(c.op, c.size, 8), Count: c.count, Window: c.window, Signal: c.signal, Batch: c.batch,
		})
	}
	return p
}

// jobs makes those of both ends.
func (c jobCase) jobs(g *stage) {
	a, b := &g.a, &g.b
	b.Job = serve()
	switch {
	case c.pingPong:
		a.Job = c.alternating(a.x)
		if c.await != job.AwaitCompletion {
			b.Job = c.alternating(b.x)
		}
	default:
		a.Job = c.stream(g, "A")
		if c.op == read {
			fill(b.x.mem[:8*c.size], 12)
		}
		if c.op.NeedsReceive() {
			b.Job = new(job.Job)
			for _, r := range g.rigs {
				b.Lanes = append(b.Lanes,
					job.Lane{QP: r.b.qp, Receives: r.b.receiveRing(c.size), Expect: c.count, ReceiveList: c.list})
			}
		}
	}
	for _, o := range []*outcome{a, b} {
		if c.stamped && o.Shape == job.PingPong { // samples by the device's clock
			o.Record = job.NewRecorder(int(c.count))
			o.Record.Clock = o.x.end.Device.Info().Clock
		}
	}
	if c.edit != nil {
		c.edit(g)
	}
}

func (c jobCase) checkStream(g *stage) {
	g.Helper()
	half := g.b.x.buf.Len() / 2
	switch {
	case c.op == fetchAdd:
		if got := word(g.b.x.mem); got != c.count {
			g.Errorf("the counter is %d, want %d", got, c.count)
		}
	case c.op == send:
		g.sameRings(c.size, half)
	case c.count >= 8:
		g.sameRings(c.size, 0)
	}
}

func jobCases(t *test) []jobCase {
	long, large := 3*t.MTU.Bytes()+9, rigOptions{bytes: 256 << 10}
	cases := []jobCase{
		{
			name: "write of several packets", size: long, count: 40, window: 8, signal: 2, batch: 2, rig: large,
			slice: 200 * time.Microsecond,
		},
		{name: "read", op: read, size: long, count: 24, window: 4, signal: 1, batch: 1, rig: large},
		{name: "atomic", op: fetchAdd, size: 8, count: 30, window: 4, signal: 2, batch: 1},
		{name: "send", op: send, size: 700, count: 80, window: 16, signal: 4, batch: 4, rig: large},
		{name: "send on three queue pairs", op: send, size: 100, count: 40, window: 8, signal: 4, batch: 2, lanes: 3},
		{
			name: "receives posted in lists", op: send, size: 100, count: 163, window: 8, signal: 4, batch: 2, lanes: 2, list: 7,
		},
		{name: "write on four queue pairs", size: 64, count: 60, window: 16, signal: 8, batch: 4, lanes: 4},
		{name: "write with immediate", op: writeImmediate, size: 64, count: 40, window: 8, signal: 2, batch: 1},
		{
			name: "receives of a write posted in a list as long as the queue", op: writeImmediate, size: 64,
			count: 100, window: 8,
			signal: 2, batch: 1, list: ringReceives,
			edit: func(g *stage) {
				g.b.Lanes[0].Receives, g.b.Lanes[0].Posted = []verbs.ReceiveRequest{{}}, ringReceives
			},
		},
		{
			name: "chains of requests", size: 90, count: 30, window: 8, signal: 4, batch: 2,
			edit: requests(func(q verbs.SendRequest) []verbs.SendRequest {
				return []verbs.SendRequest{piece(q, 0, 30), piece(q, 30, 30), piece(q, 60, 30)}
			}),
		},
		{
			name: "WRITEs that READs flush", size: 90, count: 30, window: 8, signal: 4, batch: 2,
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
			name: "kernels", size: 100, count: 20, window: 1, signal: 1, batch: 1, edit: packing, check: checkKernels,
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
			jobCase{name: name, size: 200, count: n.count, window: n.window, signal: n.signal, batch: n.batch})
	}
	return append(append(cases, pingPongCases(t)...), endingCases()...)
}

// bothWays has B send 33 messages on each lane as well.
func bothWays(g *stage) {
	back := jobCase{op: send, size: 300, count: 33, window: 8, signal: 4, batch: 1}.stream(g, "B")
	for i, r := range g.rigs {
		g.a.Lanes[i].Receives, g.a.Lanes[i].Expect = r.a.receiveRing(300), 33
		back.Lanes[i].Receives, back.Lanes[i].Expect = g.b.Lanes[i].Receives, 50
	}
	g.b.Job = back
}

// requests makes another list of each message's only request.
func requests(of func(q verbs.SendRequest) []verbs.SendRequest) func(g *stage) {
	return func(g *stage) {
		for _, m := range g.a.Lanes[0].Ring {
			m.Steps[0].Requests = of(m.Steps[0].Requests[0])
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
	b := x.mem
	for i := range n {
		k := &kernel{from: b[from+i*size:][:size], to: b[to+i*size:][:size]}
		list = append(list, job.Work{Go: copyKernel, Arg: unsafe.Pointer(k)})
	}
	return list
}

// packing packs each half of a message before posting it, and unpacks what a READ fetched.
func packing(g *stage) {
	x := g.a.x
	fill(x.mem[32<<10:], 3)
	packs, unpacks := x.copies(16, 50, 32<<10, 0), x.copies(8, 100, 0, 48<<10)
	for k := range g.a.Lanes[0].Ring {
		m := &g.a.Lanes[0].Ring[k]
		q := m.Steps[0].Requests[0]
		m.Steps = nil
		for i := range 2 {
			m.Steps = append(m.Steps, job.Step{Pack: packs[2*k+i], Requests: []verbs.SendRequest{piece(q, 50*i, 50)}})
		}
		m.Done = unpacks[k]
	}
}

func checkKernels(g *stage) {
	b := g.a.x.mem
	same(g, "packed", b, b[32<<10:32<<10+800])
	same(g, "unpacked", b[48<<10:], b[:800])
	var all []job.Work
	for _, m := range g.a.Lanes[0].Ring {
		all = append(all, m.Steps[0].Pack, m.Steps[1].Pack, m.Done)
	}
	wantCalls(g, all, 3*20)
	if r := g.a.Record; r.PackTicks == 0 || r.UnpackTicks == 0 || r.PostTicks == 0 {
		g.Errorf("ticks packing %d, unpacking %d, posting %d; want all above 0", r.PackTicks, r.UnpackTicks, r.PostTicks)
	}
}

// unpacking unpacks every message that arrives.
func unpacking(g *stage) {
	x := g.b.x
	g.b.Lanes[0].Unpack = x.copies(ringReceives, 100, x.buf.Len()/2, 0)
}

func checkUnpack(g *stage) {
	g.sameRings(100, 0)
	wantCalls(g, g.b.Lanes[0].Unpack, 40)
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
	for _, transport := range transports() {
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
			pingPong: true, rig: rigOptions{transport: transport}, count: 40, signal: 4,
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
		l.FlagOut, l.FlagIn = &x.mem[c.size-1], &x.mem[half+c.size-1]
	case job.AwaitCompletion:
	}
	return &job.Job{Shape: job.PingPong, First: x == x.r.a, Lanes: []job.Lane{l}}
}

func (c jobCase) checkPingPong(g *stage) {
	g.Helper()
	for i, o := range []outcome{g.a, g.b} {
		switch r := o.Record; {
		case o.Shape == job.Serve:
		case c.stamped:
			c.checkStamped(g, o, g.a.took+g.b.took)
		case r.N != c.count-uint64(i): // B has none of its first step
			g.Errorf("%d samples, want %d", r.N, c.count-uint64(i))
		case r.Min <= 0 || r.Max < r.Min:
			g.Errorf("samples from %d to %d ticks", r.Min, r.Max)
		}
	}
}

// checkStamped holds samples by the device's clock against how long the jobs took: the first message may
// have arrived before this end's job began.
func (c jobCase) checkStamped(g *stage, o outcome, most time.Duration) {
	g.Helper()
	r := o.Record
	if r.N != c.count-1 || r.RawLen != c.count-1 {
		g.Errorf("%d samples of %d messages, %d of them kept, want one less than messages", r.N, c.count, r.RawLen)
	}
	if sum := time.Duration(r.Sum / r.Clock.Hz * 1e9); sum <= 0 || sum > most+most/100 {
		g.Errorf("samples of %v in all, of jobs that took %v", sum, most)
	}
	if r.Elapsed <= 0 || g.rate.Duration(r.Elapsed) > o.took+o.took/100 {
		g.Errorf("samples of %d ticks by the host's clock, of a job that took %v", r.Elapsed, o.took)
	}
}

// within checks how long A's messages took.
func within(least, most time.Duration) func(g *stage) {
	return func(g *stage) {
		g.Helper()
		if took := g.rate.Duration(g.a.progress.LastDone - g.a.progress.FirstPost); took < least || took > most {
			g.Errorf("the messages took %v, want %v to %v", took, least, most)
		}
	}
}

// paced gives A's messages a time between their starts, and bursts.
func paced(pace time.Duration, burst int) func(g *stage) {
	return func(g *stage) { g.a.Pace, g.a.Burst = g.ticks(pace), burst }
}

func endingCases() []jobCase {
	return []jobCase{
		{
			name: "stopped within a batch", size: 64, window: 16, signal: 5, batch: 3, edit: stopBoth,
			check: func(g *stage) {
				if g.a.progress.Posted%5 != 0 { // none, where the machine was busy elsewhere
					g.Errorf("%d messages posted, want a multiple of 5", g.a.progress.Posted)
				}
				if late := g.a.took - 30*time.Millisecond; late > 5*time.Second {
					g.Errorf("ended %v after it was stopped", late)
				}
			},
		},
		{name: "stopped", size: 64, window: 16, signal: 4, batch: 2, edit: stopBoth},
		{ // 2 ms apart: from the first to the last 18 ms
			name: "paced", size: 64, count: 10, window: 4, signal: 1, batch: 1,
			edit: paced(2*time.Millisecond, 0), check: within(17500*time.Microsecond, time.Minute),
		},
		{ // 3 bursts, 20 ms apart
			name: "paced in bursts", size: 64, count: 30, window: 4, signal: 1, batch: 1,
			edit: paced(2*time.Millisecond, 10), check: within(39500*time.Microsecond, time.Minute),
		},
		{ // one by one they take 29 s
			name: "one burst", size: 64, count: 30, window: 4, signal: 1, batch: 1,
			edit: paced(time.Second, 30), check: within(0, 15*time.Second),
		},
		{
			name: "failing", size: 64, count: 30, window: 8, signal: 4, batch: 1, want: verbs.RemoteAccessError,
			edit: func(g *stage) { g.a.Lanes[0].Ring[5].Steps[0].Requests[0].RKey ^= 0x12345600 },
		},
		{
			name: "ping-pong stopped", pingPong: true, op: send, size: 64, signal: 1, await: job.AwaitReceive, edit: stopBoth,
		},
	}
}
