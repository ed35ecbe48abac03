package roce

import (
	"sync/atomic"
	"testing"

	"github.com/gobw/gobw/verbs"
)

// TestChangingMemory writes and reads memory that its owner changes all the time: what arrives is torn,
// as from a NIC, but every ICRC is right.
func TestChangingMemory(t *testing.T) {
	for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead, verbs.OpSend} {
		t.Run(op.String(), func(t *testing.T) {
			const size = 60_001
			a, b := newPair(t, pairOptions{bytes: 1 << 17})
			owner := a // of the memory that is sent
			if op == verbs.OpRead {
				owner = b
			}
			var stop atomic.Bool
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				memory := owner.buffer.Bytes()[:size]
				for v := byte(0); !stop.Load(); v++ {
					for i := range memory {
						memory[i] = v
					}
				}
			}()
			messages := 1000
			if testing.Short() {
				messages = 250
			}
			for range messages {
				if op == verbs.OpSend {
					check(t, b.qp.PostReceive([]verbs.ReceiveRequest{{SGEs: []verbs.SGE{b.sge(1<<16, size)}}}))
				}
				request := verbs.SendRequest{
					Opcode: op, Flags: verbs.Signaled, SGEs: []verbs.SGE{a.sge(0, size)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
				}
				check(t, a.qp.PostSend([]verbs.SendRequest{request}))
				if c := a.await(b); c.Status != verbs.Success {
					t.Fatalf("%v\nours %v\ntheirs %v", c.Status, counters(t, a), counters(t, b))
				}
				if op == verbs.OpSend {
					b.await(a)
				}
			}
			stop.Store(true)
			<-stopped
			for _, e := range []*end{a, b} {
				if n := counters(t, e)["icrc_err"]; n != 0 {
					t.Errorf("%d packets with a wrong ICRC", n)
				}
			}
		})
	}
}
