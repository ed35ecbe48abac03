package roce

import (
	"bytes"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
	"github.com/gobw/gobw/verbs/tick"
)

// runJob runs a job to its end on a thread of its own.
func runJob(t testing.TB, d *device, j *job.Job, pin int) (job.Progress, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	restore := pinThread(pin)
	defer restore()
	r, err := job.Prepare(d, j)
	if err != nil {
		return job.Progress{}, err
	}
	defer func() { check(t, r.Close()) }()
	slice := d.e.clock.Ticks(8 * time.Millisecond)
	for {
		p, err := r.Run(tick.Now() + slice)
		if err != nil || p.Done {
			return p, err
		}
	}
}

// serveJob drives a device until stop is set.
func serveJob(stop *atomic.Uint32) *job.Job { return &job.Job{Shape: job.Serve, Stop: stop} }

// streamOptions describe a stream from a to b.
type streamOptions struct {
	opcode  verbs.Opcode
	size    int
	count   uint64
	window  int
	signal  int
	batch   int
	pieces  int // scatter/gather entries of each message
	samples *job.Recorder
}

// runStream runs a stream between two ends, each on a thread of its own, and returns the sender's progress.
func runStream(t testing.TB, a, b *end, o streamOptions) job.Progress {
	t.Helper()
	window := max(o.window, 1)
	pieces := max(o.pieces, 1)
	var list []verbs.SGE
	for i := range pieces {
		n := o.size / pieces
		list = append(list, a.sge(i*2*n, n))
	}
	if pieces == 1 {
		list[0] = a.sge(0, o.size)
	}
	request := verbs.SendRequest{Opcode: o.opcode, SGEs: list, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
	send := &job.Job{Shape: job.Stream, CQs: []verbs.CompletionQueue{a.cq}, Record: o.samples, Lanes: []job.Lane{{
		QP: a.qp, Count: o.count, Window: window, Signal: max(o.signal, 1), Batch: max(o.batch, 1),
		Ring: []job.Message{{Bytes: uint64(o.size), Steps: []job.Step{{Requests: []verbs.SendRequest{request}}}}},
	}}}
	var stop atomic.Uint32
	passive := serveJob(&stop)
	if o.opcode.NeedsReceive() {
		lane := job.Lane{
			QP: b.qp, Receives: []verbs.ReceiveRequest{{SGEs: []verbs.SGE{b.sge(0, o.size)}}}, Expect: o.count,
		}
		check(t, lane.PostInitial(b.qp.Capabilities().RecvDepth))
		passive = &job.Job{Shape: job.Stream, CQs: []verbs.CompletionQueue{b.cq}, Lanes: []job.Lane{lane}}
	}
	type result struct {
		p   job.Progress
		err error
	}
	other := make(chan result, 1)
	go func() {
		p, err := runJob(t, b.device, passive, 1)
		other <- result{p, err}
	}()
	p, err := runJob(t, a.device, send, 0)
	if err != nil {
		t.Fatalf("sender: %v (%+v)\nours %v\ntheirs %v", err, p, counters(t, a), counters(t, b))
	}
	stop.Store(1)
	r := <-other
	if r.err != nil {
		t.Fatalf("receiver: %v (%+v)", r.err, r.p)
	}
	if o.opcode.NeedsReceive() && r.p.Received != o.count {
		t.Errorf("received %d messages, want %d", r.p.Received, o.count)
	}
	return p
}

func itoa(n int) string { return strconv.Itoa(n) }

func counters(t testing.TB, e *end) map[string]uint64 {
	c, err := e.device.Counters(1)
	check(t, err)
	for k, v := range c {
		if v == 0 {
			delete(c, k)
		}
	}
	return c
}

func TestStream(t *testing.T) {
	for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpSend, verbs.OpRead, verbs.OpFetchAdd} {
		sizes := []int{2, 4096, 65536}
		if op == verbs.OpFetchAdd {
			sizes = []int{8}
		}
		for _, size := range sizes {
			t.Run(op.String()+"/"+itoa(size), func(t *testing.T) {
				a, b := newPair(t, pairOptions{bytes: 1 << 20})
				a.fill(1)
				if op == verbs.OpRead {
					b.fill(9)
				}
				o := streamOptions{opcode: op, size: size, count: 2000, window: 64, signal: 4, batch: 2}
				if testing.Short() {
					o.count = 500
				}
				if op == verbs.OpFetchAdd {
					clear(b.buffer.Bytes()[:8])
				}
				start := time.Now()
				p := runStream(t, a, b, o)
				t.Logf("%v: %.0f MB/s, %.0f msg/s; %v %v", time.Since(start), float64(p.BytesOut)/time.Since(start).Seconds()/1e6,
					float64(p.Completed)/time.Since(start).Seconds(), counters(t, a), counters(t, b))
				if p.Completed != o.count {
					t.Errorf("completed %d, want %d", p.Completed, o.count)
				}
				if op != verbs.OpFetchAdd && !bytes.Equal(a.buffer.Bytes()[:size], b.buffer.Bytes()[:size]) {
					t.Error("data differ")
				}
			})
		}
	}
}

// TestSmallMessagesAcknowledged: of many small messages that wait in the socket, the first
// are acknowledged before all are taken.
func TestSmallMessagesAcknowledged(t *testing.T) {
	const messages = 200 // less than the window of a new path
	x, y := newPair(t, pairOptions{bytes: 1 << 16, depth: 256})
	for _, e := range []*end{x, y} {
		e.device.e.lock()
		defer e.device.e.unlock()
	}
	from, to := x.qp.(*queuePair), y.qp.(*queuePair)
	for i := range messages {
		check(t, to.postReceive(&verbs.ReceiveRequest{SGEs: []verbs.SGE{y.sge(0, 64)}}))
		r := verbs.SendRequest{Opcode: verbs.OpSend, SGEs: []verbs.SGE{x.sge(0, 2)}}
		if i%32 == 31 {
			r.Flags = verbs.Signaled
		}
		check(t, from.post(&r))
	}
	for from.kick(); from.request.HasWork(); {
		from.e.transmit(tick.Now())
	}
	from.e.out.Flush()
	c, now := &to.e.out.Sent, tick.Now()
	to.e.lastRound = now // however long this thread had no processor: a late round takes everything
	for begun, sent := time.Now(), c.Packets; c.Packets == sent; to.e.progress(now, 1) {
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("no ACK; %d of %d messages were received", to.recvCQ.tail, messages)
		}
	}
	if got := to.recvCQ.tail; got == messages {
		t.Errorf("the first ACK left when all %d messages had been taken", messages)
	}
}
