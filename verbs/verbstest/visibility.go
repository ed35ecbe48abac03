package verbstest

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// testVisibility watches the last byte of WRITEs, as latency tests do: when it has changed, all the rest has.
func testVisibility(t *testing.T, s *suite) {
	for _, transport := range s.transports(verbs.RC, verbs.UC) {
		for _, size := range []int{2, 64, s.pair.MTU.Bytes() + 1, 5*s.pair.MTU.Bytes() + 3} {
			r := newRig(t, s, rigOptions{transport: transport})
			a, b := r.a.buf.Bytes()[:size], r.b.buf.Bytes()[:size]
			for k := byte(1); k <= 100; k++ {
				for i := range a {
					a[i] = k
				}
				r.a.post(r.a.request(uint64(k), verbs.OpWrite, size))
				r.until("the last byte", func() bool { return job.LoadByte(&b[size-1]) == k })
				if !allAre(b, k) {
					t.Fatalf("%v, %d bytes: the last byte of round %d came before the others", transport, size, k)
				}
				r.a.wantSent(uint64(k), verbs.Success)
			}
		}
	}
	t.Run("nobody polls", func(t *testing.T) {
		// The device must take over by itself when both ends only look at memory.
		r := newRig(t, s, rigOptions{})
		size := 3*s.pair.MTU.Bytes() + 1
		for k := byte(1); k <= 3; k++ {
			for i := range r.a.buf.Bytes()[:size] {
				r.a.buf.Bytes()[i] = k
			}
			r.a.post(r.a.request(uint64(k), verbs.OpWrite, size))
			for deadline := time.Now().Add(patience); job.LoadByte(&r.b.buf.Bytes()[size-1]) != k; runtime.Gosched() {
				if time.Now().After(deadline) {
					t.Fatalf("the last byte of WRITE %d did not come", k)
				}
			}
			r.a.wantSent(uint64(k), verbs.Success)
		}
	})
}

// testMany connects many queue pairs at once and moves something over each.
func testMany(t *testing.T, s *suite) {
	if s.dev.ignored(t, ManyQueuePairs) {
		return
	}
	const pairs = 32
	first := newRig(t, s, rigOptions{bytes: 4096})
	rigs := []*rig{first}
	numbers := map[uint32]string{}
	for range pairs - 1 {
		rigs = append(rigs, newRig(t, s, rigOptions{bytes: 4096}))
	}
	for i, r := range rigs {
		if n := r.a.qp.QPN(); n == 0 || n > 0xffffff || numbers[n] != "" {
			t.Errorf("queue pair number %#x is taken or out of range", n)
		}
		numbers[r.a.qp.QPN()] = "A"
		fill(r.a.buf.Bytes(), uint32(i))
		r.a.post(r.a.request(uint64(i), verbs.OpWrite, 4096))
	}
	for i, r := range rigs {
		r.a.wantSent(uint64(i), verbs.Success)
		same(t, fmt.Sprintf("pair %d", i), r.b.buf.Bytes(), r.a.buf.Bytes())
	}
}
