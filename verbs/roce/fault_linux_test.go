package roce

import (
	"bytes"
	"syscall"
	"testing"

	"github.com/gobw/gobw/verbs"
)

// TestUnmappedMemory unmaps memory that is registered, at either end: the request that touches it ends with an error,
// and the process goes on. What other queue pairs do is not disturbed.
func TestUnmappedMemory(t *testing.T) {
	const size = 1 << 16
	for _, tt := range []struct {
		name        string
		op          verbs.Opcode
		length      int
		atA         bool // A's memory is gone, else B's
		sent        verbs.Status
		received    verbs.Status // with a receive
		withReceive bool
	}{
		{"WRITE from it", verbs.OpWrite, 20000, true, verbs.LocalProtectionError, 0, false},
		{"small WRITE from it", verbs.OpWrite, 8, true, verbs.LocalProtectionError, 0, false},
		{"SEND from it", verbs.OpSend, 8, true, verbs.LocalProtectionError, 0, false},
		{"READ into it", verbs.OpRead, 20000, true, verbs.LocalProtectionError, 0, false},
		{"FETCH_ADD into it", verbs.OpFetchAdd, 8, true, verbs.LocalProtectionError, 0, false},
		{"WRITE into it", verbs.OpWrite, 20000, false, verbs.RemoteAccessError, 0, false},
		{"small WRITE into it", verbs.OpWrite, 8, false, verbs.RemoteAccessError, 0, false},
		{"READ from it", verbs.OpRead, 20000, false, verbs.RemoteAccessError, 0, false},
		{"FETCH_ADD on it", verbs.OpFetchAdd, 8, false, verbs.RemoteAccessError, 0, false},
		{"CMP_SWAP on it", verbs.OpCompareSwap, 8, false, verbs.RemoteAccessError, 0, false},
		{"SEND into it", verbs.OpSend, 8, false, verbs.RemoteOperationError, verbs.LocalProtectionError, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := newPair(t, pairOptions{bytes: size})
			b2 := *b
			there, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
			check(t, err)
			end := b
			if tt.atA {
				end = a
			}
			gone, err := end.pd.RegisterMemory(verbs.Borrow(there), 0, size, everything)
			check(t, err)
			defer func() { check(t, gone.Close()) }()
			r := verbs.SendRequest{
				ID: 5, Opcode: tt.op, Flags: verbs.Signaled, SGEs: []verbs.SGE{a.mr.SGE(0, tt.length)}, RemoteAddr: b.mr.Addr(),
				RKey: b.mr.RKey(),
			}
			if tt.atA {
				r.SGEs[0] = gone.SGE(0, tt.length)
			} else {
				r.RemoteAddr, r.RKey = gone.Addr(), gone.RKey()
			}
			if tt.withReceive {
				check(t, b.qp.PostReceive([]verbs.ReceiveRequest{{ID: 6, SGEs: []verbs.SGE{gone.SGE(0, size)}}}))
			}
			check(t, syscall.Munmap(there))
			check(t, a.qp.PostSend([]verbs.SendRequest{r}))
			if c := a.await(b); c.ID != 5 || c.Status != tt.sent {
				t.Errorf("completed %+v, want %v", c, tt.sent)
			}
			if tt.withReceive {
				if c := b2.await(a); c.ID != 6 || c.Status != tt.received {
					t.Errorf("received %+v, want %v", c, tt.received)
				}
			}
		})
	}
}

// TestUnmappedBesideOthers has a request fail whose memory is gone while a batch of
// others is being made: these arrive whole.
func TestUnmappedBesideOthers(t *testing.T) {
	a, b := newPair(t, pairOptions{bytes: 1 << 16})
	a.fill(3)
	there, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	check(t, err)
	gone, err := a.pd.RegisterMemory(verbs.Borrow(there), 0, 4096, everything)
	check(t, err)
	defer func() { check(t, gone.Close()) }()
	check(t, syscall.Munmap(there))
	var list []verbs.SendRequest
	for i := range 10 {
		list = append(list, verbs.SendRequest{
			ID: uint64(i), Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: []verbs.SGE{a.sge(i*3000, 3000)},
			RemoteAddr: b.mr.Addr() + uint64(i*3000), RKey: b.mr.RKey(),
		})
	}
	list[9].SGEs[0] = gone.SGE(0, 3000)
	check(t, a.qp.PostSend(list))
	for i := range 10 {
		want := verbs.Success
		if i == 9 {
			want = verbs.LocalProtectionError
		}
		if c := a.await(b); c.ID != uint64(i) || c.Status != want {
			t.Errorf("completed %+v, want %d with %v", c, i, want)
		}
	}
	if !bytes.Equal(a.buffer.Bytes()[:27000], b.buffer.Bytes()[:27000]) {
		t.Error("what was sent before differs")
	}
}

// TestOnlyBorrowedFaults: memory of this process cannot go while it is registered,
// and nobody pays for catching its faults.
func TestOnlyBorrowedFaults(t *testing.T) {
	a, _ := newPair(t, pairOptions{bytes: 1 << 16})
	e := a.device.e
	e.held(func() {
		if e.borrowed {
			t.Error("faults are caught of memory that is the buffer's own")
		}
	})
	mr, err := a.pd.RegisterMemory(verbs.Borrow(a.buffer.Bytes()), 0, 64, everything)
	check(t, err)
	defer func() { check(t, mr.Close()) }()
	e.held(func() {
		if !e.borrowed {
			t.Error("faults of borrowed memory are not caught")
		}
	})
}
