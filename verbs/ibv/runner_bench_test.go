//go:build linux && cgo

package ibv

import (
	"fmt"
	"testing"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// BenchmarkStream is the cost of a message of 2 bytes, both ends in one process, on the fake device (NULLVERBS_MOVE=0).
// Compare with the stock tools by scripts/bench-ibv.
func BenchmarkStream(b *testing.B) {
	for _, c := range []struct {
		op                         verbs.Opcode
		qps, signal, batch, record int
	}{
		{verbs.OpWrite, 1, 1, 1, 0},
		{verbs.OpWrite, 1, 100, 1, 0},
		{verbs.OpWrite, 1, 16, 16, 0},
		{verbs.OpWrite, 4, 100, 1, 0},
		{verbs.OpWrite, 4, 1, 1, 0},
		{verbs.OpWrite, 1, 1, 1, 1},
		{verbs.OpWrite, 1, 100, 1, 1},
		{verbs.OpRead, 1, 1, 1, 0},
	} {
		b.Run(fmt.Sprintf("op=%v/qps=%d/signal=%d/batch=%d/record=%d", c.op, c.qps, c.signal, c.batch, c.record),
			func(b *testing.B) {
				d := nullDevice(b)
				x := newEndpoint(b, d, c.qps, verbs.QueuePairOptions{})
				y := newEndpoint(b, d, c.qps, verbs.QueuePairOptions{})
				connect(b, x, y)
				j := &job.Job{Shape: job.Stream, CQs: []verbs.CompletionQueue{x.cq}}
				for i := range c.qps {
					j.Lanes = append(j.Lanes, job.Lane{
						QP: x.qps[i], Ring: x.ring(c.op, 64, 2, y, i), Count: uint64(max(b.N/c.qps, 1)), Window: 128, Signal: c.signal,
						Batch: c.batch,
					})
				}
				if c.record > 0 {
					j.Record = job.NewRecorder(0)
					j.Record.Samples, j.Record.Peak = true, true
				}
				b.ReportAllocs()
				b.ResetTimer()
				run(b, d, j, 30_000_000)
			})
	}
}

// BenchmarkReadLatency is one READ after the other.
func BenchmarkReadLatency(b *testing.B) {
	d := nullDevice(b)
	x, y := newEndpoint(b, d, 1, verbs.QueuePairOptions{}), newEndpoint(b, d, 1, verbs.QueuePairOptions{})
	connect(b, x, y)
	j := &job.Job{
		Shape: job.PingPong, First: true, CQs: []verbs.CompletionQueue{x.cq}, Record: job.NewRecorder(0),
		Lanes: []job.Lane{{
			QP: x.qps[0], Ring: x.ring(verbs.OpRead, 1, 2, y, 0), Count: uint64(b.N), Window: 1, Signal: 1, Batch: 1,
		}},
	}
	j.Record.Samples = true
	b.ResetTimer()
	run(b, d, j, 30_000_000)
}

// BenchmarkSend is a SEND and its receive by one job, with lanes for both ends.
func BenchmarkSend(b *testing.B) {
	for _, signal := range []int{1, 100} {
		b.Run(fmt.Sprintf("signal=%d", signal), func(b *testing.B) {
			d := nullDevice(b)
			x, y := newEndpoint(b, d, 1, verbs.QueuePairOptions{}), newEndpoint(b, d, 1, verbs.QueuePairOptions{RecvDepth: 512})
			connect(b, x, y)
			receiver := job.Lane{QP: y.qps[0], Receives: y.receives(256, 2), Expect: uint64(b.N)}
			if err := receiver.PostInitial(256); err != nil {
				b.Fatal(err)
			}
			j := &job.Job{Shape: job.Stream, CQs: []verbs.CompletionQueue{x.cq, y.cq}, Lanes: []job.Lane{
				{QP: x.qps[0], Ring: x.ring(verbs.OpSend, 64, 2, y, 0), Count: uint64(b.N), Window: 128, Signal: signal, Batch: 1},
				receiver,
			}}
			b.ResetTimer()
			run(b, d, j, 30_000_000)
		})
	}
}

// BenchmarkReceive takes SENDs that are there already, and posts a receive for each.
func BenchmarkReceive(b *testing.B) {
	const depth = 2048
	d := nullDevice(b)
	x, y := newEndpoint(b, d, 1, verbs.QueuePairOptions{SendDepth: 512}), newEndpoint(b, d, 1,
		verbs.QueuePairOptions{RecvDepth: depth})
	connect(b, x, y)
	receives := y.receives(depth, 2)
	first := job.Lane{QP: y.qps[0], Receives: receives}
	if err := first.PostInitial(depth); err != nil {
		b.Fatal(err)
	}
	for left := b.N; left > 0; left -= depth / 2 {
		b.StopTimer()
		n := uint64(min(left, depth/2))
		run(b, d, &job.Job{CQs: []verbs.CompletionQueue{x.cq}, Lanes: []job.Lane{{
			QP: x.qps[0], Ring: x.ring(verbs.OpSend, 64, 2, y, 0), Count: n, Window: 512, Signal: 1, Batch: 1,
		}}}, 30_000_000)
		b.StartTimer()
		run(b, d, &job.Job{CQs: []verbs.CompletionQueue{y.cq}, Lanes: []job.Lane{{
			QP: y.qps[0], Receives: receives, Posted: 1, Expect: n, // all but one are posted anew
		}}}, 30_000_000)
	}
}
