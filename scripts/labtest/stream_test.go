//go:build lab && linux

package labtest

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
)

// A stream's messages go through slots, each at the same place of both buffers; behind them lie the counter of the
// FETCH_ADDs and the places their answers go to.
const (
	slotBytes  = 32 << 10
	slots      = 32
	counterAt  = slots * slotBytes
	answersAt  = counterAt + 64
	streamSize = 9001 // largest message of a stream: three packets of 4096 bytes
)

// streamOps is the order of operations: neighbours of every kind meet.
var streamOps = []verbs.Opcode{
	verbs.OpWrite, verbs.OpSend, verbs.OpRead, verbs.OpFetchAdd, verbs.OpWriteWithImmediate, verbs.OpRead, verbs.OpRead,
	verbs.OpSend,
	verbs.OpWrite, verbs.OpFetchAdd, verbs.OpFetchAdd, verbs.OpSendWithImmediate, verbs.OpWrite,
}

// stream sends count messages of mixed operations and sizes, 16 in flight, and checks every byte, every completion in
// order, and that each FETCH_ADD happened exactly once.
func stream(t *testing.T, p *pair, count int) {
	const window = 16
	type message struct {
		op         verbs.Opcode
		size, slot int
		add        uint64 // FETCH_ADD: the number before
	}
	messages := make([]message, count)
	added := uint64(0)
	for k := range messages {
		m := message{op: streamOps[k%len(streamOps)], size: 1 + k*2731%streamSize, slot: k % slots * slotBytes}
		if m.op == verbs.OpFetchAdd {
			m.size, m.add = 8, added
			added++
		}
		messages[k] = m
	}
	clear(p.to.bytes()[counterAt:][:8])
	sent, completed, received := 0, 0, 0
	last := time.Now()
	for completed < count {
		for sent < count && sent-completed < window {
			m := messages[sent]
			id := uint64(sent)
			remote := m.slot
			clear(p.from.bytes()[m.slot:][:m.size])
			switch m.op {
			case verbs.OpRead:
				fill(p.to.bytes()[m.slot:][:m.size], sent)
			case verbs.OpFetchAdd:
				remote = counterAt
			default:
				fill(p.from.bytes()[m.slot:][:m.size], sent)
				clear(p.to.bytes()[m.slot:][:m.size])
			}
			switch m.op {
			case verbs.OpSend, verbs.OpSendWithImmediate:
				p.to.receive(t, verbs.ReceiveRequest{ID: id, SGEs: []verbs.SGE{p.to.sge(m.slot, m.size)}})
			case verbs.OpWriteWithImmediate:
				p.to.receive(t, verbs.ReceiveRequest{ID: id})
			default: // the rest needs no receive
			}
			r := p.request(id, m.op, m.slot, m.size, remote)
			if m.op == verbs.OpFetchAdd {
				r.SGEs = []verbs.SGE{p.from.sge(answersAt+sent%slots*8, 8)}
				r.CompareAdd = 1
			}
			p.from.post(t, r)
			sent++
		}
		if !p.until(t, func() bool { return len(p.from.done) > 0 }) {
			t.Fatalf("no completion for %v: %d posted, %d completed, %d received; states %v and %v",
				time.Since(last).Round(time.Second), sent,
				completed, received, p.from.qp.State(), p.to.qp.State())
		}
		last = time.Now()
		m := messages[completed]
		p.succeed(t, p.from, uint64(completed), m.op.Completed())
		p.arrived(t, m.op, uint64(completed), m.size)
		if m.op.NeedsReceive() {
			received++
		}
		switch m.op {
		case verbs.OpFetchAdd:
			if got := binary.NativeEndian.Uint64(p.from.bytes()[answersAt+completed%slots*8:]); got != m.add {
				t.Fatalf("message %d: FETCH_ADD returned %d, want %d: not done exactly once", completed, got, m.add)
			}
		case verbs.OpRead:
			if at := filled(p.from.bytes()[m.slot:][:m.size], completed); at >= 0 {
				t.Fatalf("message %d, READ of %d bytes: byte %d differs", completed, m.size, at)
			}
		default:
			if at := filled(p.to.bytes()[m.slot:][:m.size], completed); at >= 0 {
				t.Fatalf("message %d, %v of %d bytes: byte %d differs", completed, m.op, m.size, at)
			}
		}
		completed++
	}
	if got := binary.NativeEndian.Uint64(p.to.bytes()[counterAt:]); got != added {
		t.Errorf("the counter is %d after %d FETCH_ADDs", got, added)
	}
	if n := len(p.from.done) + len(p.to.done); n != 0 {
		t.Errorf("%d completions too many: %v %v", n, p.from.done, p.to.done)
	}
}

// TestNetem runs a mixed stream over bad networks, each way round, with all data verified.
func TestNetem(t *testing.T) {
	networks := []struct{ name, netem string }{
		{"loss=1%", "loss 1%"},
		{"duplicate=2%", "duplicate 2%"},
		{"reorder=5%", "delay 1ms reorder 95%"},
		{"delay=2ms", "delay 2ms 1ms"},
		{"all", "delay 1ms loss 1% duplicate 1% reorder 95%"},
	}
	for _, n := range networks {
		t.Run(n.name, func(t *testing.T) {
			ds := directions(t)
			run(t, "tc qdisc add dev v0 root netem "+n.netem)
			t.Cleanup(func() { run(t, "tc qdisc del dev v0 root") })
			run(t, "ip netns exec peer tc qdisc add dev v1 root netem "+n.netem)
			t.Cleanup(func() { run(t, "ip netns exec peer tc qdisc del dev v1 root") })
			for _, d := range ds {
				t.Run(d.name, func(t *testing.T) {
					stream(t, connect(t, d.from, d.to, pairOptions{mtu: verbs.MTU1024, timeout: 12}), 250)
				})
			}
		})
	}
}
