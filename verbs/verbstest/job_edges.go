package verbstest

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
	"github.com/gobw/gobw/verbs/tick"
)

// testJobEdges is what jobs meet besides their own work: what others left behind, and queue pairs that are not ready.
func testJobEdges(t *testing.T, s *suite) {
	clock := tick.Start()
	millisecond := job.Ticks(clock.PerNanosecond() * 1e6)
	for _, e := range []engine{byReference, byDevice} {
		t.Run("after an abandoned job by "+string(e), func(t *testing.T) { testAbandonedJob(t, s, e, millisecond) })
		t.Run("a stranger's completion by "+string(e), func(t *testing.T) { testForeignCompletion(t, s, e, millisecond) })
		t.Run("prepared before it is connected by "+string(e), func(t *testing.T) { testEarlyPrepare(t, s, e, millisecond) })
		t.Run("a channel that a queue lacks by "+string(e), func(t *testing.T) { testChannelless(t, s, e, millisecond) })
		t.Run("messages for a job that is done by "+string(e), func(t *testing.T) { testAfterDone(t, s, e, millisecond) })
	}
}

// runBeside runs a's job by e while b's device serves it, and returns how it ended.
func runBeside(t *testing.T, s *suite, e engine, x *side, j *job.Job, slice job.Ticks) (job.Progress, error) {
	t.Helper()
	defer serving(t, s, slice)()
	r, err := e.prepare(x, j)
	if err != nil {
		return job.Progress{}, err
	}
	return runPrepared(t, r, slice)
}

// serving has b's device serve until the function that it returns is called.
func serving(t *testing.T, s *suite, slice job.Ticks) (stopServing func()) {
	t.Helper()
	var stop atomic.Uint32
	served := make(chan error, 1)
	go func() {
		r, err := job.Prepare(s.pair.B.Device, &job.Job{Shape: job.Serve, Stop: &stop})
		for p := (job.Progress{}); err == nil && !p.Done; {
			p, err = r.Run(job.Now() + slice)
		}
		if r != nil {
			_ = r.Close()
		}
		served <- err
	}()
	return func() {
		stop.Store(1)
		if err := <-served; err != nil {
			t.Errorf("B: %v", err)
		}
	}
}

func runPrepared(t *testing.T, r job.Runner, slice job.Ticks) (p job.Progress, err error) {
	t.Helper()
	defer func() {
		if err := r.Close(); err != nil {
			t.Errorf("close runner: %v", err)
		}
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for start := time.Now(); err == nil && !p.Done; {
		p, err = r.Run(job.Now() + slice)
		if time.Since(start) > patience {
			t.Fatalf("not done after %v: %+v", patience, p)
		}
	}
	return p, err
}

// testAbandonedJob runs a job where another has left messages in flight: on more lanes, and with a longer ring.
func testAbandonedJob(t *testing.T, s *suite, e engine, millisecond job.Ticks) {
	const size, count = 2000, 100
	o := rigOptions{connect: patient, bytes: 256 << 10, cqDepth: 1024}
	o.qp.SendDepth = 256
	g := &stage{t: t}
	for i := range 3 {
		if i > 0 {
			o.with = g.rigs[0]
		}
		g.rigs = append(g.rigs, newRig(t, s, o))
	}
	a := g.rigs[0].a
	for round := range 4 { // what is in flight at the deadline is a matter of luck
		long := g.stream("A", verbs.OpWrite, size, 0, 64, 1, 1).job
		long.CQs = []verbs.CompletionQueue{a.sendCQ, a.recvCQ}
		long.Deadline, long.AbandonAtDeadline = job.Now()+3*millisecond, true
		left, err := runBeside(t, s, e, a, &long, millisecond)
		if err != nil {
			t.Fatalf("round %d: the abandoned job: %v", round, err)
		}
		whole := job.Job{CQs: long.CQs, Lanes: g.stream("A", verbs.OpWrite, size, count, 16, 4, 2).job.Lanes[:1]}
		p, err := runBeside(t, s, e, a, &whole, 10*millisecond)
		if err != nil {
			t.Fatalf("round %d: the job after one that left %d of %d messages: %v", round, left.Posted-left.Completed, left.Posted, err)
		}
		if p.Posted != count || p.Completed != count || p.BytesOut != count*size {
			t.Errorf("round %d: %d messages posted, %d completed, %d bytes; want %d, %d, %d (%d were left)",
				round, p.Posted, p.Completed, p.BytesOut, count, count, count*size, left.Posted-left.Completed)
		}
	}
}

// testForeignCompletion leaves a completion that no job asked for in a job's queue: it is not one of the job's messages.
func testForeignCompletion(t *testing.T, s *suite, e engine, millisecond job.Ticks) {
	r := newRig(t, s, rigOptions{connect: patient})
	if err := r.a.qp.PostSend([]verbs.SendRequest{r.a.request(0xffff, verbs.OpWrite, 8)}); err != nil {
		t.Fatal(err)
	}
	<-time.After(silence)
	j := job.Job{CQs: []verbs.CompletionQueue{r.a.sendCQ, r.a.recvCQ}, Lanes: []job.Lane{{
		QP: r.a.qp, Ring: r.a.ring(verbs.OpWrite, 8, 1), Count: 20, Window: 4, Signal: 1, Batch: 1,
	}}}
	p, err := runBeside(t, s, e, r.a, &j, 10*millisecond)
	if err == nil && (p.Posted != 20 || p.Completed != 20) {
		t.Errorf("%d messages posted and %d completed beside somebody else's, want 20 or an error", p.Posted, p.Completed)
	}
}

// testEarlyPrepare prepares a job of several packets a message on queue pairs that have no path yet.
func testEarlyPrepare(t *testing.T, s *suite, e engine, millisecond job.Ticks) {
	size := 5*s.pair.MTU.Bytes() + 7
	r := newRig(t, s, rigOptions{stay: Yes, bytes: 1 << 20})
	fill(r.a.buf.Bytes()[:size], 9)
	j := job.Job{CQs: []verbs.CompletionQueue{r.a.sendCQ, r.a.recvCQ}, Lanes: []job.Lane{{
		QP: r.a.qp, Ring: r.a.ring(verbs.OpWrite, size, 1), Count: 6, Window: 4, Signal: 2, Batch: 1,
	}}}
	early, err := e.prepare(r.a, &j)
	if err != nil {
		t.Fatalf("prepare: %v", err)
	}
	r.connect(rigOptions{connect: patient})
	defer serving(t, s, 10*millisecond)()
	p, err := runPrepared(t, early, 10*millisecond)
	if err != nil || p.Completed != 6 {
		t.Fatalf("%d of 6 messages completed: %v", p.Completed, err)
	}
	if d := firstDifference(r.a.buf.Bytes()[:size], r.b.buf.Bytes()); d >= 0 {
		t.Errorf("byte %d of %d differs", d, size)
	}
}

// testChannelless has a job wait on a channel that its queues announce nothing on.
func testChannelless(t *testing.T, s *suite, e engine, millisecond job.Ticks) {
	r := newRig(t, s, rigOptions{connect: patient})
	ch := got(s.pair.A.Device.CreateCompletionChannel()).closing(t, "channel")
	j := job.Job{
		CQs: []verbs.CompletionQueue{r.a.sendCQ, r.a.recvCQ}, Channel: ch, Deadline: job.Now() + 2000*millisecond,
		Lanes: []job.Lane{{QP: r.a.qp, Receives: r.a.receives(8), Expect: 1}},
	}
	if p, err := runBeside(t, s, e, r.a, &j, 10*millisecond); err == nil {
		t.Errorf("the job ran to its deadline (%d messages), want an error that names the queue", p.Received)
	}
}

// testAfterDone sends more messages to a job that has been stopped than it has receives posted: it posts them again.
func testAfterDone(t *testing.T, s *suite, e engine, millisecond job.Ticks) {
	r := newRig(t, s, rigOptions{connect: patient})
	var stop atomic.Uint32
	stop.Store(1)
	j := job.Job{CQs: []verbs.CompletionQueue{r.b.sendCQ, r.b.recvCQ}, Stop: &stop, Lanes: []job.Lane{{QP: r.b.qp, Receives: r.b.receives(8), ReceiveList: 5}}}
	if err := j.Lanes[0].PostInitial(ringReceives); err != nil {
		t.Fatal(err)
	}
	x := got(e.prepare(r.b, &j)).closing(t, "job")
	p, err := x.Run(job.Now() + 1000*millisecond)
	for i := uint64(0); i < 3*ringReceives && err == nil; i++ {
		r.a.post(r.a.request(i, verbs.OpSend, 8))
		for deadline := time.Now().Add(patience); len(r.a.sends) == 0 && err == nil && time.Now().Before(deadline); r.pollSends() {
			p, err = x.Run(job.Now() + millisecond/10)
		}
		r.untilSent(i)
	}
	if err != nil || !p.Done || p.Received != 3*ringReceives || p.LastDone != 0 {
		t.Errorf("%+v, %v: want it done, %d messages received, and none of them measured", p, err, 3*ringReceives)
	}
}
