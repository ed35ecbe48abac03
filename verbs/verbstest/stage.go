package verbstest

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

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

// stage is one or more connected pairs that share completion queues, and a job for each end.
type stage struct {
	*test
	rigs  []*rig
	a, b  outcome
	slice time.Duration // how long each Run lasts; 10 ms
	ready func()        // is called when both jobs are prepared; nil: nothing is done
	stop  *atomic.Uint32
}

// outcome is an end's job, and how it went.
type outcome struct {
	*job.Job
	x        *side
	by       engine
	progress job.Progress
	err      error
	trace    []job.TraceEvent
	took     time.Duration
}

// newStage has so many pairs, at least one, whose ends may be off the processor for long.
func newStage(t *test, pairs int, o rigOptions, a, b engine) *stage {
	t.Helper()
	g := &stage{test: t}
	o.connect = patient
	for i := range max(pairs, 1) {
		if i > 0 {
			o.with = g.rigs[0]
		}
		g.rigs = append(g.rigs, newRig(t, o))
	}
	g.a, g.b = outcome{x: g.rigs[0].a, by: a}, outcome{x: g.rigs[0].b, by: b}
	return g
}

// patient lets an end be off the processor for seconds, as two spinning ends on a busy machine are.
func patient(_ string, o *verbs.ConnectOptions) { o.Timeout = 18 }

// prepare has the job traced and recorded, posts its receives, and compiles it.
func (o *outcome) prepare(g *stage) (job.Runner, error) {
	o.CQs = []verbs.CompletionQueue{o.x.sendCQ, o.x.recvCQ}
	if o.Shape == job.Serve {
		o.Stop = g.stop
	}
	if o.Record == nil {
		o.Record = job.NewRecorder(64)
	}
	o.Record.Samples, o.Record.Peak, o.Record.CPU = true, true, o.NeedsGo()
	o.progress, o.err = job.Progress{}, nil
	o.trace = make([]job.TraceEvent, 0, 8192) // more than any case has: a run allocates nothing
	o.Trace = func(ev job.TraceEvent) { o.trace = append(o.trace, ev) }
	for i := range o.Lanes {
		if l := &o.Lanes[i]; len(l.Receives) > 0 {
			if err := l.PostInitial(ringReceives); err != nil {
				return nil, err
			}
		}
	}
	return o.by.prepare(o.x, o.Job)
}

// run prepares the jobs of both ends and runs them to their ends.
func (g *stage) run() {
	g.Helper()
	g.stop = new(atomic.Uint32)
	ra, errA := g.a.prepare(g)
	rb, errB := g.b.prepare(g)
	if g.a.err = errors.Join(errA, errB); g.a.err == nil {
		if g.ready != nil {
			g.ready()
		}
		slice, done := g.ticks(cmp.Or(g.slice, 10*time.Millisecond)), make(chan struct{})
		go func() {
			defer close(done)
			g.finish(rb, slice, &g.b, &g.a)
		}()
		g.finish(ra, slice, &g.a, &g.b)
		<-done
	}
	for _, r := range []job.Runner{ra, rb} {
		if r != nil {
			closeAll(g, r)
		}
	}
}

// finish runs a prepared job to its end. When the other end only serves, it is told to stop.
func (g *stage) finish(r job.Runner, slice job.Ticks, o, other *outcome) {
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
	if other.Shape == job.Serve || o.err != nil && o.Shape != job.Serve {
		g.stop.Store(1)
	}
}

// verify replays a trace against the job's own numbers.
func (o *outcome) verify(what string, size int) {
	t := o.x.r
	t.Helper()
	what += o.x.name
	lanes, samples := make([][4]uint64, len(o.Lanes)), uint64(0) // of each lane, how many events of each kind
	for i := range lanes {
		lanes[i][job.TraceRepost] = o.Lanes[i].Posted
	}
	for _, e := range o.trace {
		if e.Lane < 0 || e.Lane >= len(lanes) {
			t.Fatalf("%s: trace of lane %d of %d", what, e.Lane, len(lanes))
		}
		l, at := &o.Lanes[e.Lane], &lanes[e.Lane]
		want := at[e.Kind]
		if e.Kind == job.TraceComplete {
			samples++
			want += uint64(l.Signal) - 1
			if l.Count > 0 {
				want = min(want, l.Count-1)
			}
		}
		if e.N != want {
			t.Fatalf("%s lane %d: %v %d, want %d", what, e.Lane, e.Kind, e.N, want)
		}
		at[e.Kind] = e.N + 1
		if flying := at[job.TracePost] - at[job.TraceComplete]; flying > uint64(l.Window) { // less than none, too
			t.Fatalf("%s lane %d: %d messages in flight, the window is %d", what, e.Lane, int64(flying), l.Window)
		}
		if n := at[job.TraceRepost]; l.Expect > 0 && n > l.Expect {
			t.Fatalf("%s lane %d: receive %d posted, %d expected", what, e.Lane, n, l.Expect)
		}
	}
	var sum [4]uint64
	for i, at := range lanes {
		for k, n := range at {
			sum[k] += n
		}
		l := &o.Lanes[i]
		arrived := at[job.TraceReceive] == l.Expect && at[job.TraceRepost] == l.Expect
		if l.Count > 0 && at[job.TracePost] != l.Count || l.Expect > 0 && !arrived {
			t.Errorf("%s lane %d: %v, want %d messages posted and %d received", what, i, at, l.Count, l.Expect)
		}
	}
	p, n := o.progress, uint64(size)
	if told := [3]uint64{p.Posted, p.Completed, p.Received}; told != [3]uint64(sum[:3]) {
		t.Errorf("%s: progress says %v posted, completed and received; the trace %v", what, told, sum[:3])
	}
	if p.BytesOut != p.Completed*n || p.BytesIn != p.Received*n {
		t.Errorf("%s: %d bytes out, %d in, of %d and %d messages of %d", what, p.BytesOut, p.BytesIn, p.Completed,
			p.Received, n)
	}
	if r := o.Record; o.Shape == job.Stream && (r.N != samples || (r.PeakTicks > 0) != (samples > 0)) {
		t.Errorf("%s: %d samples of %d completions, and a peak of %d ticks", what, r.N, samples, r.PeakTicks)
	}
	if !o.Abandon && p.Completed != p.Posted {
		t.Errorf("%s: done with %d of %d messages completed", what, p.Completed, p.Posted)
	}
	if p.Posted > 0 && (p.FirstPost == 0 || (p.Completed > 0 && p.LastDone <= p.FirstPost)) {
		t.Errorf("%s: first post at %d, last completion at %d", what, p.FirstPost, p.LastDone)
	}
}

// ring is n messages of one request each, at n places of the buffer.
func (x *side) ring(op verbs.Opcode, size, n int) (ring []job.Message) {
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
func (x *side) receiveRing(size int) (ring []verbs.ReceiveRequest) {
	room := size + x.r.grh()
	for k := range ringReceives {
		ring = append(ring, verbs.ReceiveRequest{ID: uint64(k), SGEs: []verbs.SGE{x.sge(x.buf.Len()/2+k*room, room)}})
	}
	return ring
}

// serve is the job of an end that only serves: it ends when the other end's has.
func serve() *job.Job { return &job.Job{Shape: job.Serve} }

// sameRings checks that the ring of messages is at the target, where it was written, or received.
func (g *stage) sameRings(size, at int) {
	g.Helper()
	for i, r := range g.rigs {
		same(g, fmt.Sprintf("lane %d", i), r.b.mem[at:], r.a.mem[:8*size])
	}
}

// stopBoth stops both jobs at the same time, but for one that serves, which ends by itself.
func stopBoth(g *stage) { stopAfter(g, 30*time.Millisecond) }

// stopAfter does so later.
func stopAfter(g *stage, after time.Duration) {
	stop := new(atomic.Uint32)
	g.a.Stop, g.b.Stop = stop, stop
	time.AfterFunc(after, func() { stop.Store(1) })
}
