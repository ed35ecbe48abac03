package verbstest

import (
	"fmt"

	"github.com/gobw/gobw/verbs"
)

// sizes are the message lengths worth trying at an MTU.
func sizes(mtu int) []int {
	return []int{0, 1, 2, 3, mtu - 1, mtu, mtu + 1, 3*mtu + 7, 8 * mtu, 65536 + 3, 1<<20 + 5}
}

func transports() []verbs.Transport { return []verbs.Transport{verbs.RC, verbs.UC, verbs.UD} }

// testData moves every size by every operation of every transport, through lists of every length on both ends, and
// checks each byte of the target and those around it.
func testData(t *test) {
	for _, transport := range transports() {
		for _, op := range []verbs.Opcode{
			send, verbs.OpSendWithImmediate, write, writeImmediate, read,
		} {
			if transport.Supports(op) {
				t.Run(fmt.Sprintf("%v %v", transport, op), func(t *test) { testOperation(t, transport, op) })
			}
		}
	}
}

func testOperation(t *test, transport verbs.Transport, op verbs.Opcode) {
	t.needOpcode(op)
	limits := t.A.Device.Info().Limits
	most := min(limits.MaxSGE, t.B.Device.Info().Limits.MaxSGE)
	r := newRig(t, rigOptions{
		transport: transport, bytes: 1<<20 + 4096,
		qp: verbs.QueuePairOptions{SendSGEs: most, RecvSGEs: most, SendDepth: 16, RecvDepth: 16},
	})
	if op == read && limits.MaxSGERead > 0 {
		most = min(most, limits.MaxSGERead)
	}
	id, immediates := uint64(0), []uint32{0, 1, 0x01020304, 0x80000000, 0xffffffff}
	for _, size := range sizes(t.MTU.Bytes()) {
		if transport == verbs.UD && size > t.MTU.Bytes() {
			continue
		}
		for _, entries := range []int{1, min(2, most), most} {
			if entries > max(size, 1) {
				continue
			}
			if size == 0 && entries == 1 {
				entries = 0
			}
			r.refill(size + 512)
			q := r.a.request(id, op, 0)
			q.SGEs, q.RemoteAddr, q.Immediate = r.a.split(128, size, entries), q.RemoteAddr+128, immediates[id%5]
			id++
			r.move(q)
			if t.Failed() {
				t.Fatalf("at %d bytes in %d entries", size, entries)
			}
		}
	}
}

// testLargest READs a message of the largest size that a device names, up to 2^31 bytes, into a list whose entries all
// name the same memory: the far end's is only address space, which reads as zero but for its first and last page.
func testLargest(t *test) {
	limits := t.A.Device.Info().Limits
	size := min(limits.MaxMessageBytes, largestTried)
	entries := uint64(max(min(limits.MaxSGE, limits.MaxSGERead), 1))
	if t.Largest > 0 {
		size = min(size, t.Largest)
	}
	part := (size + entries - 1) / entries
	if part > 256<<20 {
		t.Skipf("%d bytes in %d entries take too much memory here", size, entries)
	}
	r := newRig(t, rigOptions{bytes: int(part), connect: patient, qp: verbs.QueuePairOptions{SendSGEs: int(entries)}})
	r.timeout = 5 * patience
	far, mr := r.b.memory(int(size), allRemote)
	fill(far.Bytes()[size-4096:], 9)
	q := r.a.request(1, read, 0)
	q.RemoteAddr, q.RKey = far.Addr(), mr.RKey()
	q.SGEs = nil
	for left := size; left > 0; left -= min(left, part) {
		q.SGEs = append(q.SGEs, r.a.sge(0, int(min(left, part))))
	}
	r.a.do(q)
	last := (size - 1) % part // of the last entry
	same(t, "last page", r.a.mem[last+1-4096:], far.Bytes()[size-4096:])
	if size < limits.MaxMessageBytes {
		return
	}
	q.SGEs[len(q.SGEs)-1].Length++
	r.a.refuses(fmt.Sprintf("a message of %d bytes, the limit is %d", size+1, size), q)
}
