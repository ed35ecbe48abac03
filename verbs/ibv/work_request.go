//go:build linux && cgo

package ibv

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/internal/handle"
)

// fillSend writes one request, which check has let pass, into C memory; its list takes the front of sge.
func fillSend(w *C.struct_vb_send_wr, sge *[]C.struct_vb_sge, r *verbs.SendRequest, t verbs.Transport) {
	*w = C.struct_vb_send_wr{opcode: C.uint32_t(r.Opcode), send_flags: C.uint32_t(r.Flags)}
	fillReceive((*C.struct_vb_recv_wr)(unsafe.Pointer(w)), sge, r.ID, r.SGEs)
	if r.Flags&verbs.Inline != 0 { // nobody looks at the keys, and post.c wants them so
		list := unsafe.Slice(w.sg_list, w.num_sge)
		for i := range list {
			list[i].lkey = 0
		}
	}
	if r.Opcode.HasImmediate() {
		w.imm_or_rkey = C.uint32_t(bits.ReverseBytes32(r.Immediate))
	}
	to := (*target)(unsafe.Pointer(&w.wr))
	switch r.Opcode {
	case verbs.OpWrite, verbs.OpWriteWithImmediate, verbs.OpRead:
		to[0], to[1] = r.RemoteAddr, uint64(r.RKey)
	case verbs.OpCompareSwap, verbs.OpFetchAdd:
		*to = target{r.RemoteAddr, r.CompareAdd, r.Swap, uint64(r.RKey)}
	case verbs.OpLocalInvalidate, verbs.OpSendWithInvalidate:
		w.imm_or_rkey = C.uint32_t(r.InvalidateRKey)
	case verbs.OpBindMW:
		b := r.Bind
		*(*bindMW)(unsafe.Pointer(&w.u[0])) = bindMW{
			mw: b.Window.(*memoryWindow).mw, rkey: b.RKey, mr: b.Region.(*memoryRegion).mr, addr: b.Addr, length: b.Length,
			access: uint32(b.Access),
		}
	case verbs.OpSend, verbs.OpSendWithImmediate:
	}
	if t == verbs.UD {
		to[0], to[1] = uint64(uintptr(unsafe.Pointer(r.AH.(*addressHandle).ah))), uint64(r.RemoteQPN)|uint64(r.RemoteQKey)<<32
	}
}

// fillReceive writes one receive, or what a request to send has in common with it: the front.
func fillReceive(w *C.struct_vb_recv_wr, sge *[]C.struct_vb_sge, id uint64, list []verbs.SGE) {
	n := len(list)
	w.wr_id, w.next, w.sg_list, w.num_sge = C.uint64_t(id), nil, nil, C.int32_t(n)
	if n > 0 {
		w.sg_list = &(*sge)[0]
		copy(unsafe.Slice((*verbs.SGE)(unsafe.Pointer(w.sg_list)), n), list)
		*sge = (*sge)[n:]
	}
}

// named adds the handles that a request names; one that is missing or another device's is refused.
func (q *queuePair) named(r *verbs.SendRequest, to []*handle.Handle) ([]*handle.Handle, error) {
	needs := handle.Needs[*device]{Of: q.d, List: to}
	switch {
	case q.transport == verbs.UD:
		handle.Need[*addressHandle](&needs, "address handle", r.AH)
	case r.Opcode != verbs.OpBindMW:
	case r.Bind == nil:
		needs.Err = errors.New("BIND_MW without a description of the bind")
	default:
		handle.Need[*memoryWindow](&needs, "memory window", r.Bind.Window)
		handle.Need[*memoryRegion](&needs, "memory region", r.Bind.Region)
	}
	return needs.List, needs.Err
}

// target is the wr part of struct vb_send_wr, which cgo shows as bytes, in words of 64
// bits: the lower half of one comes first.
type target [4]uint64

// bindMW is the bind_mw part.
type bindMW struct {
	mw     *C.struct_vb_mw
	rkey   uint32
	mr     *C.struct_vb_mr
	addr   uint64
	length uint64
	access uint32
}

// list is the C memory that a post fills anew for every list.
type list[WR any] struct {
	wr  []WR
	sge []C.struct_vb_sge
}

// room is memory for n requests and their entries.
func (l *list[WR]) room(m *memory, n, entries int) ([]WR, []C.struct_vb_sge) {
	if n > len(l.wr) || entries > len(l.sge) {
		l.wr = allocate[WR](m, max(n, 2*len(l.wr), 16))
		l.sge = allocate[C.struct_vb_sge](m, max(entries, 2*len(l.sge), 16))
	}
	return l.wr, l.sge
}

// posted is how many of a list of n requests got through, when bad is the first that did not.
func posted[T any](bad, head *T, n int) int {
	if bad == nil {
		return 0
	}
	return min(int((uintptr(unsafe.Pointer(bad))-uintptr(unsafe.Pointer(head)))/unsafe.Sizeof(*head)), n-1)
}

// receiver is a queue of receives: a queue pair's, or a shared one.
type receiver struct {
	list[C.struct_vb_recv_wr]
	sges     int            // of one receive, at most
	by, from unsafe.Pointer // the device's function for lists of receives, and the queue
}

// postReceives posts those of the requests that come before the first whose list is too long.
func (o *object) postReceives(q *receiver, r []verbs.ReceiveRequest) error {
	var refused error
	entries := 0
	for i := range r {
		n := len(r[i].SGEs)
		if err := limitSGEs(n, q.sges); err != nil {
			r, refused = r[:i], &verbs.PostError{Index: i, Err: err}
			break
		}
		entries += n
	}
	if len(r) == 0 {
		return refused
	}
	wr, sge := q.room(&o.memory, len(r), entries)
	for i := range r {
		fillReceive(&wr[i], &sge, r[i].ID, r[i].SGEs)
		if i > 0 {
			wr[i-1].next = &wr[i]
		}
	}
	var bad *C.struct_vb_recv_wr
	if rc := C.vb_post_recv(q.by, q.from, &wr[0], &bad); rc != 0 {
		return &verbs.PostError{Index: posted(bad, &wr[0], len(r)), Err: postErrno(rc)}
	}
	return refused
}

// limitSGEs refuses a list longer than the queue takes, with the number, where libibverbs says EINVAL.
func limitSGEs(n, limit int) error {
	if n > limit {
		return fmt.Errorf("%d scatter/gather entries: the queue pair was made for %d", n, limit)
	}
	return nil
}

// What Go writes into C memory by its own types is as large there, and lies in the same place.
var (
	_ [C.sizeof_struct_vb_sge]byte                         = [unsafe.Sizeof(verbs.SGE{})]byte{}
	_ [unsafe.Sizeof(C.struct_vb_send_wr{}.wr)]byte        = [unsafe.Sizeof(target{})]byte{}
	_ [unsafe.Sizeof(C.struct_vb_send_wr{}.u)]byte         = [unsafe.Sizeof(bindMW{})]byte{}
	_ [unsafe.Offsetof(C.struct_vb_send_wr{}.num_sge)]byte = [unsafe.Offsetof(C.struct_vb_recv_wr{}.num_sge)]byte{}
)
