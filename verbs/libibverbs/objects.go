//go:build linux && cgo

package main

// #include "abi.h"
import "C"

import (
	"context"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/gobw/gobw/verbs"
)

// object is what a handle of C stands for.
type object struct {
	io.Closer
	device  any     // what the device has: a verbs.ProtectionDomain, a verbs.QueuePair, ...
	element uintptr // the program's struct, in events
	events  int     // the descriptor of its context's events
	handle  uint32

	mu       sync.Mutex // held while it posts or polls, and while it is told of
	freed    bool
	sends    []verbs.SendRequest
	binds    []verbs.MemoryWindowBind
	receives []verbs.ReceiveRequest
	polled   []verbs.Completion
	told     [2]uint32 // events: by the context's pipe, by a completion channel's
	channel  *channel  // of a completion queue
}

// Handles are places in a table in which every call looks without a lock. 0 is none.
const mostObjects = 1 << 20

var handles struct { //nolint:gochecknoglobals // C has no receiver to pass
	table [mostObjects]atomic.Pointer[object]
	mu    sync.Mutex
	used  uint32
	free  []uint32
	of    map[any]*object
}

// add gives an object a handle.
func add(o *object, handle *C.uint32_t) error {
	h := &handles
	h.mu.Lock()
	defer h.mu.Unlock()
	switch n := len(h.free); {
	case n > 0:
		o.handle, h.free = h.free[n-1], h.free[:n-1]
	case h.used+1 < mostObjects:
		h.used++
		o.handle = h.used
	default:
		return syscall.ENOMEM
	}
	if h.of == nil {
		h.of = make(map[any]*object)
	}
	h.of[o.device] = o
	h.table[o.handle].Store(o)
	*handle = C.uint32_t(o.handle)
	return nil
}

// find is the object of a handle, nil where there is none.
func find(handle C.uint32_t) *object {
	if handle >= mostObjects {
		return nil
	}
	return handles.table[handle].Load()
}

// as is what the device has for a handle, where it is of that kind.
func as[T any](handle C.uint32_t) (T, error) {
	x, _, err := open[T](handle)
	return x, err
}

// open is as, with the object.
func open[T any](handle C.uint32_t) (x T, o *object, err error) {
	if o = find(handle); o != nil {
		if x, is := o.device.(T); is {
			return x, o, nil
		}
	}
	return x, nil, fmt.Errorf("handle %d is not that of an open object of this kind: %w", handle, syscall.ENOENT)
}

func objectOf(device any) *object {
	handles.mu.Lock()
	defer handles.mu.Unlock()
	return handles.of[device]
}

// tell writes an event of the object, which the program may be destroying.
func (o *object) tell(fd int, t verbs.EventType) {
	o.mu.Lock()
	defer o.mu.Unlock()
	to := &o.told[0]
	if fd != o.events {
		to = &o.told[1]
	}
	if !o.freed && writeEvent(fd, uint64(o.element), t) {
		*to++
	}
}

// release closes what the device has and gives the handle back.
func (o *object) release() error {
	if err := o.Close(); err != nil {
		return err
	}
	o.mu.Lock()
	o.freed = true
	o.mu.Unlock()
	h := &handles
	h.mu.Lock()
	defer h.mu.Unlock()
	h.table[o.handle].Store(nil)
	h.free = append(h.free, o.handle)
	delete(h.of, o.device)
	return nil
}

// freeObjectsOf releases what a context that is closed has left, as the kernel does:
// those on which nothing depends first.
func freeObjectsOf(events int) {
	for left := true; left; {
		handles.mu.Lock()
		var all []*object
		for _, o := range handles.of {
			if o.events == events {
				all = append(all, o)
			}
		}
		handles.mu.Unlock()
		left = false
		for _, o := range all {
			left = o.release() == nil || left
		}
	}
}

//export gobwFree
func gobwFree(handle C.uint32_t, told *C.uint32_t) C.int {
	o := find(handle)
	if o == nil {
		return C.int(syscall.ENOENT)
	}
	err := o.release()
	if err == nil && told != nil {
		*(*[2]uint32)(unsafe.Pointer(told)) = o.told
	}
	return errno("destroy", err)
}

// made answers a call that makes an object.
func made[T io.Closer](call string, x T, err error, o *object, handle *C.uint32_t) C.int {
	if err == nil {
		o.Closer, o.device = x, x
		err = add(o, handle)
	}
	return errno(call, err)
}

//export gobwAllocPD
func gobwAllocPD(events C.int, handle *C.uint32_t) C.int {
	pd, err := device().AllocPD()
	return made("ibv_alloc_pd", pd, err, &object{events: int(events)}, handle)
}

// eventsOf is the descriptor of a domain's context.
func eventsOf(pd C.uint32_t) int {
	if o := find(pd); o != nil {
		return o.events
	}
	return -1
}

//export gobwRegister
func gobwRegister(pd C.uint32_t, addr unsafe.Pointer, length C.size_t, iova C.uint64_t, access C.int,
	handle, key *C.uint32_t,
) C.int {
	const call = "ibv_reg_mr"
	domain, err := as[verbs.ProtectionDomain](pd)
	if err != nil {
		return errno(call, err)
	}
	known := verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic |
		verbs.AccessMWBind | verbs.AccessOnDemand
	if end := uintptr(addr) + uintptr(length); addr == nil && length > 0 || end < uintptr(addr) || length > math.MaxInt64 {
		return errno(call, fmt.Errorf("%d bytes at %p are no memory: %w", uint64(length), addr, syscall.EFAULT))
	}
	const hugeTLB, optional = 1 << 7, 0x3ff00000
	rights := verbs.Access(access) &^ (hugeTLB | optional)
	if rights&^known != 0 {
		return errno(call, fmt.Errorf("access %v: %w", rights&^known, verbs.ErrUnsupported))
	}
	mr, err := domain.RegisterMemoryAt(verbs.Borrow(unsafe.Slice((*byte)(addr), int(length))), 0, int(length),
		uint64(iova), rights)
	if err == nil {
		*key = C.uint32_t(mr.LKey())
	}
	return made(call, mr, err, &object{events: eventsOf(pd)}, handle)
}

//export gobwAllocWindow
func gobwAllocWindow(pd C.uint32_t, kind C.int, handle, rkey *C.uint32_t) C.int {
	const call = "ibv_alloc_mw"
	domain, err := as[verbs.ProtectionDomain](pd)
	if err != nil {
		return errno(call, err)
	}
	alloc := domain.AllocMW
	if kind == 1 { // IBV_MW_TYPE_1
		alloc = domain.(interface {
			AllocMW1() (verbs.MemoryWindow, error)
		}).AllocMW1
	}
	w, err := alloc()
	if err == nil {
		*rkey = C.uint32_t(w.RKey())
	}
	return made(call, w, err, &object{events: eventsOf(pd)}, handle)
}

//export gobwCreateAH
func gobwCreateAH(pd C.uint32_t, a *C.struct_vb_ah_attr, handle *C.uint32_t) C.int {
	const call = "ibv_create_ah"
	domain, err := as[verbs.ProtectionDomain](pd)
	if err != nil {
		return errno(call, err)
	}
	v, err := vector(a)
	if err != nil {
		return errno(call, err)
	}
	ah, err := domain.CreateAH(v)
	return made(call, ah, err, &object{events: eventsOf(pd)}, handle)
}

// channel is a completion channel, whose events go to a descriptor that the program may poll.
type channel struct {
	verbs.CompletionChannel
	armed chan struct{}
	stop  context.CancelFunc
	done  sync.WaitGroup
}

//export gobwCreateChannel
func gobwCreateChannel(events, fd C.int, handle *C.uint32_t) C.int {
	ch, err := device().CreateCompletionChannel()
	if err != nil {
		return errno("ibv_create_comp_channel", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &channel{CompletionChannel: ch, armed: make(chan struct{}, 1), stop: stop}
	c.done.Go(func() { c.serve(ctx, int(fd)) })
	return made("ibv_create_comp_channel", c, nil, &object{events: int(events)}, handle)
}

// serve waits for events while a queue may be armed, and so drives the device, blocked in
// the kernel, while the program sleeps.
func (c *channel) serve(ctx context.Context, fd int) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.armed:
		}
		q, err := c.Wait(ctx)
		if err != nil {
			return
		}
		c.arm() // others may be armed still
		if o := objectOf(q); o != nil {
			o.tell(fd, 0)
		}
	}
}

// arm has the channel waited on.
func (c *channel) arm() {
	select {
	case c.armed <- struct{}{}:
	default:
	}
}

// Close ends the waiting.
func (c *channel) Close() error {
	c.stop()
	c.done.Wait()
	return c.CompletionChannel.Close()
}

//export gobwCreateCQ
func gobwCreateCQ(ch C.uint32_t, events C.int, cq unsafe.Pointer, depth, stamps C.int, handle *C.uint32_t,
	granted *C.int,
) C.int {
	const call = "ibv_create_cq"
	o := verbs.CompletionQueueOptions{Depth: int(depth), Timestamps: stamps != 0}
	of := &object{element: uintptr(cq), events: int(events), polled: make([]verbs.Completion, 64)}
	if ch != 0 {
		c, err := as[*channel](ch)
		if err != nil {
			return errno(call, err)
		}
		o.Channel, of.channel = c.CompletionChannel, c
	}
	q, err := device().CreateCQ(o)
	if err == nil {
		*granted = C.int(q.Depth())
	}
	return made(call, q, err, of, handle)
}

//export gobwResizeCQ
func gobwResizeCQ(cq C.uint32_t, depth C.int, granted *C.int) C.int {
	q, err := as[verbs.CompletionQueue](cq)
	if err == nil {
		if err = q.Resize(int(depth)); err == nil {
			*granted = C.int(q.Depth())
		}
	}
	return errno("ibv_resize_cq", err)
}

//export gobwArm
func gobwArm(cq C.uint32_t, solicited C.int) C.int {
	q, o, err := open[verbs.CompletionQueue](cq)
	if err == nil && o.channel != nil { // without one there is nobody to tell
		n := verbs.NotifyAny
		if solicited != 0 {
			n = verbs.NotifySolicited
		}
		err = q.Arm(n)
		o.channel.arm()
	}
	return errno("ibv_req_notify_cq", err)
}

//export gobwCreateSRQ
func gobwCreateSRQ(pd C.uint32_t, events C.int, srq unsafe.Pointer, a *C.struct_vb_srq_attr, handle *C.uint32_t) C.int {
	const call = "ibv_create_srq"
	domain, err := as[verbs.ProtectionDomain](pd)
	if err != nil {
		return errno(call, err)
	}
	s, err := domain.CreateSRQ(verbs.SharedReceiveQueueOptions{Depth: int(a.max_wr), SGEs: int(a.max_sge)})
	if err == nil {
		a.max_sge = max(a.max_sge, 1)
	}
	return made(call, s, err,
		&object{element: uintptr(srq), events: int(events), receives: make([]verbs.ReceiveRequest, batch)}, handle)
}

//export gobwLimitSRQ
func gobwLimitSRQ(srq, limit C.uint32_t) C.int {
	s, err := as[verbs.SharedReceiveQueue](srq)
	if err == nil {
		err = s.SetLimit(int(limit))
	}
	return errno("ibv_modify_srq", err)
}

//export gobwQuerySRQ
func gobwQuerySRQ(srq C.uint32_t, limit *C.uint32_t) C.int {
	s, err := as[interface{ Limit() int }](srq)
	if err == nil {
		*limit = C.uint32_t(s.Limit())
	}
	return errno("ibv_query_srq", err)
}
