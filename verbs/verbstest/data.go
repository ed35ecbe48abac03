package verbstest

import (
	"fmt"
	"testing"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// sizes are the message lengths worth trying at an MTU.
func sizes(mtu int) []int {
	return []int{0, 1, 2, 3, mtu - 1, mtu, mtu + 1, 3*mtu + 7, 8 * mtu, 65536 + 3, 1<<20 + 5}
}

// testData moves every size by every operation of every transport, through lists of every length on both ends, and
// checks each byte of the target and those around it.
func testData(t *testing.T, s *suite) {
	for _, transport := range []verbs.Transport{verbs.RC, verbs.UC, verbs.UD} {
		for _, op := range []verbs.Opcode{
			verbs.OpSend, verbs.OpSendWithImmediate, verbs.OpWrite, verbs.OpWriteWithImmediate, verbs.OpRead,
		} {
			if transport.Supports(op) {
				t.Run(fmt.Sprintf("%v %v", transport, op), func(t *testing.T) { testOperation(t, s, transport, op) })
			}
		}
	}
}

func testOperation(t *testing.T, s *suite, transport verbs.Transport, op verbs.Opcode) {
	s.needOpcode(t, op)
	limits := s.pair.A.Device.Info().Limits
	most := min(limits.MaxSGE, s.pair.B.Device.Info().Limits.MaxSGE)
	r := newRig(t, s, rigOptions{
		transport: transport, bytes: 1<<20 + 4096,
		qp: verbs.QueuePairOptions{SendSGEs: most, RecvSGEs: most, SendDepth: 16, RecvDepth: 16},
	})
	if op == verbs.OpRead && limits.MaxSGERead > 0 {
		most = min(most, limits.MaxSGERead)
	}
	sourceEntries := []int{1, min(2, most), most}
	id := uint64(0)
	for _, size := range sizes(s.pair.MTU.Bytes()) {
		if transport == verbs.UD && size > s.pair.MTU.Bytes() {
			continue
		}
		for _, entries := range sourceEntries {
			if entries > max(size, 1) {
				continue
			}
			if size == 0 && entries == 1 {
				entries = 0
			}
			id++
			r.move(op, transport, id, size, entries)
			if t.Failed() {
				t.Fatalf("at %d bytes in %d entries", size, entries)
			}
		}
	}
}

// move sends one message from A to B (or reads it from B to A) and checks completions and memory.
func (r *rig) move(op verbs.Opcode, transport verbs.Transport, id uint64, size, entries int) {
	t := r.t
	t.Helper()
	const offset, guard = 128, 64
	from, to := r.a, r.b
	if op == verbs.OpRead {
		from, to = r.b, r.a
	}
	source, target := from.buf.Bytes()[offset:offset+size], to.buf.Bytes()
	fill(source, uint32(id))
	if size > 0 && source[size-1] == 0xee {
		source[size-1] = 0 // the last byte must tell old from new
	}
	whole := target[:offset+size+guard+verbs.GRHBytes]
	for i := range whole {
		whole[i] = 0xee
	}

	q := r.a.request(id, op, 0)
	q.SGEs = r.a.split(offset, size, entries)
	q.RemoteAddr += offset
	if op.HasImmediate() {
		q.Immediate = 0x1020_3040 ^ uint32(id)
	}
	at := offset // where the data lands
	switch {
	case transport == verbs.UD:
		at = offset + verbs.GRHBytes
		r.b.receive(id, r.b.split(offset, size+verbs.GRHBytes, max(entries, 1))...)
	case op == verbs.OpWriteWithImmediate:
		r.b.receive(id)
	case op.NeedsReceive():
		r.b.receive(id, r.b.split(offset, size, entries)...)
	}
	r.a.do(q, verbs.Success)
	switch {
	case op.NeedsReceive():
		r.checkReceive(op, transport, id, size, q.Immediate)
	case op == verbs.OpWrite && transport == verbs.UC:
		// Nothing but its last byte tells the target when a WRITE has arrived.
		if size > 0 {
			r.until("the WRITE's last byte", func() bool { return job.LoadByte(&whole[at+size-1]) == source[size-1] })
		}
	}
	same(t, "target", whole[at:at+size], source)
	before := whole[:offset]
	after := whole[at+size:]
	if !allAre(before, 0xee) || !allAre(after, 0xee) {
		t.Errorf("%d bytes: memory around the target was written", size)
	}
}

func (r *rig) checkReceive(op verbs.Opcode, transport verbs.Transport, id uint64, size int, immediate uint32) {
	t := r.t
	t.Helper()
	c := r.b.wantReceived(id, verbs.Success)
	want := uint32(size)
	if transport == verbs.UD {
		want += verbs.GRHBytes
		if c.Flags&verbs.WithGRH == 0 || c.SourceQPN != r.a.qp.QPN() {
			t.Errorf("flags %#x from qp %#x, want GRH from %#x", c.Flags, c.SourceQPN, r.a.qp.QPN())
		}
	}
	if c.Bytes != want {
		t.Errorf("received %d bytes, want %d", c.Bytes, want)
	}
	if got := c.Flags&verbs.WithImmediate != 0; got != op.HasImmediate() {
		t.Errorf("immediate flag %v, want %v", got, op.HasImmediate())
	}
	if op.HasImmediate() && c.Immediate != immediate {
		t.Errorf("immediate %#x, want %#x", c.Immediate, immediate)
	}
	opcode := verbs.CompletedReceive
	if op == verbs.OpWriteWithImmediate {
		opcode = verbs.CompletedReceiveWithImmediate
	}
	if c.Opcode != opcode {
		t.Errorf("receive completion says %v, want %v", c.Opcode, opcode)
	}
}

// testLargest READs a message of the largest size that a device names, up to 2^31 bytes, into a list whose entries all name
// the same memory: the far end's is only address space, which reads as zero but for its first and last page.
func testLargest(t *testing.T, s *suite) {
	limits := s.pair.A.Device.Info().Limits
	size := min(limits.MaxMessageBytes, largestTried)
	entries := uint64(max(min(limits.MaxSGE, limits.MaxSGERead), 1))
	if s.pair.Largest > 0 {
		size = min(size, s.pair.Largest)
	}
	part := (size + entries - 1) / entries
	if part > 256<<20 {
		t.Skipf("%d bytes in %d entries take too much memory here", size, entries)
	}
	r := newRig(t, s, rigOptions{bytes: int(part), connect: patient, qp: verbs.QueuePairOptions{SendSGEs: int(entries)}})
	r.timeout = 5 * patience
	far, mr := r.b.memory(int(size), allRemote)
	fill(far.Bytes()[size-4096:], 9)
	q := r.a.request(1, verbs.OpRead, 0)
	q.RemoteAddr, q.RKey = far.Addr(), mr.RKey()
	q.SGEs = nil
	for left := size; left > 0; left -= min(left, part) {
		q.SGEs = append(q.SGEs, r.a.sge(0, int(min(left, part))))
	}
	r.a.do(q, verbs.Success)
	last := (size - 1) % part // of the last entry
	same(t, "last page", r.a.buf.Bytes()[last+1-4096:], far.Bytes()[size-4096:])
	if size < limits.MaxMessageBytes {
		return
	}
	q.SGEs[len(q.SGEs)-1].Length++
	if !s.dev.ignored(t, MessageAboveLimit) {
		r.a.refuses(fmt.Sprintf("a message of %d bytes, the limit is %d", size+1, size), q)
	}
}

// testImmediate checks that an immediate arrives as the number that was sent, whatever it is, and that a WRITE with
// immediate consumes a receive without touching its memory.
func testImmediate(t *testing.T, s *suite) {
	r := newRig(t, s, rigOptions{})
	for i, v := range []uint32{0, 1, 0x01020304, 0x80000000, 0xffffffff} {
		id := uint64(i)
		target := r.b.buf.Bytes()[4096:8192]
		fill(target, 9)
		want := append([]byte(nil), target...)
		r.b.receive(id, r.b.sge(4096, 4096))
		q := r.a.request(id, verbs.OpWriteWithImmediate, 100)
		q.Immediate = v
		r.a.do(q, verbs.Success)
		c := r.b.wantReceived(id, verbs.Success)
		if c.Immediate != v || c.Bytes != 100 {
			t.Errorf("immediate %#x of %d bytes, want %#x of 100", c.Immediate, c.Bytes, v)
		}
		same(t, "memory of the receive", target, want)
	}
}
