package verbstest

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/gobw/gobw/verbs"
)

// word reads the host-order counter at the front of b.
func word(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }

func testAtomics(t *test) {
	if !t.B.Device.Info().Limits.Atomic {
		t.Skip("the device has no atomics")
	}
	t.on("values", rigOptions{}, testAtomicValues)
	t.Run("concurrent", testConcurrentAtomics)
}

func testAtomicValues(r *rig) {
	for _, tt := range []struct {
		op                       verbs.Opcode
		before, compareAdd, swap uint64
	}{
		{fetchAdd, 41, 1, 0},
		{fetchAdd, 1<<64 - 1, 2, 0},
		{fetchAdd, 0x0102030405060708, 0x1000000000000000, 0},
		{fetchAdd, 7, 0, 99},
		{compareSwap, 5, 5, 0x1122334455667788},
		{compareSwap, 6, 5, 9},
		{compareSwap, 1 << 63, 1 << 63, 0},
	} {
		r.refill(512)
		binary.NativeEndian.PutUint64(r.b.mem[64:], tt.before)
		q := r.a.request(1, tt.op, 8)
		q.SGEs[0], q.RemoteAddr, q.CompareAdd, q.Swap = r.a.sge(136, 8), q.RemoteAddr+64, tt.compareAdd, tt.swap
		r.move(q)
	}
}

// testConcurrentAtomics lets several queue pairs count in one word: no addition is lost and no value seen twice.
func testConcurrentAtomics(t *test) {
	const pairs, each = 4, 50
	first := newRig(t, rigOptions{})
	rigs := []*rig{first}
	for range pairs - 1 {
		rigs = append(rigs, newRig(t, rigOptions{pdB: first.b.pd}))
	}
	var seen [pairs * each]atomic.Uint32
	var wg sync.WaitGroup
	for _, r := range rigs {
		wg.Go(func() { // a fault ends this goroutine, and fails the test
			for id := range uint64(each) {
				q := r.a.request(id, fetchAdd, 8)
				q.RemoteAddr, q.RKey, q.CompareAdd = first.b.buf.Addr(), first.b.mr.RKey(), 1
				r.a.do(q)
				seen[word(r.a.mem)%uint64(len(seen))].Add(1)
			}
		})
	}
	wg.Wait()
	if got := word(first.b.mem); got != pairs*each {
		t.Errorf("the counter is %d, want %d", got, pairs*each)
	}
	for v := range seen {
		if n := seen[v].Load(); n != 1 {
			t.Errorf("value %d was seen %d times, want once", v, n)
		}
	}
}
