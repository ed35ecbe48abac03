//go:build linux && cgo

package main

// #include "abi.h"
import "C"

import (
	"errors"
	"fmt"
	"math/bits"
	"syscall"
	"unsafe"

	"github.com/gobw/gobw/verbs"
)

// batch is how many requests go to the device at once.
const batch = 64

//export gobwCreateQP
func gobwCreateQP(pd C.uint32_t, events C.int, a *C.struct_vb_qp_init_attr, srq C.uint32_t, qp unsafe.Pointer,
	handle, qpn *C.uint32_t,
) C.int {
	const call = "ibv_create_qp"
	q, err := createQP(pd, a, srq)
	if err != nil {
		return errno(call, err)
	}
	c := q.Capabilities()
	a.cap = C.struct_vb_qp_cap{
		max_send_wr: C.uint32_t(c.SendDepth), max_recv_wr: C.uint32_t(c.RecvDepth), max_send_sge: C.uint32_t(c.SendSGEs),
		max_recv_sge: C.uint32_t(c.RecvSGEs), max_inline_data: C.uint32_t(c.InlineBytes),
	}
	*qpn = C.uint32_t(q.QPN())
	return made(call, q, nil, &object{
		element: uintptr(qp), events: int(events), sends: make([]verbs.SendRequest, batch),
		binds: make([]verbs.MemoryWindowBind, batch), receives: make([]verbs.ReceiveRequest, batch),
	}, handle)
}

func createQP(pd C.uint32_t, a *C.struct_vb_qp_init_attr, srq C.uint32_t) (verbs.QueuePair, error) {
	domain, err := as[verbs.ProtectionDomain](pd)
	if err != nil {
		return nil, err
	}
	t := verbs.Transport(a.qp_type)
	if a.qp_type < C.int32_t(verbs.RC) || a.qp_type > C.int32_t(verbs.UD) {
		return nil, fmt.Errorf("queue pair type %d: %w", a.qp_type, verbs.ErrUnsupported)
	}
	if a.send_cq == nil || a.recv_cq == nil {
		return nil, errors.New("a queue pair needs completion queues for both directions")
	}
	o := verbs.QueuePairOptions{
		Transport: t, SendDepth: max(int(a.cap.max_send_wr), 1), RecvDepth: int(a.cap.max_recv_wr),
		SendSGEs: max(int(a.cap.max_send_sge), 1),
		RecvSGEs: max(int(a.cap.max_recv_sge), 1), InlineBytes: int(a.cap.max_inline_data), SignalAll: a.sq_sig_all != 0,
		NoRecvQueue: a.cap.max_recv_wr == 0,
	}
	if o.SendCQ, err = as[verbs.CompletionQueue](a.send_cq.handle); err != nil {
		return nil, err
	}
	if o.RecvCQ, err = as[verbs.CompletionQueue](a.recv_cq.handle); err != nil {
		return nil, err
	}
	if srq != 0 {
		if o.SRQ, err = as[verbs.SharedReceiveQueue](srq); err != nil {
			return nil, err
		}
	}
	return domain.CreateQP(o)
}

//export gobwModifyQP
func gobwModifyQP(qp C.uint32_t, a *C.struct_vb_qp_attr, mask C.int) C.int {
	const call = "ibv_modify_qp"
	q, err := as[verbs.QueuePair](qp)
	if err != nil {
		return errno(call, err)
	}
	v := verbs.QueuePairAttributes{
		Mask: verbs.AttributeMask(mask), State: verbs.QPState(a.qp_state), CurrentState: verbs.QPState(a.cur_qp_state),
		Access: verbs.Access(a.qp_access_flags), PKeyIndex: int(a.pkey_index), Port: int(a.port_num), QKey: uint32(a.qkey),
		PathMTU: verbs.MTU(a.path_mtu),
		Timeout: uint8(a.timeout), RetryCount: uint8(a.retry_cnt), RNRRetry: uint8(a.rnr_retry),
		RecvPSN: uint32(a.rq_psn) & 0xffffff,
		SendPSN: uint32(a.sq_psn) & 0xffffff, MaxRDAtomic: uint8(a.max_rd_atomic),
		MaxDestRDAtomic: uint8(a.max_dest_rd_atomic),
		MinRNRTimer:     uint8(a.min_rnr_timer), DestQPN: uint32(a.dest_qp_num), SQDAsyncNotify: a.en_sqd_async_notify != 0,
	}
	if v.Mask&verbs.AttrAddressVector != 0 {
		if v.AddressVector, err = vector(&a.ah_attr); err != nil {
			return errno(call, err)
		}
	}
	return errno(call, q.Modify(v))
}

//export gobwQueryQP
func gobwQueryQP(qp C.uint32_t, a *C.struct_vb_qp_attr) C.int {
	q, err := as[verbs.QueuePair](qp)
	if err != nil {
		return errno("ibv_query_qp", err)
	}
	v, err := q.Query()
	if err != nil {
		return errno("ibv_query_qp", err)
	}
	a.qp_state, a.cur_qp_state, a.path_mtu = C.int32_t(v.State), C.int32_t(v.CurrentState), C.int32_t(v.PathMTU)
	a.qkey, a.rq_psn, a.sq_psn, a.dest_qp_num = C.uint32_t(v.QKey), C.uint32_t(v.RecvPSN), C.uint32_t(v.SendPSN),
		C.uint32_t(v.DestQPN)
	a.qp_access_flags, a.pkey_index, a.port_num = C.uint32_t(v.Access), C.uint16_t(v.PKeyIndex), C.uint8_t(v.Port)
	a.max_rd_atomic, a.max_dest_rd_atomic = C.uint8_t(v.MaxRDAtomic), C.uint8_t(v.MaxDestRDAtomic)
	a.min_rnr_timer, a.timeout = C.uint8_t(v.MinRNRTimer), C.uint8_t(v.Timeout)
	a.retry_cnt, a.rnr_retry = C.uint8_t(v.RetryCount), C.uint8_t(v.RNRRetry)
	tellVector(&v.AddressVector, &a.ah_attr)
	return 0
}

//export gobwMulticast
func gobwMulticast(qp C.uint32_t, gid unsafe.Pointer, lid C.uint16_t, attach C.int) C.int {
	q, err := as[verbs.QueuePair](qp)
	switch {
	case err != nil:
	case attach != 0:
		err = q.AttachMulticast(*(*verbs.GID)(gid), uint16(lid))
	default:
		err = q.DetachMulticast(*(*verbs.GID)(gid), uint16(lid))
	}
	return errno("multicast", err)
}

// sges is a program's list, of which the device has the layout. A length below 0 is one that no queue takes, and so is
// that of no list.
func sges(list *C.struct_vb_sge, n C.int32_t) []verbs.SGE {
	if list == nil && n != 0 {
		list, n = new(C.struct_vb_sge), -1
	}
	return unsafe.Slice((*verbs.SGE)(unsafe.Pointer(list)), uint32(n))
}

//export gobwPostSend
func gobwPostSend(qp C.uint32_t, wr *C.struct_vb_send_wr, bad **C.struct_vb_send_wr, together C.int) C.int {
	q, o, err := open[verbs.QueuePair](qp)
	if err != nil {
		*bad = wr
		return errno("ibv_post_send", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if more := int(together) - len(o.sends); more > 0 {
		o.sends = append(o.sends, make([]verbs.SendRequest, more)...)
		o.binds = append(o.binds, make([]verbs.MemoryWindowBind, more)...)
	}
	datagrams := q.Transport() == verbs.UD
	for wr != nil {
		first, n := wr, 0
		for ; wr != nil && n < max(batch, int(together)); wr, n = wr.next, n+1 {
			fillSend(&o.sends[n], &o.binds[n], wr, datagrams)
		}
		var err error
		if together > 0 {
			err = q.(interface {
				PostAll(list []verbs.SendRequest) error
			}).PostAll(o.sends[:n])
		} else {
			err = q.PostSend(o.sends[:n])
		}
		if at, is := errors.AsType[*verbs.PostError](err); is && together == 0 {
			n = at.Index
		} else if err != nil {
			n = 0
		}
		for i := range n {
			if o.sends[i].Opcode == verbs.OpBindMW {
				tellKey(first)
			}
			first = first.next
		}
		if err != nil {
			*bad = first
			return postErrno("ibv_post_send", err)
		}
	}
	return 0
}

// postErrno is errno, but a queue that is full is an everyday answer.
func postErrno(call string, err error) C.int {
	if errors.Is(err, verbs.ErrQueueFull) {
		return C.int(syscall.ENOMEM)
	}
	return errno(call, err)
}

// bind is what a request says of a window.
type bind struct {
	mw   *C.struct_vb_mw
	rkey C.uint32_t
	info C.struct_vb_mw_bind_info
}

func bindOf(wr *C.struct_vb_send_wr) *bind { return (*bind)(unsafe.Pointer(&wr.u)) }

// tellKey gives a window that is being bound its new key, of which the program chooses the low byte.
func tellKey(wr *C.struct_vb_send_wr) {
	if w := bindOf(wr); w.mw != nil {
		w.mw.rkey = w.mw.rkey&^0xff | w.rkey&0xff
	}
}

// fillSend reads a request.
func fillSend(r *verbs.SendRequest, b *verbs.MemoryWindowBind, wr *C.struct_vb_send_wr, datagram bool) {
	*r = verbs.SendRequest{
		ID: uint64(wr.wr_id), Opcode: verbs.Opcode(wr.opcode), Flags: verbs.SendFlags(wr.send_flags),
		SGEs: sges(wr.sg_list, wr.num_sge),
	}
	switch r.Opcode {
	case verbs.OpSendWithImmediate, verbs.OpWriteWithImmediate:
		r.Immediate = hostOrder(wr.imm_or_rkey)
	case verbs.OpSendWithInvalidate, verbs.OpLocalInvalidate:
		r.InvalidateRKey = uint32(wr.imm_or_rkey)
	default:
	}
	if datagram {
		ud := (*struct {
			ah *struct {
				context, pd unsafe.Pointer
				handle      C.uint32_t
			}
			qpn, qkey uint32
		})(unsafe.Pointer(&wr.wr))
		if ud.ah != nil {
			r.AH, _ = as[verbs.AddressHandle](ud.ah.handle)
		}
		r.RemoteQPN, r.RemoteQKey = ud.qpn&0xffffff, ud.qkey
		return
	}
	switch r.Opcode {
	case verbs.OpCompareSwap, verbs.OpFetchAdd:
		a := (*struct {
			addr, compareAdd, swap uint64
			rkey                   uint32
		})(unsafe.Pointer(&wr.wr))
		r.RemoteAddr, r.CompareAdd, r.Swap, r.RKey = a.addr, a.compareAdd, a.swap, a.rkey
	case verbs.OpBindMW:
		w := bindOf(wr)
		*b = verbs.MemoryWindowBind{
			RKey: uint32(w.rkey), Addr: uint64(w.info.addr), Length: uint64(w.info.length),
			Access: verbs.Access(w.info.mw_access_flags),
		}
		if w.mw != nil {
			b.Window, _ = as[verbs.MemoryWindow](w.mw.handle)
		}
		if w.info.mr != nil {
			b.Region, _ = as[verbs.MemoryRegion](w.info.mr.handle)
		}
		r.Bind = b
	default:
		a := (*struct {
			addr uint64
			rkey uint32
		})(unsafe.Pointer(&wr.wr))
		r.RemoteAddr, r.RKey = a.addr, a.rkey
	}
}

// hostOrder turns an immediate, which C has as it goes over the wire, into the number.
func hostOrder(v C.uint32_t) uint32 { return bits.ReverseBytes32(uint32(v)) }

// receiver is a queue pair or a shared receive queue.
type receiver interface {
	PostReceive(r []verbs.ReceiveRequest) error
}

//export gobwPostReceive
func gobwPostReceive(queue C.uint32_t, wr *C.struct_vb_recv_wr, bad **C.struct_vb_recv_wr) C.int {
	q, o, err := open[receiver](queue)
	if err != nil {
		*bad = wr
		return errno("ibv_post_recv", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for wr != nil {
		first, n := wr, 0
		for ; wr != nil && n < batch; wr, n = wr.next, n+1 {
			o.receives[n] = verbs.ReceiveRequest{ID: uint64(wr.wr_id), SGEs: sges(wr.sg_list, wr.num_sge)}
		}
		if err := q.PostReceive(o.receives[:n]); err != nil {
			if at, is := errors.AsType[*verbs.PostError](err); is {
				for range at.Index {
					first = first.next
				}
			}
			*bad = first
			return postErrno("ibv_post_recv", err)
		}
	}
	return 0
}

// gobwPoll returns how many completions there were, or -1.
//
//export gobwPoll
func gobwPoll(cq C.uint32_t, n C.int, wc *C.struct_vb_wc, stamps *C.uint64_t) C.int {
	o := find(cq)
	if o == nil || n < 0 {
		return -1
	}
	q, is := o.device.(verbs.CompletionQueue)
	if !is {
		return -1
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	out := unsafe.Slice(wc, n)
	done := 0
	for done < len(out) {
		got, err := q.Poll(o.polled[:min(len(out)-done, len(o.polled))])
		if err != nil && done == 0 {
			_ = errno("ibv_poll_cq", err)
			return -1
		}
		for i := range o.polled[:got] {
			tellCompletion(&out[done+i], &o.polled[i])
			if stamps != nil {
				unsafe.Slice(stamps, n)[done+i] = C.uint64_t(o.polled[i].Timestamp)
			}
		}
		if done += got; got < len(o.polled) {
			break
		}
	}
	if done == 0 {
		q.(interface{ Idle() }).Idle()
	}
	return C.int(done)
}

// packetType is what mlx5 tells in place of a service level of a datagram by RoCE v2 over IPv4: UCX drops others.
const packetType = 10

func tellCompletion(w *C.struct_vb_wc, c *verbs.Completion) {
	*w = C.struct_vb_wc{
		wr_id: C.uint64_t(c.ID), status: C.uint32_t(c.Status), opcode: C.uint32_t(c.Opcode),
		vendor_err: C.uint32_t(c.VendorError),
		byte_len:   C.uint32_t(c.Bytes), qp_num: C.uint32_t(c.QPN), src_qp: C.uint32_t(c.SourceQPN),
	}
	if c.Flags&verbs.WithGRH != 0 {
		w.wc_flags |= 1
		w.sl = packetType
	}
	if c.Flags&verbs.WithImmediate != 0 {
		w.wc_flags |= C.VB_WC_WITH_IMM
		w.imm_or_rkey = C.uint32_t(bits.ReverseBytes32(c.Immediate))
	}
	if c.Flags&verbs.WithInvalidate != 0 {
		w.wc_flags |= C.VB_WC_WITH_INV
		w.imm_or_rkey = C.uint32_t(c.InvalidatedRKey)
	}
}
