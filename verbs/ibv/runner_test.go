//go:build linux && cgo

package ibv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// shape is a stream without trace and record, as the quick loops run it. The suite of verbs/verbstest traces every job
// and so sees the general loop alone; here both are held against the reference.
type shape struct {
	op                    verbs.Opcode
	transport             verbs.Transport
	qps                   int
	count                 uint64
	window, signal, batch int
	ring                  int
	mixed                 bool // every third message is a quarter as long, of two entries
	both                  bool // in both directions
	srq                   bool
	list                  int // receives posted again at a time
	api                   verbs.PostAPI
}

func (s shape) String() string {
	return fmt.Sprintf("%v %v qps=%d count=%d window=%d signal=%d batch=%d ring=%d mixed=%t both=%t srq=%t list=%d",
		s.transport, s.op, s.qps, s.count, s.window, s.signal, s.batch, s.ring, s.mixed, s.both, s.srq, s.list)
}

// jobs makes the jobs of both ends.
func (s shape) jobs(x, y *endpoint, srq verbs.SharedReceiveQueue) (a, b *job.Job) {
	const size = 32
	make1 := func(e, peer *endpoint, sends, receives bool) *job.Job {
		j := &job.Job{Shape: job.Stream, CQs: []verbs.CompletionQueue{e.cq}}
		for i := range s.qps {
			l := job.Lane{QP: e.qps[i], Window: s.window, Signal: s.signal, Batch: s.batch}
			if sends {
				l.Ring, l.Count = e.ring(s.op, s.ring, size, peer, i), s.count
			}
			for k := 0; s.mixed && k < len(l.Ring); k += 3 {
				r := &l.Ring[k].Steps[0].Requests[0]
				half := r.SGEs[0]
				half.Length = size / 8
				l.Ring[k].Bytes, r.SGEs = size/4, []verbs.SGE{half, half}
			}
			if receives {
				room := size
				if s.transport == verbs.UD {
					room += 40
				}
				l.Receives, l.Expect, l.ReceiveList = e.receives(64, room), s.count, s.list
				if e == y {
					l.SRQ = srq
				}
			}
			j.Lanes = append(j.Lanes, l)
		}
		return j
	}
	if !s.op.NeedsReceive() {
		return make1(x, y, true, false), nil
	}
	return make1(x, y, true, s.both), make1(y, x, s.both, true)
}

func TestQuickLoops(t *testing.T) {
	for _, api := range []verbs.PostAPI{verbs.PostSend, verbs.PostWR} {
		t.Run(api.String(), func(t *testing.T) { testQuickLoops(t, api) })
	}
}

func testQuickLoops(t *testing.T, api verbs.PostAPI) {
	for _, s := range []shape{
		{op: verbs.OpWrite, qps: 1, count: 1, window: 1, signal: 1, batch: 1, ring: 1},
		{op: verbs.OpWrite, qps: 1, count: 1000, window: 128, signal: 1, batch: 1, ring: 64},
		{op: verbs.OpWrite, qps: 1, count: 1037, window: 128, signal: 100, batch: 1, ring: 64},
		{op: verbs.OpWrite, qps: 1, count: 99, window: 128, signal: 100, batch: 1, ring: 64},
		{op: verbs.OpWrite, qps: 1, count: 1600, window: 128, signal: 16, batch: 16, ring: 64},
		{op: verbs.OpWrite, qps: 1, count: 1603, window: 128, signal: 32, batch: 16, ring: 3},
		{op: verbs.OpWrite, qps: 1, count: 1603, window: 128, signal: 4, batch: 16, ring: 1},
		{op: verbs.OpWrite, qps: 1, count: 500, window: 64, signal: 6, batch: 4, ring: 5}, // the general loop
		{op: verbs.OpWrite, qps: 4, count: 1037, window: 128, signal: 100, batch: 1, ring: 64},
		{op: verbs.OpWrite, qps: 3, count: 777, window: 16, signal: 8, batch: 8, ring: 7},
		{op: verbs.OpWrite, transport: verbs.UC, qps: 2, count: 777, window: 16, signal: 8, batch: 8, ring: 7},
		{op: verbs.OpRead, qps: 1, count: 300, window: 16, signal: 1, batch: 1, ring: 8},
		{op: verbs.OpSend, qps: 1, count: 1000, window: 64, signal: 16, batch: 1, ring: 64},
		{op: verbs.OpSend, qps: 1, count: 1003, window: 64, signal: 16, batch: 16, ring: 64},
		{op: verbs.OpSend, qps: 3, count: 515, window: 64, signal: 16, batch: 1, ring: 8},
		{op: verbs.OpSend, qps: 2, count: 515, window: 64, signal: 16, batch: 4, ring: 8, both: true},
		{op: verbs.OpSend, qps: 1, count: 515, window: 32, signal: 7, batch: 1, ring: 8, both: true},
		{op: verbs.OpSend, qps: 2, count: 400, window: 16, signal: 4, batch: 4, ring: 8, srq: true},
		{op: verbs.OpSend, qps: 1, count: 1000, window: 64, signal: 16, batch: 1, ring: 64, list: 64},
		{op: verbs.OpSend, qps: 2, count: 515, window: 64, signal: 16, batch: 4, ring: 8, both: true, list: 7},
		{op: verbs.OpSend, qps: 2, count: 400, window: 16, signal: 4, batch: 4, ring: 8, srq: true, list: 10},
		{op: verbs.OpSend, transport: verbs.UD, qps: 1, count: 62, window: 16, signal: 4, batch: 2, ring: 8},
		{op: verbs.OpWriteWithImmediate, qps: 1, count: 515, window: 32, signal: 8, batch: 1, ring: 8},
		{op: verbs.OpWrite, qps: 2, count: 1037, window: 128, signal: 100, batch: 1, ring: 24, mixed: true},
		{op: verbs.OpSend, qps: 1, count: 1003, window: 64, signal: 16, batch: 16, ring: 24, mixed: true},
		{op: verbs.OpRead, qps: 1, count: 300, window: 16, signal: 1, batch: 1, ring: 8, mixed: true},
	} {
		if s.transport == 0 {
			s.transport = verbs.RC
		}
		s.api = api
		t.Run(s.String(), func(t *testing.T) {
			if s.transport == verbs.UD && os.Getenv("GOBW_IBV_DEVICE") != "" {
				t.Skip("a real device may drop datagrams, and rxe does: nothing to compare exactly")
			}
			if s.mixed && api == verbs.PostWR && anyDevice(t).Info().Software {
				t.Skip("lists of several entries by ibv_wr_* are refused on software devices")
			}
			var want [2]job.Progress
			for _, slice := range []job.Ticks{0, 100_000_000, 50_000} { // by the reference, at once, with many seams
				got := s.run(t, slice)
				if slice == 0 {
					want = got
					continue
				}
				if got != want {
					t.Errorf("slices of %d ticks:\ngot  %+v\nwant %+v", slice, got, want)
				}
			}
		})
	}
}

// TestReceiveLists reads from the library's own trace in which lists the receives of a job were posted again.
func TestReceiveLists(t *testing.T) {
	for _, s := range []shape{
		{op: verbs.OpSend, transport: verbs.RC, qps: 1, count: 1003, window: 64, signal: 16, batch: 1, ring: 64, list: 16},
		{
			op: verbs.OpSend, transport: verbs.RC, qps: 2, count: 400, window: 16, signal: 4, batch: 4, ring: 8,
			srq: true, list: 10,
		},
		{
			op: verbs.OpWriteWithImmediate, transport: verbs.RC, qps: 1, count: 515, window: 32, signal: 8, batch: 1,
			ring: 8, list: 33,
		},
	} {
		for _, slice := range []job.Ticks{0, 100_000_000} { // by the reference, and by the device
			t.Run(fmt.Sprintf("%v slice=%d", s, slice), func(t *testing.T) {
				if os.Getenv("GOBW_IBV_DEVICE") != "" {
					t.Skip("only the library of the tests tells how it was called")
				}
				trace := filepath.Join(t.TempDir(), "trace")
				t.Setenv("FAKEVERBS_TRACE", trace)
				s.run(t, slice)
				text, err := os.ReadFile(trace)
				if err != nil {
					t.Fatal(err)
				}
				call, posted := "post_recv", int(s.count)-64 // after the first, which are posted one by one
				if s.srq {
					call = "post_srq_recv"
				}
				for _, want := range []struct{ lists, length int }{{posted / s.list, s.list}, {1, posted % s.list}} {
					line := fmt.Sprintf("%s %d\n", call, want.length)
					if got := strings.Count(string(text), line); want.length > 1 && got != want.lists*s.qps {
						t.Errorf("%d lists of %d, want %d", got, want.length, want.lists*s.qps)
					}
				}
				if got, want := strings.Count(string(text), call+" 1\n"), 64*s.qps; got != want && posted%s.list != 1 {
					t.Errorf("%d single receives, want %d", got, want)
				}
			})
		}
	}
}

// run runs a shape on fresh queue pairs and returns what both ends counted, without times.
func (s shape) run(t *testing.T, slice job.Ticks) [2]job.Progress {
	t.Helper()
	d := anyDevice(t)
	o, by := verbs.QueuePairOptions{Transport: s.transport, SendSGEs: 1}, verbs.Posting{API: s.api}
	if s.mixed {
		o.SendSGEs = 2
	}
	x := newEndpoint(t, d, s.qps, o, by)
	y := &endpoint{}
	var srq verbs.SharedReceiveQueue
	if s.srq {
		pd, err := d.AllocPD()
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, pd)
		if srq, err = pd.CreateSRQ(verbs.SharedReceiveQueueOptions{Depth: 256}); err != nil {
			t.Fatal(err)
		}
		closeLater(t, srq)
		o.SRQ = srq
		y.pd = pd
	}
	y = newEndpointIn(t, d, y.pd, s.qps, o, by)
	connect(t, x, y)
	a, b := s.jobs(x, y, srq)
	var p [2]job.Progress
	var wg sync.WaitGroup
	for _, j := range []*job.Job{a, b} {
		if j == nil {
			continue
		}
		for l := range j.Lanes {
			if len(j.Lanes[l].Receives) > 0 {
				if err := j.Lanes[l].PostInitial(64); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for i, j := range []*job.Job{a, b} {
		if j != nil {
			wg.Go(func() { p[i] = runUntilDone(t, d, j, slice) })
		}
	}
	wg.Wait()
	for i := range p {
		if j := []*job.Job{a, b}[i]; j != nil && slice != 0 {
			sends := len(j.Lanes[0].Ring) > 0
			if (p[i].FirstPost != 0) != sends || p[i].LastDone == 0 || p[i].LastDone <= p[i].FirstPost {
				t.Errorf("end %d: first post at %d, last completion at %d", i, p[i].FirstPost, p[i].LastDone)
			}
		}
		p[i].FirstPost, p[i].LastDone = 0, 0
	}
	return p
}

// runUntilDone is run for goroutines other than the test's.
func runUntilDone(t *testing.T, d verbs.Device, j *job.Job, slice job.Ticks) job.Progress {
	compile := prepare
	if slice == 0 { // the reference
		compile, slice = job.NewVerbsRunner, 30_000_000
	}
	r, err := compile(d, j)
	if err != nil {
		t.Error(err)
		return job.Progress{}
	}
	var p job.Progress
	start := time.Now()
	for !p.Done && err == nil {
		until := job.Ticks(1 << 62)
		if slice < until {
			until = job.Now() + slice
		}
		if p, err = r.Run(until); time.Since(start) > 2*time.Minute {
			err = errors.Join(err, fmt.Errorf("not done after two minutes: %+v", p))
		}
	}
	if err = errors.Join(err, r.Close()); err != nil {
		t.Error(err)
	}
	return p
}

// TestQuickFailure breaks one message in the middle of prepared batches: the error names it.
func TestQuickFailure(t *testing.T) {
	d := anyDevice(t)
	for _, qps := range []int{1, 2} {
		x, y := newEndpoint(t, d, qps, verbs.QueuePairOptions{}), newEndpoint(t, d, qps, verbs.QueuePairOptions{})
		connect(t, x, y)
		j := &job.Job{CQs: []verbs.CompletionQueue{x.cq}}
		for i := range qps {
			l := job.Lane{QP: x.qps[i], Ring: x.ring(verbs.OpWrite, 64, 32, y, i), Count: 1000, Window: 32, Signal: 8, Batch: 1}
			if i == qps-1 {
				l.Ring[37].Steps[0].Requests[0].RKey ^= 0x12345600
			}
			j.Lanes = append(j.Lanes, l)
		}
		r, err := job.Prepare(d, j)
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, r)
		p, err := r.Run(1 << 62)
		var failed *verbs.CompletionError
		if !errors.As(err, &failed) || !errors.Is(err, verbs.RemoteAccessError) {
			t.Fatalf("%d queue pairs: %v, want a CompletionError of REM_ACCESS_ERR", qps, err)
		}
		if c := failed.Completion; c.ID != 37 || c.QPN != x.qps[qps-1].QPN() {
			t.Errorf("%d queue pairs: message %d of qp %#x failed, want 37 of %#x", qps, c.ID, c.QPN, x.qps[qps-1].QPN())
		}
		if p.Completed > p.Posted || p.Done || failed.Sent != p.Posted || failed.Done != p.Completed {
			t.Errorf("%d queue pairs: %+v, error says %d posted, %d completed", qps, p, failed.Sent, failed.Done)
		}
	}
}

// TestQuickStop stops endless streams: what is posted ends on a signaled message.
func TestQuickStop(t *testing.T) {
	d := anyDevice(t)
	for _, qps := range []int{1, 3} {
		x, y := newEndpoint(t, d, qps, verbs.QueuePairOptions{}), newEndpoint(t, d, qps, verbs.QueuePairOptions{})
		connect(t, x, y)
		j := &job.Job{CQs: []verbs.CompletionQueue{x.cq}, Stop: new(atomic.Uint32)}
		for i := range qps {
			j.Lanes = append(j.Lanes,
				job.Lane{QP: x.qps[i], Ring: x.ring(verbs.OpWrite, 64, 32, y, i), Window: 64, Signal: 7, Batch: 1})
		}
		start := time.Now()
		p := runAnd(t, d, j, 30_000_000, func() { time.AfterFunc(30*time.Millisecond, func() { j.Stop.Store(1) }) })
		if p.Posted == 0 || p.Posted%7 != 0 || p.Completed != p.Posted || p.BytesOut != 32*p.Posted {
			t.Errorf("%d queue pairs: %+v: want a multiple of 7, all completed", qps, p)
		}
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("%d queue pairs: ended after %v", qps, took)
		}
	}
}

// TestStampedLoopLooksAtTheClock: a stamped stream on a device that completes at once comes back when its slice is
// over, also where its log is full before it looks at the clock for the first time.
func TestStampedLoopLooksAtTheClock(t *testing.T) {
	d := anyDevice(t)
	x, y := newEndpoint(t, d, 1, verbs.QueuePairOptions{}), newEndpoint(t, d, 1, verbs.QueuePairOptions{})
	connect(t, x, y)
	for _, signal := range []int{1, 16, 100} {
		j := &job.Job{CQs: []verbs.CompletionQueue{x.cq}, Stop: new(atomic.Uint32), Record: job.NewRecorder(0)}
		j.Record.Samples, j.Record.Peak = true, true
		j.Lanes = []job.Lane{
			{QP: x.qps[0], Ring: x.ring(verbs.OpWrite, 128, 32, y, 0), Window: 128, Signal: signal, Batch: 1},
		}
		stop := time.AfterFunc(20*time.Second, func() { j.Stop.Store(1) }) // else one that does not come back would hang
		r, err := job.Prepare(d, j)
		if err != nil {
			t.Fatal(err)
		}
		p, err := r.Run(job.Now() - 1)
		if err != nil || p.Posted != 0 {
			t.Errorf("signal %d: %+v, %v: want nothing posted in a slice that is over", signal, p, err)
		}
		p, err = r.Run(job.Now() + 10_000_000)
		if err != nil || p.Done || !stop.Stop() {
			t.Errorf("signal %d: %+v, %v: want to come back before it is stopped", signal, p, err)
		}
		j.Stop.Store(1)
		for !p.Done && err == nil {
			p, err = r.Run(job.Now() + 1<<40)
		}
		if err = errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// waiting is how many messages' events wait in the ring of a logged job.
const waiting = 1 << 15

// TestStampedLoop records a stream in the quick loop: as many samples as completions, also where they wait for more
// messages than the rings hold, and a peak that is no slower than the whole.
func TestStampedLoop(t *testing.T) {
	d := anyDevice(t)
	for _, s := range []shape{
		{op: verbs.OpWrite, count: 3000, window: 128, signal: 1, batch: 1, ring: 64},
		{op: verbs.OpWrite, count: 3037, window: 128, signal: 100, batch: 1, ring: 64},
		{op: verbs.OpWrite, count: 3203, window: 128, signal: 32, batch: 16, ring: 3},
		{op: verbs.OpWrite, count: 3203, window: 128, signal: 4, batch: 16, ring: 1},
		{op: verbs.OpRead, count: 700, window: 16, signal: 1, batch: 1, ring: 8},
		{op: verbs.OpWrite, count: 3 * waiting, window: 128, signal: 1, batch: 1, ring: 64},
		{op: verbs.OpWrite, count: 3*waiting + 5, window: 128, signal: 100, batch: 1, ring: 64},
	} {
		s.transport, s.qps = verbs.RC, 1
		if os.Getenv("GOBW_IBV_DEVICE") != "" && s.count > waiting {
			continue // minutes on an emulated device
		}
		for _, slice := range []job.Ticks{1 << 61, 50_000} {
			t.Run(fmt.Sprintf("%v slice=%d", s, slice), func(t *testing.T) {
				x, y := newEndpoint(t, d, 1, verbs.QueuePairOptions{}), newEndpoint(t, d, 1, verbs.QueuePairOptions{})
				connect(t, x, y)
				j, _ := s.jobs(x, y, nil)
				rec := job.NewRecorder(int(s.count))
				rec.Samples, rec.Peak = true, true
				j.Record = rec
				p := runUntilDone(t, d, j, slice)
				signaled := (s.count + uint64(s.signal) - 1) / uint64(s.signal)
				if p.Completed != s.count || rec.N != signaled || rec.RawLen != signaled {
					t.Fatalf("%d messages, %d samples, %d kept; want %d and %d", p.Completed, rec.N, rec.RawLen, s.count, signaled)
				}
				took := p.LastDone - p.FirstPost
				if rec.Min <= 0 || rec.Max > took {
					t.Errorf("samples from %d to %d in a run of %d ticks", rec.Min, rec.Max, took)
				}
				// Each window's worth of messages in flight waits for the one before.
				if sum := rec.Sum * float64(s.signal); sum > float64(took)*float64(s.window+s.signal)*1.01 {
					t.Errorf("samples of %g ticks in all, %d messages in flight for %d", sum, s.window, took)
				}
				peak, average := float64(rec.PeakBytes)/float64(rec.PeakTicks), float64(p.BytesOut)/float64(took)
				if rec.PeakTicks == 0 || peak < average || rec.PeakBytes > p.BytesOut {
					t.Errorf("peak of %d bytes in %d ticks; the whole was %d in %d", rec.PeakBytes, rec.PeakTicks, p.BytesOut, took)
				}
			})
		}
	}
}

// TestReadLatencySamples counts one sample per step, also across many seams, where the ring wraps
// and where the samples' buffer is full.
func TestReadLatencySamples(t *testing.T) {
	d := anyDevice(t)
	for _, c := range []struct {
		slice job.Ticks
		ring  int
	}{{1 << 61, 1}, {20_000, 1}, {1 << 61, 3}, {20_000, 3}, {20_000, 64}} {
		x, y := newEndpoint(t, d, 1, verbs.QueuePairOptions{}), newEndpoint(t, d, 1, verbs.QueuePairOptions{})
		connect(t, x, y)
		const count = 2500
		j := &job.Job{
			Shape: job.PingPong, First: true, CQs: []verbs.CompletionQueue{x.cq}, Record: job.NewRecorder(count),
			Lanes: []job.Lane{
				{QP: x.qps[0], Ring: x.ring(verbs.OpRead, c.ring, 32, y, 0), Count: count, Window: 1, Signal: 1, Batch: 1},
			},
		}
		j.Record.Samples = true
		p := run(t, d, j, c.slice)
		rec := j.Record
		if p.Completed != count || rec.N != count || rec.RawLen != count {
			t.Fatalf("%+v: %d messages, %d samples, %d kept; want %d", c, p.Completed, rec.N, rec.RawLen, count)
		}
		again := job.NewRecorder(count)
		for _, s := range rec.Raw {
			again.Add(s)
		}
		if again.Min != rec.Min || again.Max != rec.Max || again.Sum != rec.Sum || again.SumSq != rec.SumSq ||
			again.Shift != rec.Shift {
			t.Errorf("C counted min %d max %d sum %g squares %g; Go min %d max %d sum %g squares %g",
				rec.Min, rec.Max, rec.Sum, rec.SumSq, again.Min, again.Max, again.Sum, again.SumSq)
		}
		for i, n := range again.Counts {
			if rec.Counts[i] != n {
				t.Errorf("bucket %d: C counted %d, Go %d", i, rec.Counts[i], n)
			}
		}
		if rec.Min <= 0 || rec.Sum > float64(p.LastDone-p.FirstPost) {
			t.Errorf("samples from %d, in all %g ticks of %d", rec.Min, rec.Sum, p.LastDone-p.FirstPost)
		}
	}
}

// TestReadLatencyStops stops READs one after the other: each that was posted is completed and counted.
func TestReadLatencyStops(t *testing.T) {
	d := anyDevice(t)
	x, y := newEndpoint(t, d, 1, verbs.QueuePairOptions{}), newEndpoint(t, d, 1, verbs.QueuePairOptions{})
	connect(t, x, y)
	j := &job.Job{
		Shape: job.PingPong, First: true, CQs: []verbs.CompletionQueue{x.cq}, Record: job.NewRecorder(0),
		Stop:  new(atomic.Uint32),
		Lanes: []job.Lane{{QP: x.qps[0], Ring: x.ring(verbs.OpRead, 3, 32, y, 0), Window: 1, Signal: 1, Batch: 1}},
	}
	j.Record.Samples = true
	start := time.Now()
	p := runAnd(t, d, j, 1_000_000, func() { time.AfterFunc(30*time.Millisecond, func() { j.Stop.Store(1) }) })
	if p.Posted == 0 || p.Completed != p.Posted || p.BytesOut != 32*p.Posted || j.Record.N != p.Completed {
		t.Errorf("%+v with %d samples: want a sample for each that was posted", p, j.Record.N)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("ended after %v", took)
	}
}

func TestRunAllocatesNothing(t *testing.T) {
	d := anyDevice(t)
	x, y := newEndpoint(t, d, 1, verbs.QueuePairOptions{}), newEndpoint(t, d, 1, verbs.QueuePairOptions{})
	connect(t, x, y)
	j := &job.Job{
		CQs: []verbs.CompletionQueue{x.cq}, Stop: new(atomic.Uint32), Record: job.NewRecorder(0),
		Lanes: []job.Lane{{QP: x.qps[0], Ring: x.ring(verbs.OpWrite, 64, 32, y, 0), Window: 64, Signal: 16, Batch: 1}},
	}
	r, err := job.Prepare(d, j)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, r)
	n := testing.AllocsPerRun(50, func() {
		if _, err := r.Run(job.Now() + 300_000); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("a run of 300000 ticks allocates %v times, want 0", n)
	}
	j.Stop.Store(1)
	if p, err := r.Run(1 << 62); err != nil || !p.Done {
		t.Errorf("stopped: %+v, %v", p, err)
	}
}

// TestBusy closes parents before their children.
func TestBusy(t *testing.T) {
	d := anyDevice(t)
	x := newEndpoint(t, d, 2, verbs.QueuePairOptions{})
	for what, err := range map[string]error{"queue": x.cq.Close(), "domain": x.pd.Close(), "device": d.Close()} {
		if !errors.Is(err, verbs.ErrBusy) {
			t.Errorf("close %s: %v, want busy", what, err)
		}
	}
	if err := x.pd.Close(); err == nil || err.Error() != "close protection domain: "+d.Info().Name+
		": busy: 1 memory region, 2 queue pairs open" {
		t.Errorf("close domain: %v", err)
	}
}
