package roce

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
	"github.com/gobw/gobw/verbs/tick"
)

// counted is what both ends of a test cost together, for each message.
type counted struct{ sends, receives, datagrams, packets, acks float64 }

// shapes are the tests whose costs are counted, and the most that each may cost.
var shapes = []struct { //nolint:gochecknoglobals // the test and the benchmark read it
	op     verbs.Opcode
	await  job.Await
	window int // of a ping-pong: 0: it is a stream
	size   int
	most   counted
}{
	// A half round trip is a message: one end sends it, the other receives it.
	{verbs.OpSend, job.AwaitReceive, 64, 2, counted{1.1, 1.1, 1.1, 1.2, 0.1}},
	{verbs.OpWrite, job.AwaitLastByte, 64, 2, counted{1.1, 1.1, 1.1, 1.2, 0.1}},
	{verbs.OpSend, job.AwaitReceive, 1, 2, counted{2.05, 2.05, 2.05, 2.05, 1.05}}, // each is acknowledged
	{verbs.OpRead, job.AwaitCompletion, 1, 2, counted{2.05, 2.05, 2.05, 2.05, 0}}, // request and answer
	{verbs.OpSend, 0, 0, 2, counted{0.2, 0.2, 0.2, 1.1, 0.1}},
	{verbs.OpWrite, 0, 0, 2, counted{0.2, 0.2, 0.2, 1.1, 0.1}},
	{verbs.OpRead, 0, 0, 2, counted{0.5, 0.5, 0.5, 2, 0}},
	{verbs.OpSend, 0, 0, 8192, counted{0.5, 1, 1, 2.5, 0.5}},
	{verbs.OpWrite, 0, 0, 8192, counted{0.6, 1.4, 1.4, 2.5, 0.5}},
	{verbs.OpRead, 0, 0, 8192, counted{1, 2, 2, 3, 0}},
	{verbs.OpSend, 0, 0, 65536, counted{2.2, 3, 3, 17.5, 1.2}},
	{verbs.OpWrite, 0, 0, 65536, counted{2.5, 4, 4, 17.5, 1.2}},
	{verbs.OpRead, 0, 0, 65536, counted{2.5, 4, 4, 17, 0}},
}

func shapeName(i int) string {
	s := &shapes[i]
	if s.window == 0 {
		return fmt.Sprintf("%v/stream/%d", s.op, s.size)
	}
	return fmt.Sprintf("%v/ping-pong/%d/window=%d", s.op, s.size, s.window)
}

// countShape runs a test with both ends on one thread, in turns, so that what it costs
// does not depend on how long each runs.
func countShape(t testing.TB, i int) counted {
	t.Helper()
	const messages = 4000
	s := &shapes[i]
	a, b := newPair(t, pairOptions{bytes: 1 << 20, depth: 512})
	for _, e := range []*end{a, b} { // what a late answer costs depends on the machine
		q := e.qp.(*queuePair)
		for _, name := range []string{"firstProbe", "shortestProbe", "firstReadProbe"} {
			inside(q.path.Flow, "trip", name).SetInt(int64(q.e.clock.Ticks(time.Second)))
		}
	}
	var stop atomic.Uint32
	count := uint64(messages)
	if s.size > 8192 {
		count /= 4
	}
	if testing.Short() { // the same in the mean
		count /= 4
	}
	newJob := func(e, peer *end, first bool) *job.Job {
		window, signal := 256, 32
		if s.window > 0 {
			window, signal = s.window, 1
		}
		if s.op == verbs.OpRead {
			window = min(window, 16)
			signal = min(signal, window/4+1)
		}
		j := &job.Job{Shape: job.Stream, CQs: []verbs.CompletionQueue{e.cq}}
		l := sendLane(e, peer, s.op, []verbs.SGE{e.sge(0, s.size)}, window, signal, signal)
		l.Count, l.Await = count, s.await
		if s.window > 0 {
			j.Shape, j.First = job.PingPong, first
		} else if !first {
			l = job.Lane{QP: e.qp}
		}
		if s.op.NeedsReceive() && (s.window > 0 || !first) {
			l.Receives, l.Expect = []verbs.ReceiveRequest{{SGEs: []verbs.SGE{e.sge(1<<19, s.size)}}}, count
			check(t, l.PostInitial(512))
		}
		if s.await == job.AwaitLastByte {
			l.Ring[0].Steps[0].Requests[0].RemoteAddr += 1 << 19
			l.FlagOut, l.FlagIn = &e.buffer.Bytes()[s.size-1], &e.buffer.Bytes()[1<<19+s.size-1]
		}
		if len(l.Ring) == 0 && len(l.Receives) == 0 || !first && s.op == verbs.OpRead {
			return serveJob(&stop)
		}
		j.Lanes = []job.Lane{l}
		return j
	}
	var runners [2]job.Runner
	for k, e := range []*end{a, b} {
		r, err := job.Prepare(e.device, newJob(e, []*end{b, a}[k], k == 0))
		check(t, err)
		defer func() { check(t, r.Close()) }()
		runners[k] = r
	}
	var before, after [2]map[string]uint64
	before[0], before[1] = counters(t, a), counters(t, b)
	slice := a.device.e.clock.Ticks(20 * time.Microsecond)
	var done [2]bool
	for deadline := time.Now().Add(time.Minute); !done[0]; {
		for k, r := range runners {
			if done[k] {
				continue
			}
			p, err := r.Run(tick.Now() + slice)
			check(t, err)
			done[k] = p.Done
		}
		if time.Now().After(deadline) {
			t.Fatal("not done in a minute")
		}
	}
	after[0], after[1] = counters(t, a), counters(t, b)
	n := float64(count)
	if s.window > 0 && s.op != verbs.OpRead {
		n *= 2
	}
	per := func(name string) float64 {
		return float64(after[0][name]-before[0][name]+after[1][name]-before[1][name]) / n
	}
	if v := per("probes"); v != 0 {
		t.Logf("%v probes a message", v)
	}
	for i, c := range after {
		if c["resent_pkts"] != before[i]["resent_pkts"] {
			t.Errorf("nothing was lost, and end %d has sent again: %v", i, c)
		}
	}
	return counted{per("send_calls"), per("receive_calls"), per("sent_datagrams"), per("sent_pkts"), per("sent_acks")}
}

// TestCounts holds system calls, datagrams, packets and ACKs of each kind of test: they are the same on every machine.
func TestCounts(t *testing.T) {
	for i := range shapes {
		t.Run(shapeName(i), func(t *testing.T) {
			got, most := countShape(t, i), shapes[i].most
			t.Logf("%+v", got)
			if got.sends > most.sends || got.receives > most.receives || got.datagrams > most.datagrams ||
				got.packets > most.packets || got.acks > most.acks {
				t.Errorf("a message costs %+v, want at most %+v", got, most)
			}
		})
	}
}

// BenchmarkCounts prints what TestCounts holds.
func BenchmarkCounts(b *testing.B) {
	for i := range shapes {
		b.Run(shapeName(i), func(b *testing.B) {
			var c counted
			for b.Loop() {
				c = countShape(b, i)
			}
			report(b, "sends", c.sends, "receives", c.receives, "datagrams", c.datagrams, "packets", c.packets, "ACKs", c.acks)
		})
	}
}
