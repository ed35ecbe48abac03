package verbstest

import (
	"bytes"
	"fmt"
	"runtime"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// testVisibility watches the last byte of WRITEs, as latency tests do: when it has changed, all the rest has. Where
// nobody polls, the device must take over by itself.
func testVisibility(t *test) {
	mtu := t.MTU.Bytes()
	for _, transport := range t.transports(verbs.RC, verbs.UC) {
		for _, size := range []int{2, 64, mtu + 1, 5*mtu + 3} {
			r := newRig(t, rigOptions{transport: transport})
			r.watch(size, 100, r.poll)
		}
	}
	//nolint:forbidigo // a test that measures nothing
	t.on("nobody polls", rigOptions{}, func(r *rig) { r.watch(3*mtu+1, 3, runtime.Gosched) })
}

func (r *rig) watch(size int, rounds byte, pass func()) {
	r.Helper()
	a, b := r.a.mem[:size], r.b.mem[:size]
	for k := byte(1); k <= rounds; k++ {
		copy(a, bytes.Repeat([]byte{k}, size))
		r.a.postOne(uint64(k), write, size)
		for deadline := time.Now().Add(patience); job.LoadByte(&b[size-1]) != k; pass() {
			if time.Now().After(deadline) {
				r.Fatalf("the last byte of WRITE %d did not come", k)
			}
		}
		same(r, fmt.Sprintf("%d bytes behind the last byte of round %d", size, k), b, a)
		r.a.sends.want(uint64(k))
	}
}

// testMany connects many queue pairs at once and moves something over each.
func testMany(t *test) {
	if t.ignored(ManyQueuePairs) {
		return
	}
	const pairs = 32
	var rigs []*rig
	for range pairs {
		rigs = append(rigs, newRig(t, rigOptions{bytes: 4096}))
	}
	taken := map[uint32]bool{}
	for i, r := range rigs {
		n := r.a.qp.QPN()
		if n == 0 || n > 0xffffff || taken[n] {
			t.Errorf("queue pair number %#x is taken or out of range", n)
		}
		taken[n] = true
		fill(r.a.mem, uint32(i))
		r.a.postOne(uint64(i), write, 4096)
	}
	for i, r := range rigs {
		r.a.sends.want(uint64(i))
		same(t, fmt.Sprintf("pair %d", i), r.b.mem, r.a.mem)
	}
}
