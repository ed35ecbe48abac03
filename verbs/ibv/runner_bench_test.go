//go:build linux && cgo

package ibv

import (
	"fmt"
	"testing"

	"github.com/gobw/gobw/verbs"
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
		b.Run(fmt.Sprintf("op=%v/qps=%d/signal=%d/batch=%d/record=%d", c.op, c.qps, c.signal, c.batch, c.record), func(b *testing.B) {
			d := nullDevice(b)
			x := newEndpoint(b, d, c.qps, verbs.QueuePairOptions{})
			y := newEndpoint(b, d, c.qps, verbs.QueuePairOptions{})
			connect(b, x, y)
			j := &verbs.Job{Shape: verbs.Stream, CQs: []verbs.CompletionQueue{x.cq}}
			for i := range c.qps {
				j.Lanes = append(j.Lanes, verbs.Lane{
					QP: x.qps[i], Ring: x.ring(c.op, 64, 2, y, i), Count: uint64(max(b.N/c.qps, 1)), Window: 128, Signal: c.signal, Batch: c.batch,
				})
			}
			if c.record > 0 {
				j.Record = verbs.NewRecorder(0)
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
	j := &verbs.Job{Shape: verbs.PingPong, First: true, CQs: []verbs.CompletionQueue{x.cq}, Record: verbs.NewRecorder(0), Lanes: []verbs.Lane{{
		QP: x.qps[0], Ring: x.ring(verbs.OpRead, 1, 2, y, 0), Count: uint64(b.N), Window: 1, Signal: 1, Batch: 1,
	}}}
	j.Record.Samples = true
	b.ResetTimer()
	run(b, d, j, 30_000_000)
}
