package roce

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/netem"
)

// TestBadNetworks sends every operation through lossy, duplicating and reordering networks and looks at every byte. In
// 'make quick' each network has one of the two MTUs in turn.
func TestBadNetworks(t *testing.T) {
	for i, text := range []string{
		"loss=1%,seed=3", "loss=10%,seed=4", "dup=5%,seed=5", "reorder=5%,seed=6", "loss=2%,dup=1%,reorder=2%,seed=7",
		"delay=200us",
		"loss=1%,burst=5,seed=8", "rate=1G,delay=1ms", "rate=2G,queue=64K",
	} {
		network, err := netem.Parse(text)
		check(t, err)
		for j, mtu := range []verbs.MTU{verbs.MTU256, verbs.MTU4096} {
			if testing.Short() && i%2 != j {
				continue
			}
			t.Run(fmt.Sprintf("%s/mtu=%v", text, mtu), func(t *testing.T) {
				a, b := newPair(t,
					pairOptions{bytes: 1 << 20, mtu: mtu, a: Options{Network: network}, b: Options{Network: network}, timeout: 12})
				mix(t, a, b)
			})
		}
	}
}

// mix keeps one queue pair full of SENDs, WRITEs, READs and atomics in turn, and checks data, order and counts.
func mix(t *testing.T, a, b *end) {
	const slots, size = 16, 20000
	t.Helper()
	src, dst := a.buffer.Bytes(), b.buffer.Bytes()
	for i := range slots {
		for k := range size {
			src[i*size+k] = byte(k*3 + i)
		}
	}
	counter := 1 << 19 // in b's buffer: the word that atomics count
	back := 1 << 19    // in a's: where READs and atomics land
	received := 0
	receives := 0
	const slotAt, split = 600000, 7000 // each receive in two pieces, 1000 bytes apart
	postReceive := func() {
		at := slotAt + receives%8*(size+1000)
		check(t,
			b.qp.PostReceive([]verbs.ReceiveRequest{{SGEs: []verbs.SGE{b.sge(at, split), b.sge(at+split+1000, size-split)}}}))
		receives++
	}
	for range 8 {
		postReceive()
	}
	var found [4]verbs.Completion
	next := uint64(0)
	sends := 0
	deadline := time.Now().Add(time.Minute)
	atomics := uint64(0)
	for posted, completed := 0, 0; completed < 400; {
		for posted < 400 && posted-completed < slots {
			i := posted % slots
			n := []int{1, 255, 256, 4096, 4097, size}[posted%6]
			r := verbs.SendRequest{
				ID: uint64(posted), Flags: verbs.Signaled, SGEs: []verbs.SGE{a.sge(i*size, n)},
				RemoteAddr: b.mr.Addr() + uint64(i*size), RKey: b.mr.RKey(),
			}
			switch posted % 5 {
			case 0, 3:
				r.Opcode = verbs.OpWrite
			case 1:
				r.Opcode = verbs.OpSendWithImmediate
				r.Immediate = uint32(sends)
				sends++
			case 2:
				r.Opcode = verbs.OpRead
				r.SGEs = []verbs.SGE{a.sge(back+i*size, n)}
				r.RemoteAddr = b.mr.Addr() + uint64(((i+slots-1)%slots)*size)
				clear(a.buffer.Bytes()[back+i*size:][:n])
			case 4:
				r.Opcode = verbs.OpFetchAdd
				r.SGEs = []verbs.SGE{a.sge(back+slots*size+8*i, 8)}
				r.RemoteAddr, r.CompareAdd = b.mr.Addr()+uint64(counter), 1
			}
			check(t, a.qp.PostSend([]verbs.SendRequest{r}))
			posted++
		}
		n, err := a.cq.Poll(found[:])
		check(t, err)
		for _, c := range found[:n] {
			if c.Status != verbs.Success {
				t.Fatalf("request %d: %v\nours %v\ntheirs %v", c.ID, c.Status, counters(t, a), counters(t, b))
			}
			if c.ID != next {
				t.Fatalf("completion of %d, want %d", c.ID, next)
			}
			next++
			i, k := int(c.ID)%slots, []int{1, 255, 256, 4096, 4097, size}[c.ID%6]
			switch c.ID % 5 {
			case 0, 3:
				if !bytes.Equal(dst[i*size:][:k], src[i*size:][:k]) {
					t.Fatalf("WRITE %d: data differ", c.ID)
				}
			case 4:
				if got := binary.NativeEndian.Uint64(a.buffer.Bytes()[back+slots*size+8*i:]); got != atomics {
					t.Fatalf("FETCH_ADD %d returned %d, want %d", c.ID, got, atomics)
				}
				atomics++
			}
			completed++
			deadline = time.Now().Add(time.Minute)
		}
		n, err = b.cq.Poll(found[:])
		check(t, err)
		for _, c := range found[:n] {
			if c.Status != verbs.Success || c.Immediate != uint32(received) {
				t.Fatalf("receive %d: %+v", received, c)
			}
			id := received*5 + 1
			want := src[id%slots*size:][:c.Bytes]
			at := slotAt + received%8*(size+1000)
			got := append(append([]byte(nil), dst[at:at+split]...), dst[at+split+1000:][:size-split]...)[:c.Bytes]
			if !bytes.Equal(got, want) {
				t.Fatalf("receive %d: data differ", received)
			}
			received++
			postReceive()
		}
		if time.Now().After(deadline) {
			t.Fatalf("stuck after %d completions\nours %v\ntheirs %v", completed, counters(t, a), counters(t, b))
		}
	}
	if got := binary.NativeEndian.Uint64(dst[counter:]); got != atomics {
		t.Errorf("the word counts %d, want %d", got, atomics)
	}
	t.Logf("ours %v; theirs %v", counters(t, a), counters(t, b))
}
