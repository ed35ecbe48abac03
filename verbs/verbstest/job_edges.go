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
	g := newStage(t, 3, rigOptions{bytes: 256 << 10, cqDepth: 1024, qp: verbs.QueuePairOptions{SendDepth: 256}})
	g.slice = time.Millisecond
	for round := range 4 { // what is in flight at the stop is a matter of luck
		long, whole, b := g.stream("A", write, size, 0, 64, 1, 1), g.stream("A", write, size, count, 16, 4,
			2), serve()
		long.Abandon = true
		stopSoon(long)
		left, _ := g.run(long, b, e, byDevice, func() {})
		if left.err != nil {
			t.Fatalf("round %d: the abandoned job: %v", round, left.err)
		}
		left.verify(t, "A", size)
		lost := left.progress.Posted - left.progress.Completed
		whole.Lanes = whole.Lanes[:1]
		a, _ := g.run(whole, b, e, byDevice, func() {})
		if a.err != nil {
			t.Fatalf("round %d: the job after one that left %d of %d messages: %v", round, lost, left.progress.Posted, a.err)
		}
		a.verify(t, fmt.Sprintf("the job after %d of %d messages were left, A", lost, left.progress.Posted), size)
	}
}

// testForeignCompletion leaves a completion that no job asked for in a job's
// queue: it is not one of the job's messages.
func testForeignCompletion(t *test, e engine) {
	g := newStage(t, 1, rigOptions{})
	r := g.rigs[0]
	r.a.postOne(0xffff, write, 8)
	<-time.After(silence)
	a, b := g.stream("A", write, 8, 20, 4, 1, 1), serve()
	oa, _ := g.run(a, b, e, byDevice, func() {})
	if p := oa.progress; oa.err == nil && (p.Posted != 20 || p.Completed != 20) {
		t.Errorf("%d messages posted and %d completed beside somebody else's, want 20 or an error", p.Posted, p.Completed)
	}
}

// testEarlyPrepare prepares a job of several packets a message on queue pairs that have no path yet.
func testEarlyPrepare(t *test, e engine) {
	size := 5*t.MTU.Bytes() + 7
	r := newRig(t, rigOptions{short: verbs.StateRTS, bytes: 1 << 20})
	g := &stage{test: t, rigs: []*rig{r}}
	a, b := g.stream("A", write, size, 6, 4, 2, 1), serve()
	oa, _ := g.run(a, b, e, byDevice, func() { r.connect(rigOptions{connect: patient}) })
	if oa.err != nil || oa.progress.Completed != 6 {
		t.Fatalf("%d of 6 messages completed: %v", oa.progress.Completed, oa.err)
	}
	same(t, "target", r.b.buf.Bytes(), r.a.buf.Bytes()[:size])
}

// testChannelless has a job wait on a channel that its queues announce nothing on.
func testChannelless(t *test, e engine) {
	g := newStage(t, 1, rigOptions{})
	r := g.rigs[0]
	ch := got(t.A.Device.CreateCompletionChannel()).closing(t)
	a := &job.Job{Channel: ch, Lanes: []job.Lane{{QP: r.a.qp, Receives: r.a.receiveRing(8), Expect: 1}}}
	stopSoon(a)
	if oa, _ := g.run(a, serve(), e, byDevice, func() {}); oa.err == nil {
		t.Errorf("the job ran until it was stopped (%d messages), want an error that names the queue", oa.progress.Received)
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
