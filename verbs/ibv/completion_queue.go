//go:build linux && cgo

package ibv

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/gobw/gobw/verbs"
)

// pollBatch is the number of completions fetched in one call.
const pollBatch = C.VB_POLL_BATCH

// defaultDepth is the depth of queues that ask for none.
const defaultDepth = 128

// completionQueue belongs to one goroutine at a time.
type completionQueue struct {
	d        *device
	cq       *C.struct_vb_cq
	channel  *completionChannel
	polled   *C.struct_vb_polled // C memory
	stamps   bool
	children children

	mu      sync.Mutex
	pending int // events delivered and not yet acknowledged
}

// CreateCQ makes a completion queue.
func (d *device) CreateCQ(o verbs.CompletionQueueOptions) (verbs.CompletionQueue, error) {
	if o.Depth == 0 {
		o.Depth = defaultDepth
	}
	verb := fmt.Sprintf("create completion queue of %d entries", o.Depth)
	q := &completionQueue{d: d, stamps: o.Timestamps}
	if o.Timestamps && d.info.Clock.IsZero() {
		return nil, d.fail(verb, fmt.Errorf("completions with time stamps: %w by this device: it tells no clock of its own", verbs.ErrUnsupported))
	}
	var channel *C.struct_vb_comp_channel
	if o.Channel != nil {
		ch, ok := o.Channel.(*completionChannel)
		if !ok || ch.d != d {
			return nil, d.fail(verb, errors.New("the completion channel is another device's"))
		}
		if err := ch.children.add("completion queue"); err != nil {
			return nil, d.fail(verb, err)
		}
		q.channel, channel = ch, ch.ch
	}
	if err := d.children.add("completion queue"); err != nil {
		q.dropChannel()
		return nil, d.fail(verb, err)
	}
	cq, err := C.vb_create_cq(d.v, d.context, C.int(o.Depth), channel, C.int(o.Vector), C.int(flag(o.Timestamps)))
	if cq == nil {
		d.children.drop("completion queue")
		q.dropChannel()
		f := failure{verb: verb, device: d.info.Name, err: err}
		if o.Depth > d.info.Limits.MaxCQE {
			f.hint = fmt.Sprintf("ask for at most %d entries: the device has no more", d.info.Limits.MaxCQE)
		}
		return nil, explain(f)
	}
	q.cq = cq
	d.queues.Store(unsafe.Pointer(cq), q)
	q.polled = (*C.struct_vb_polled)(C.calloc(1, C.sizeof_struct_vb_polled))
	if q.channel != nil {
		q.channel.enrol(q)
	}
	return q, nil
}

func (q *completionQueue) dropChannel() {
	if q.channel != nil {
		q.channel.children.drop("completion queue")
	}
}

// Depth is the number of entries granted.
func (q *completionQueue) Depth() int { return int(q.cq.cqe) }

// Poll moves up to len(c) completions into c.
func (q *completionQueue) Poll(c []verbs.Completion) (int, error) {
	got, wc := 0, &q.polled.wc
	for got < len(c) {
		want := min(len(c)-got, pollBatch)
		var n int
		if q.stamps {
			n = int(C.vb_poll_stamped(q.cq, C.int(want), &wc[0]))
		} else {
			n = int(C.vb_poll_cq(q.cq, C.int(want), &wc[0]))
		}
		if n < 0 {
			return got, q.d.fail("poll completion queue", syscall.Errno(-n))
		}
		for i := range wc[:n] {
			c[got] = goCompletion(&wc[i])
			if q.stamps && c[got].Status == verbs.Success {
				c[got].Timestamp = uint64(q.polled.stamps[i])
			}
			got++
		}
		if n < want {
			break
		}
	}
	return got, nil
}

func goCompletion(w *C.struct_vb_wc) verbs.Completion {
	c := verbs.Completion{
		ID: uint64(w.wr_id), Status: verbs.Status(w.status), VendorError: uint32(w.vendor_err), QPN: uint32(w.qp_num),
	}
	if c.Status != verbs.Success { // the rest is undefined
		return c
	}
	c.Opcode, c.Bytes, c.SourceQPN, c.Flags = verbs.CompletionOpcode(w.opcode), uint32(w.byte_len), uint32(w.src_qp), verbs.CompletionFlags(w.wc_flags)
	if c.Flags&verbs.WithImmediate != 0 {
		c.Immediate = networkOrder(uint32(w.imm_or_rkey))
	}
	if c.Flags&verbs.WithInvalidate != 0 {
		c.InvalidatedRKey = uint32(w.imm_or_rkey)
	}
	return c
}

// networkOrder turns a number into big-endian and back.
func networkOrder(v uint32) uint32 {
	one := uint16(1)
	if *(*byte)(unsafe.Pointer(&one)) == 1 {
		return bits.ReverseBytes32(v)
	}
	return v
}

// Arm asks for one event at the next completion.
func (q *completionQueue) Arm(n verbs.Notify) error {
	if q.channel == nil {
		return q.d.fail("arm completion queue", errors.New("it has no completion channel"))
	}
	if rc := C.vb_req_notify_cq(q.cq, C.int(n)); rc != 0 {
		return q.d.fail("arm completion queue", errnoError(int(rc)))
	}
	return nil
}

// Acknowledge returns n delivered events.
func (q *completionQueue) Acknowledge(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n = min(n, q.pending)
	if n > 0 {
		C.vb_ack_cq_events(q.d.v, q.cq, C.uint(n))
		q.pending -= n
	}
}

// Close destroys the queue. Events nobody acknowledged are acknowledged first: libibverbs would wait for them for ever.
func (q *completionQueue) Close() error {
	err := q.children.close(func() error {
		if q.channel != nil {
			q.channel.strike(q)
		}
		q.Acknowledge(int(^uint32(0) >> 1))
		if rc := C.vb_destroy_cq(q.d.v, q.cq); rc != 0 {
			return errnoError(int(rc))
		}
		q.d.queues.CompareAndDelete(unsafe.Pointer(q.cq), q)
		C.free(unsafe.Pointer(q.polled))
		q.dropChannel()
		q.d.children.drop("completion queue")
		return nil
	})
	if err != nil {
		return q.d.fail("destroy completion queue", err)
	}
	return nil
}

// completionChannel belongs to one goroutine.
type completionChannel struct {
	d        *device
	ch       *C.struct_vb_comp_channel
	file     *os.File // a duplicate of the channel's descriptor, in Go's poller
	children children

	mu     sync.Mutex
	queues map[*C.struct_vb_cq]*completionQueue
}

// CreateCompletionChannel makes a channel on which completion queues announce events.
func (d *device) CreateCompletionChannel() (verbs.CompletionChannel, error) {
	const verb = "create completion channel"
	if err := d.children.add("completion channel"); err != nil {
		return nil, d.fail(verb, err)
	}
	ch, err := C.vb_create_comp_channel(d.v, d.context)
	if ch == nil {
		d.children.drop("completion channel")
		return nil, d.fail(verb, err)
	}
	file, err := pollable(int(ch.fd), "completion channel")
	if err != nil {
		C.vb_destroy_comp_channel(d.v, ch)
		d.children.drop("completion channel")
		return nil, d.fail(verb, err)
	}
	return &completionChannel{d: d, ch: ch, file: file, queues: make(map[*C.struct_vb_cq]*completionQueue)}, nil
}

func (c *completionChannel) enrol(q *completionQueue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queues[q.cq] = q
}

// strike forgets a queue, after taking the events that are still in the channel: a later one could name a queue that is
// gone, and destroying the queue waits for the acknowledgement of all that were delivered.
func (c *completionChannel) strike(q *completionQueue) {
	for c.take() != nil {
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.queues, q.cq)
}

// take returns the queue of the next event, nil if there is none.
func (c *completionChannel) take() *completionQueue {
	var cq *C.struct_vb_cq
	if C.vb_get_cq_event(c.d.v, c.ch, &cq) != 0 {
		return nil
	}
	c.mu.Lock()
	q := c.queues[cq]
	c.mu.Unlock()
	if q != nil {
		q.mu.Lock()
		q.pending++
		q.mu.Unlock()
	}
	return q
}

// Wait blocks until an armed queue has an event.
func (c *completionChannel) Wait(ctx context.Context) (verbs.CompletionQueue, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := c.file.SetReadDeadline(time.Time{}); err != nil {
		return nil, c.d.fail("wait for a completion event", verbs.ErrClosed)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	raw, err := c.file.SyscallConn()
	if err != nil {
		return nil, c.d.fail("wait for a completion event", verbs.ErrClosed)
	}
	var q *completionQueue
	err = raw.Read(func(uintptr) bool {
		q = c.take()
		return q != nil
	})
	switch {
	case q != nil:
		return q, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, os.ErrClosed):
		return nil, c.d.fail("wait for a completion event", verbs.ErrClosed)
	default:
		return nil, c.d.fail("wait for a completion event", err)
	}
}

// Close destroys the channel, unless queues use it.
func (c *completionChannel) Close() error {
	err := c.children.close(func() error {
		if rc := C.vb_destroy_comp_channel(c.d.v, c.ch); rc != 0 {
			return errnoError(int(rc))
		}
		_ = c.file.Close()
		c.d.children.drop("completion channel")
		return nil
	})
	if err != nil {
		return c.d.fail("destroy completion channel", err)
	}
	return nil
}
