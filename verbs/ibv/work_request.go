//go:build linux && cgo

package ibv

// #include "shim.h"
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/internal/handle"
)

// fillSend writes one request, which check has let pass, into C memory; its list takes the front of sge.
func fillSend(w *C.struct_vb_send_wr, sge []C.struct_vb_sge, r *verbs.SendRequest, t verbs.Transport) {
	*w = C.struct_vb_send_wr{
		wr_id: C.uint64_t(r.ID), opcode: C.uint32_t(r.Opcode), send_flags: C.uint32_t(r.Flags), num_sge: C.int32_t(len(r.SGEs)),
	}
	if len(r.SGEs) > 0 {
		w.sg_list = &sge[0]
		copySGEs(sge, r.SGEs)
	}
	if r.Flags&verbs.Inline != 0 { // nobody looks at the keys, and post.c wants them so
		for i := range sge[:len(r.SGEs)] {
			sge[i].lkey = 0
		}
	}
	if r.Opcode.HasImmediate() {
		w.imm_or_rkey = C.uint32_t(networkOrder(r.Immediate))
	}
	switch r.Opcode {
	case verbs.OpWrite, verbs.OpWriteWithImmediate, verbs.OpRead:
		put(w.wr[:], 0, r.RemoteAddr)
		put32(w.wr[:], 8, r.RKey)
	case verbs.OpCompareSwap, verbs.OpFetchAdd:
		put(w.wr[:], 0, r.RemoteAddr)
		put(w.wr[:], 8, r.CompareAdd)
		put(w.wr[:], 16, r.Swap)
		put32(w.wr[:], 24, r.RKey)
	case verbs.OpLocalInvalidate, verbs.OpSendWithInvalidate:
		w.imm_or_rkey = C.uint32_t(r.InvalidateRKey)
	case verbs.OpBindMW:
		b := r.Bind
		*(*bindMW)(unsafe.Pointer(&w.u[0])) = bindMW{
			mw: b.Window.(*memoryWindow).mw, rkey: b.RKey, mr: b.Region.(*memoryRegion).mr, addr: b.Addr, length: b.Length, access: uint32(b.Access),
		}
	case verbs.OpSend, verbs.OpSendWithImmediate:
	}
	if t == verbs.UD {
		put(w.wr[:], 0, uint64(uintptr(unsafe.Pointer(r.AH.(*addressHandle).ah))))
		put32(w.wr[:], 8, r.RemoteQPN)
		put32(w.wr[:], 12, r.RemoteQKey)
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

// bindMW is the bind_mw part of struct vb_send_wr, which cgo shows as bytes.
type bindMW struct {
	mw     *C.struct_vb_mw
	rkey   uint32
	mr     *C.struct_vb_mr
	addr   uint64
	length uint64
	access uint32
}

func put(b []byte, at int, v uint64) { binary.NativeEndian.PutUint64(b[at:], v) }

func put32(b []byte, at int, v uint32) { binary.NativeEndian.PutUint32(b[at:], v) }

// copySGEs copies a list; verbs.SGE has the layout of struct ibv_sge.
func copySGEs(to []C.struct_vb_sge, from []verbs.SGE) {
	copy(unsafe.Slice((*verbs.SGE)(unsafe.Pointer(unsafe.SliceData(to))), len(to)), from)
}

// list is the C memory that a post fills anew for every list.
type list[WR any] struct {
	memory
	wr  []WR
	sge []C.struct_vb_sge
}

// fill writes n requests, whose entries sges tells, links them, and returns the first. Request i is written by fill, which returns where
// its link is.
func (l *list[WR]) fill(n int, sges func(i int) []verbs.SGE, fill func(i int, w *WR, sge []C.struct_vb_sge) **WR) *WR {
	entries := 0
	for i := range n {
		entries += len(sges(i))
	}
	if n > len(l.wr) || entries > len(l.sge) {
		wrs, entries := max(n, 2*len(l.wr), 16), max(entries, 2*len(l.sge), 16)
		l.free()
		l.wr, l.sge = allocate[WR](&l.memory, wrs), allocate[C.struct_vb_sge](&l.memory, entries)
	}
	var link **WR
	rest := l.sge
	for i := range n {
		if link != nil {
			*link = &l.wr[i]
		}
		entries := len(sges(i))
		link = fill(i, &l.wr[i], rest[:entries])
		rest = rest[entries:]
	}
	return &l.wr[0]
}

// posted is how many of a list of n requests got through, when bad is the first that did not.
func posted[T any](bad, head *T, n int) int {
	if bad == nil {
		return 0
	}
	return min(int((uintptr(unsafe.Pointer(bad))-uintptr(unsafe.Pointer(head)))/unsafe.Sizeof(*head)), n-1)
}

// receiveList is the C memory that PostReceive fills anew for every list.
type receiveList struct{ list[C.struct_vb_recv_wr] }

// post posts those of the requests that come before the first whose list is too long, by a device's function for a queue.
func (l *receiveList) post(r []verbs.ReceiveRequest, most int, by, queue unsafe.Pointer) error {
	var refused error
	for i := range r {
		if err := limitSGEs(len(r[i].SGEs), most); err != nil {
			r, refused = r[:i], &verbs.PostError{Index: i, Err: err}
			break
		}
	}
	if len(r) == 0 {
		return refused
	}
	head := l.fill(len(r), func(i int) []verbs.SGE { return r[i].SGEs }, func(i int, w *C.struct_vb_recv_wr, sge []C.struct_vb_sge) **C.struct_vb_recv_wr {
		fillReceive(w, sge, &r[i])
		return &w.next
	})
	var bad *C.struct_vb_recv_wr
	if rc := C.vb_post_recv(by, queue, head, &bad); rc != 0 {
		return &verbs.PostError{Index: posted(bad, head, len(r)), Err: postErrno(syscall.Errno(rc))}
	}
	return refused
}

func fillReceive(w *C.struct_vb_recv_wr, sge []C.struct_vb_sge, r *verbs.ReceiveRequest) {
	*w = C.struct_vb_recv_wr{wr_id: C.uint64_t(r.ID), num_sge: C.int32_t(len(r.SGEs))}
	if len(r.SGEs) > 0 {
		w.sg_list = &sge[0]
		copySGEs(sge, r.SGEs)
	}
}

// limitSGEs refuses a list longer than the queue takes, with the number, where libibverbs says EINVAL.
func limitSGEs(n, limit int) error {
	if n > limit {
		return fmt.Errorf("%d scatter/gather entries: the queue pair was made for %d", n, limit)
	}
	return nil
}

// What Go writes into C memory by its own types is as large there.
var (
	_ [C.sizeof_struct_vb_sge]byte                 = [unsafe.Sizeof(verbs.SGE{})]byte{}
	_ [unsafe.Sizeof(C.struct_vb_send_wr{}.u)]byte = [unsafe.Sizeof(bindMW{})]byte{}
)
