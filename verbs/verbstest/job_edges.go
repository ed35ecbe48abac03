package verbstest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// testJobEdges is what jobs meet besides their own work: what others left behind, and queue pairs that are not ready.
func testJobEdges(t *test) {
	for _, e := range []engine{byReference, byDevice} {
		for _, c := range []struct {
			name string
			run  func(t *test, e engine)
		}{
			{"after an abandoned job", testAbandonedJob},
			{"a stranger's completion", testForeignCompletion},
			{"prepared before it is connected", testEarlyPrepare},
			{"a channel that a queue lacks", testChannelless},
			{"messages for a job that is done", testAfterDone},
		} {
			t.Run(c.name+" by "+string(e), func(t *test) { c.run(t, e) })
		}
	}
}

// testAbandonedJob runs a job where another has left messages in flight: on more lanes, and with a longer ring.
func testAbandonedJob(t *test, e engine) {
	const size, count = 2000, 100
	o := rigOptions{bytes: 256 << 10, cqDepth: 1024, qp: verbs.QueuePairOptions{SendDepth: 256}}
	g := newStage(t, 3, o, e, byDevice)
	g.slice = time.Millisecond
	for round := range 4 { // what is in flight at the stop is a matter of luck
		long := jobCase{size: size, window: 64, signal: 1, batch: 1}.stream(g, "A")
		long.Abandon = true
		g.a.Job, g.b.Job = long, serve()
		stopBoth(g)
		g.run()
		left := g.a.progress
		if g.a.err != nil {
			t.Fatalf("round %d: the abandoned job: %v", round, g.a.err)
		}
		g.a.verify("", size)
		after := fmt.Sprintf("the job after %d of %d messages were left, ", left.Posted-left.Completed, left.Posted)
		whole := jobCase{size: size, count: count, window: 16, signal: 4, batch: 2}.stream(g, "A")
		whole.Lanes = whole.Lanes[:1]
		g.a.Job, g.b.Job = whole, serve()
		g.run()
		if g.a.err != nil {
			t.Fatalf("round %d: %s%v", round, after, g.a.err)
		}
		g.a.verify(after, size)
	}
}

// testForeignCompletion leaves a completion that no job asked for in a job's
// queue: it is not one of the job's messages.
func testForeignCompletion(t *test, e engine) {
	g := newStage(t, 1, rigOptions{}, e, byDevice)
	g.a.x.postOne(0xffff, write, 8)
	<-time.After(silence)
	jobCase{size: 8, count: 20, window: 4, signal: 1, batch: 1}.jobs(g)
	g.run()
	if p := g.a.progress; g.a.err == nil && (p.Posted != 20 || p.Completed != 20) {
		t.Errorf("%d messages posted and %d completed beside somebody else's, want 20 or an error", p.Posted, p.Completed)
	}
}

// testEarlyPrepare prepares a job of several packets a message on queue pairs that have no path yet.
func testEarlyPrepare(t *test, e engine) {
	size := 5*t.MTU.Bytes() + 7
	g := newStage(t, 1, rigOptions{short: verbs.StateRTS, bytes: 1 << 20}, e, byDevice)
	jobCase{size: size, count: 6, window: 4, signal: 2, batch: 1}.jobs(g)
	g.ready = func() { g.rigs[0].connect(rigOptions{connect: patient}) }
	g.run()
	if g.a.err != nil || g.a.progress.Completed != 6 {
		t.Fatalf("%d of 6 messages completed: %v", g.a.progress.Completed, g.a.err)
	}
	same(t, "target", g.b.x.mem, g.a.x.mem[:size])
}

// testChannelless has a job wait on a channel that its queues announce nothing on.
func testChannelless(t *test, e engine) {
	g := newStage(t, 1, rigOptions{}, e, byDevice)
	lanes := []job.Lane{{QP: g.a.x.qp, Receives: g.a.x.receiveRing(8), Expect: 1}}
	g.a.Job = &job.Job{Channel: got(t.A.Device.CreateCompletionChannel()).closing(t), Lanes: lanes}
	g.b.Job = serve()
	stopAfter(g, 5*time.Second) // an emulated processor may not come to the queue for long
	if g.run(); g.a.err == nil {
		t.Errorf("the job ran until it was stopped (%d messages), want an error that names the queue", g.a.progress.Received)
	}
}

// testAfterDone sends more messages to a job that has been stopped than it has receives posted: it posts them again.
func testAfterDone(t *test, e engine) {
	r := newRig(t, rigOptions{connect: patient})
	var stop atomic.Uint32
	stop.Store(1)
	j := job.Job{
		CQs: []verbs.CompletionQueue{r.b.sendCQ, r.b.recvCQ}, Stop: &stop,
		Lanes: []job.Lane{{QP: r.b.qp, Receives: r.b.receiveRing(8), ReceiveList: 5}},
	}
	if err := j.Lanes[0].PostInitial(ringReceives); err != nil {
		t.Fatal(err)
	}
	x := got(e.prepare(r.b, &j)).closing(t)
	r.unpolled = r.b
	p, err := x.Run(job.Now() + t.ticks(time.Second))
	for i := uint64(0); i < 3*ringReceives && err == nil; i++ {
		r.a.postOne(i, send, 8)
		r.until("A's message", func() bool {
			p, err = x.Run(job.Now() + t.ticks(100*time.Microsecond))
			return err != nil || len(r.a.sends.list) > 0
		})
		r.a.sends.want(i)
	}
	if err != nil || !p.Done || p.Received != 3*ringReceives || p.LastDone != 0 {
		t.Errorf("%+v, %v: want it done, %d messages received, and none of them measured", p, err, 3*ringReceives)
	}
}
