//go:build linux && cgo

package ibv

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/ibv/cloop"
	"github.com/gobw/gobw/verbs/internal/handle"
)

// sendRing is C memory with room for send requests and their lists. Requests are linked one after the other.
type sendRing struct {
	wr  []C.struct_vb_send_wr
	sge []C.struct_vb_sge
}

// newSendRing makes room for n requests with sges entries in all.
func newSendRing(n, sges int) sendRing {
	return sendRing{wr: cloop.Slice[C.struct_vb_send_wr](n), sge: cloop.Slice[C.struct_vb_sge](sges)}
}

func (r *sendRing) free() {
	cloop.Free(r.wr)
	cloop.Free(r.sge)
	*r = sendRing{}
}

// fillSend writes one request, which checkSend has let pass, into C memory; its list takes the front of sge.
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

// handles are those that a request names, which ownHandles has let pass.
func (q *queuePair) handles(r *verbs.SendRequest) (h [2]*handle.Handle) {
	if q.transport == verbs.UD {
		h[0] = &r.AH.(*addressHandle).Handle
	} else if r.Opcode == verbs.OpBindMW {
		h[0], h[1] = &r.Bind.Window.(*memoryWindow).Handle, &r.Bind.Region.(*memoryRegion).Handle
	}
	return h
}

// enterHandles keeps the handles that a request names until it is posted.
func (q *queuePair) enterHandles(r *verbs.SendRequest) error {
	h := q.handles(r)
	for i := range h {
		if h[i] == nil {
			continue
		}
		if err := h[i].Enter(); err != nil {
			if i > 0 {
				h[0].Leave()
			}
			return fmt.Errorf("a handle of the request: %w", err)
		}
	}
	return nil
}

func (q *queuePair) leaveHandles(r []verbs.SendRequest) {
	for i := range r {
		for _, h := range q.handles(&r[i]) {
			if h != nil {
				h.Leave()
			}
		}
	}
}

// ownHandles refuses a request that names what is missing or another device's.
func (q *queuePair) ownHandles(r *verbs.SendRequest) error {
	d := q.p.d
	if q.transport == verbs.UD {
		if h, ok := r.AH.(*addressHandle); !ok || h.p.d != d {
			return errors.New("the address handle is another device's")
		}
	}
	if r.Opcode != verbs.OpBindMW {
		return nil
	}
	if r.Bind == nil {
		return errors.New("BIND_MW without a description of the bind")
	}
	if window, ok := r.Bind.Window.(*memoryWindow); !ok || window.p.d != d {
		return errors.New("the memory window is another device's")
	}
	if region, ok := r.Bind.Region.(*memoryRegion); !ok || region.p.d != d {
		return errors.New("the memory region is another device's")
	}
	return nil
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

// sendList is the C memory that PostSend fills anew for every list.
type sendList struct{ ring sendRing }

// fill writes a list of requests, linked, and returns the first.
func (l *sendList) fill(r []verbs.SendRequest, t verbs.Transport) *C.struct_vb_send_wr {
	sges := 0
	for i := range r {
		sges += len(r[i].SGEs)
	}
	if len(r) > len(l.ring.wr) || sges > len(l.ring.sge) {
		n, s := max(len(r), 2*len(l.ring.wr), 16), max(sges, 2*len(l.ring.sge), 16)
		l.ring.free()
		l.ring = newSendRing(n, s)
	}
	at := 0
	for i := range r {
		n := len(r[i].SGEs)
		fillSend(&l.ring.wr[i], l.ring.sge[at:at+n], &r[i], t)
		if i > 0 {
			l.ring.wr[i-1].next = &l.ring.wr[i]
		}
		at += n
	}
	return &l.ring.wr[0]
}

// posted is how many of a list of n requests got through, when bad is the first that did not.
func posted[T any](bad, head *T, n int) int {
	if bad == nil {
		return 0
	}
	return min(int((uintptr(unsafe.Pointer(bad))-uintptr(unsafe.Pointer(head)))/unsafe.Sizeof(*head)), n-1)
}

// receiveList is the C memory that PostReceive fills anew for every list.
type receiveList struct {
	wr  []C.struct_vb_recv_wr
	sge []C.struct_vb_sge
}

func (l *receiveList) free() {
	cloop.Free(l.wr)
	cloop.Free(l.sge)
	*l = receiveList{}
}

// post posts those of the requests that come before the first whose list is too long.
func (l *receiveList) post(r []verbs.ReceiveRequest, most int, post func(head *C.struct_vb_recv_wr, bad **C.struct_vb_recv_wr) C.int) error {
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
	head := l.fill(r)
	var bad *C.struct_vb_recv_wr
	if rc := post(head, &bad); rc != 0 {
		return &verbs.PostError{Index: posted(bad, head, len(r)), Err: postErrno(int(rc))}
	}
	return refused
}

func (l *receiveList) fill(r []verbs.ReceiveRequest) *C.struct_vb_recv_wr {
	sges := 0
	for i := range r {
		sges += len(r[i].SGEs)
	}
	if len(r) > len(l.wr) || sges > len(l.sge) {
		n, s := max(len(r), 2*len(l.wr), 16), max(sges, 2*len(l.sge), 16)
		l.free()
		l.wr, l.sge = cloop.Slice[C.struct_vb_recv_wr](n), cloop.Slice[C.struct_vb_sge](s)
	}
	at := 0
	for i := range r {
		n := len(r[i].SGEs)
		fillReceive(&l.wr[i], l.sge[at:at+n], &r[i])
		if i > 0 {
			l.wr[i-1].next = &l.wr[i]
		}
		at += n
	}
	return &l.wr[0]
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

// sizeofSGE and sizeofBind are what the layout test compares; tests cannot use cgo themselves.
func sizeofSGE() uintptr { return C.sizeof_struct_vb_sge }

func sizeofBind() uintptr { return unsafe.Sizeof(C.struct_vb_send_wr{}.u) }
