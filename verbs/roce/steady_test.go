package roce

import (
	"bytes"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/cputime"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
	"github.com/gobw/gobw/verbs/tick"
	"github.com/gobw/gobw/verbs/verbstest"
)

// TestRunDoesNotAllocate runs slices of jobs in their steady state.
func TestRunDoesNotAllocate(t *testing.T) {
	for _, tt := range []struct {
		name string
		op   verbs.Opcode
		size int
	}{
		{"write/2", verbs.OpWrite, 2},
		{"write/65536", verbs.OpWrite, 65536},
		{"send/4096", verbs.OpSend, 4096},
		{"read/65536", verbs.OpRead, 65536},
		{"fetch-add", verbs.OpFetchAdd, 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := newPair(t, pairOptions{bytes: 1 << 17})
			var stop atomic.Uint32
			passive := serveJob(&stop)
			if tt.op.NeedsReceive() {
				l := job.Lane{QP: b.qp, Receives: []verbs.ReceiveRequest{{SGEs: []verbs.SGE{b.sge(0, tt.size)}}}}
				check(t, l.PostInitial(128))
				passive = &job.Job{Shape: job.Stream, CQs: []verbs.CompletionQueue{b.cq}, Lanes: []job.Lane{l}, Stop: &stop}
			}
			served := make(chan error, 1)
			go func() {
				_, err := runJob(t, b.device, passive, -1)
				served <- err
			}()
			rec := job.NewRecorder(16)
			rec.Samples, rec.Peak, rec.CPU = true, true, true
			r, err := job.Prepare(a.device,
				&job.Job{Shape: job.Stream, Stop: &stop, CQs: []verbs.CompletionQueue{a.cq}, Record: rec, Lanes: []job.Lane{{
					QP: a.qp, Window: 32, Signal: 4, Batch: 4, Ring: []job.Message{{Bytes: uint64(tt.size), Steps: []job.Step{{
						Requests: []verbs.SendRequest{
							{Opcode: tt.op, SGEs: []verbs.SGE{a.sge(0, tt.size)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()},
						},
					}}}},
				}}})
			check(t, err)
			n, messages := sliceAllocations(t, a, r)
			stop.Store(1)
			check(t, <-served)
			check(t, r.Close())
			if n != 0 {
				t.Errorf("a slice allocates %v times, want 0 (%d messages)", n, messages)
			}
		})
	}
}

// TestPingPongDoesNotAllocate runs slices of both ends of a ping-pong.
func TestPingPongDoesNotAllocate(t *testing.T) {
	for _, tt := range []struct {
		name  string
		op    verbs.Opcode
		await job.Await
		size  int
	}{
		{"send/2", verbs.OpSend, job.AwaitReceive, 2},
		{"send/8192", verbs.OpSend, job.AwaitReceive, 8192},
		{"write/2", verbs.OpWrite, job.AwaitLastByte, 2},
		{"read/2", verbs.OpRead, job.AwaitCompletion, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const landing = 1 << 16
			a, b := newPair(t, pairOptions{bytes: 1 << 17})
			var stop atomic.Uint32
			newJob := func(e, peer *end, first bool, rec *job.Recorder) *job.Job {
				l := job.Lane{
					QP: e.qp, Window: 1, Signal: 1, Batch: 1, Await: tt.await,
					Ring: []job.Message{{Bytes: uint64(tt.size), Steps: []job.Step{{Requests: []verbs.SendRequest{{
						Opcode: tt.op, SGEs: []verbs.SGE{e.sge(0, tt.size)}, RemoteAddr: peer.mr.Addr() + landing, RKey: peer.mr.RKey(),
					}}}}}},
				}
				switch tt.await {
				case job.AwaitReceive:
					l.Receives = []verbs.ReceiveRequest{{SGEs: []verbs.SGE{e.sge(landing, tt.size)}}}
					check(t, l.PostInitial(64))
				case job.AwaitLastByte:
					l.FlagOut, l.FlagIn = &e.buffer.Bytes()[tt.size-1], &e.buffer.Bytes()[landing+tt.size-1]
				default:
				}
				return &job.Job{
					Shape: job.PingPong, First: first, CQs: []verbs.CompletionQueue{e.cq}, Lanes: []job.Lane{l}, Record: rec,
					Stop: &stop,
				}
			}
			passive := serveJob(&stop)
			if tt.await != job.AwaitCompletion {
				passive = newJob(b, a, false, nil)
			}
			rec := job.NewRecorder(16)
			rec.Samples, rec.CPU = true, true
			r, err := job.Prepare(a.device, newJob(a, b, true, rec))
			check(t, err)
			served := make(chan error, 1)
			go func() {
				_, err := runJob(t, b.device, passive, -1)
				served <- err
			}()
			n, messages := sliceAllocations(t, a, r)
			stop.Store(1)
			check(t, <-served)
			check(t, r.Close())
			if n != 0 {
				t.Errorf("a slice allocates %v times, want 0 (%d messages)", n, messages)
			}
		})
	}
}

// sliceAllocations runs a job past its start and then in slices: the allocations of one, and the messages of all.
func sliceAllocations(t *testing.T, a *end, r job.Runner) (n float64, messages uint64) {
	span := 5 * time.Millisecond
	if testing.Short() {
		span /= 4
	}
	slice := a.device.e.clock.Ticks(span)
	var p job.Progress
	var err error
	for deadline := time.Now().Add(time.Minute); p.Completed < 200; {
		p, err = r.Run(tick.Now() + slice)
		check(t, err)
		if time.Now().After(deadline) {
			t.Fatalf("%d messages in a minute", p.Completed)
		}
	}
	before := p.Completed
	n = testing.AllocsPerRun(20, func() {
		if p, err = r.Run(tick.Now() + slice); err != nil {
			t.Error(err)
		}
	})
	return n, p.Completed - before
}

// TestIdleDeviceUsesNoProcessor looks at the process's CPU time while two connected devices have nothing to do.
func TestIdleDeviceUsesNoProcessor(t *testing.T) {
	a, b := newPair(t, pairOptions{})
	for _, e := range []*end{a, b} { // until the background goroutines have settled in the kernel
		for deadline := time.Now().Add(time.Minute); ; {
			settled := false
			e.device.e.held(func() { settled = e.device.e.asleep })
			if settled {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the background goroutine does not settle")
			}
			<-time.After(time.Millisecond)
		}
	}
	const idle = 200 * time.Millisecond
	runtime.GC() // what it frees is swept now
	var used time.Duration
	for range 20 { // whoever spins does it in each; the collector and the other threads' last moments are in some
		before := cputime.Process()
		<-time.After(idle) // the test is about doing nothing for a while
		if used = cputime.Process() - before; used <= idle/20 {
			return
		}
	}
	t.Errorf("%v of CPU time in %v of idleness", used, idle)
}

// TestOneDevice connects queue pairs of one device with each other, over IPv4 and over IPv6.
func TestOneDevice(t *testing.T) {
	for _, address := range []netip.Addr{verbstest.Address(), netip.IPv6Loopback()} {
		t.Run(address.String(), func(t *testing.T) {
			o := pairOptions{
				transport: verbs.RC, mtu: verbs.MTU4096, depth: 64, sges: 2, timeout: 14, rdAtomic: 4, bytes: 1 << 18,
			}
			x := newEnd(t, Options{Address: address}, o)
			qp, err := x.pd.CreateQP(verbs.QueuePairOptions{SendCQ: x.cq})
			check(t, err)
			defer func() { check(t, qp.Close()) }()
			connect(t, x.device, x.qp, x.device, qp, o)
			connect(t, x.device, qp, x.device, x.qp, o)
			x.fill(5)
			for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead} {
				const n = 70001
				check(t, x.qp.PostSend([]verbs.SendRequest{{
					Opcode: op, Flags: verbs.Signaled, SGEs: []verbs.SGE{x.sge(0, n)}, RemoteAddr: x.mr.Addr() + 1<<17,
					RKey: x.mr.RKey(),
				}}))
				if c := x.await(nil); c.Status != verbs.Success {
					t.Fatalf("%v: %v", op, c.Status)
				}
				if b := x.buffer.Bytes(); !bytes.Equal(b[:n], b[1<<17:][:n]) {
					t.Errorf("%v: data differ", op)
				}
			}
		})
	}
}

// TestPausedPeer stops driving a peer for longer than many probes, which must cost nothing but duplicates.
func TestPausedPeer(t *testing.T) {
	a, b := newPair(t, pairOptions{bytes: 1 << 20})
	a.fill(3)
	b.device.e.held(func() { // nobody drives it, not even its background goroutine
		for i := range 8 {
			check(t, a.qp.PostSend([]verbs.SendRequest{{
				ID: uint64(i), Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: []verbs.SGE{a.sge(i*100000, 100000)},
				RemoteAddr: b.mr.Addr() + uint64(i*100000), RKey: b.mr.RKey(),
			}}))
		}
		var c [1]verbs.Completion
		for start := time.Now(); time.Since(start) < 50*time.Millisecond || counters(t, a)["probes"] == 0; {
			if time.Since(start) > time.Minute {
				t.Fatalf("no probe in a minute: %v", counters(t, a))
			}
			if n, err := a.cq.Poll(c[:]); n != 0 || err != nil {
				t.Fatalf("%d completions, error %v, from a peer that sleeps", n, err)
			}
		}
	})
	for i := range 8 {
		if c := a.await(b); c.Status != verbs.Success || c.ID != uint64(i) {
			t.Fatalf("completion %d: %+v", i, c)
		}
	}
	if !bytes.Equal(a.buffer.Bytes()[:800000], b.buffer.Bytes()[:800000]) {
		t.Error("data differ")
	}
}

// TestTaken opens two devices at one loopback address: the second moves on to the next.
func TestTaken(t *testing.T) {
	o := Options{Address: verbstest.Address()}
	for i, want := range []netip.Addr{o.Address, o.Address.Next()} {
		d, err := New(o).Open(DeviceName)
		check(t, err)
		t.Cleanup(func() { check(t, d.Close()) })
		g, err := d.(*device).DefaultGID()
		check(t, err)
		if got := g.GID.Addr(); got != want {
			t.Errorf("device %d is at %v, want %v", i, got, want)
		}
	}
}
