package verbstest

import (
	"bytes"
	"encoding/binary"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// refill writes bytes that were not there to the front of both ends' memory, which move compares.
func (r *rig) refill(n int) {
	r.filled, r.seed = n, r.seed+2
	fill(r.a.mem[:n], r.seed)
	fill(r.b.mem[:n], r.seed+1)
}

// move posts requests of A as one list, and compares their completions, and what was refilled of both ends' memory,
// with what comes of doing one after the other. What B receives goes to where A's request names its memory.
func (r *rig) move(list ...verbs.SendRequest) {
	t := r
	t.Helper()
	onA, onB := r.a.mem[:r.filled], r.b.mem[:r.filled]
	for i := range list {
		if from, to := r.named(&list[i], onA, onB); r.untold(&list[i]) {
			to[len(to)-1] = ^from[len(from)-1]
		}
	}
	a, b := bytes.Clone(onA), bytes.Clone(onB)
	for i := range list {
		from, to := r.named(&list[i], a, b)
		do(&list[i], from, to)
		r.receiveOf(&list[i])
	}
	apart, from := r.ignored(OrderBehindRead), 0
	for to := 1; to <= len(list); to++ {
		if to == len(list) || apart && list[to-1].Opcode == read && list[to].Flags&verbs.Fence == 0 {
			r.a.post(list[from:to]...)
			for ; from < to; from++ {
				q := &list[from]
				if local, _ := r.named(q, onA, onB); q.Flags&verbs.Inline != 0 {
					clear(local) // it is free again
				}
				if q.Flags&verbs.Signaled != 0 {
					r.a.wantCompleted(*q)
				}
			}
		}
	}
	for i := range list {
		_, want := r.named(&list[i], a, b)
		_, got := r.named(&list[i], onA, onB)
		switch last := len(want) - 1; {
		case r.untold(&list[i]):
			r.until("the WRITE's last byte", func() bool { return job.LoadByte(&got[last]) == want[last] })
		case list[i].Opcode.NeedsReceive():
			r.checkReceive(&list[i])
			at := list[i].RemoteAddr - r.b.buf.Addr()
			copy(b[at:][:r.grh()], onB[at:]) // the device's
		}
	}
	same(t, "A's memory", onA, a)
	same(t, "B's memory", onB, b)
	r.poll()
	if n := r.left(); n > 0 {
		t.Errorf("%d completions too many", n)
	}
}

// grh is how many bytes stand in front of a message in its receive.
func (r *rig) grh() int {
	if r.a.qp.Transport() == verbs.UD {
		return verbs.GRHBytes
	}
	return 0
}

// named is what a request names of both ends' memory.
func (r *rig) named(q *verbs.SendRequest, a, b []byte) (local, remote []byte) {
	n := q.Length()
	if n == 0 {
		return nil, nil
	}
	at := q.RemoteAddr - r.b.buf.Addr() + uint64(r.grh())
	if r.zeroAt > 0 {
		at = q.RemoteAddr + uint64(r.zeroAt)
	}
	return a[q.SGEs[0].Addr-r.a.buf.Addr():][:n], b[at:][:n]
}

// untold tells a WRITE of which its last byte alone says that it has arrived.
func (r *rig) untold(q *verbs.SendRequest) bool {
	return q.Opcode == write && q.Length() > 0 && r.a.qp.Transport() == verbs.UC
}

// do does what a request does.
func do(q *verbs.SendRequest, local, remote []byte) {
	switch q.Opcode {
	case read:
		copy(local, remote)
	case fetchAdd, compareSwap:
		copy(local, remote)
		switch old := word(remote); {
		case q.Opcode == fetchAdd:
			binary.NativeEndian.PutUint64(remote, old+q.CompareAdd)
		case old == q.CompareAdd:
			binary.NativeEndian.PutUint64(remote, q.Swap)
		}
	default:
		copy(remote, local)
	}
	if q.Flags&verbs.Inline != 0 {
		clear(local)
	}
}

// receiveOf posts what a request needs, in as many entries as it has. A WRITE with
// immediate leaves the receive's memory alone.
func (r *rig) receiveOf(q *verbs.SendRequest) {
	r.Helper()
	switch at, grh := int(q.RemoteAddr-r.b.buf.Addr()), r.grh(); {
	case q.Opcode == writeImmediate:
		r.b.receive(q.ID, r.b.split(0, 64, int(q.ID%2))...)
	case q.Opcode.NeedsReceive():
		r.b.receive(q.ID, r.b.split(at, int(q.Length())+grh, max(len(q.SGEs), min(grh, 1)))...)
	}
}

func (r *rig) checkReceive(q *verbs.SendRequest) {
	r.Helper()
	c := r.b.recvs.want(q.ID)
	want := verbs.Completion{ID: q.ID, Opcode: verbs.CompletedReceive, Bytes: uint32(q.Length()) + uint32(r.grh())}
	got := verbs.Completion{ID: c.ID, Opcode: c.Opcode, Bytes: c.Bytes, Flags: c.Flags & verbs.WithImmediate}
	if q.Opcode == writeImmediate {
		want.Opcode = verbs.CompletedReceiveWithImmediate
	}
	if q.Opcode.HasImmediate() {
		want.Flags, want.Immediate, got.Immediate = verbs.WithImmediate, q.Immediate, c.Immediate
	}
	if r.grh() > 0 {
		want.Flags, want.SourceQPN = want.Flags|verbs.WithGRH, r.a.qp.QPN()
		got.Flags, got.SourceQPN = got.Flags|c.Flags&verbs.WithGRH, c.SourceQPN
	}
	if got != want {
		r.Errorf("received %+v, want %+v", got, want)
	}
}
