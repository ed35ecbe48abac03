//go:build linux && cgo

package ibv

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/internal/handle"
)

// pollBatch is the number of completions fetched in one call.
const pollBatch = C.VB_POLL_BATCH

// defaultDepth is the depth of queues that ask for none.
const defaultDepth = 128

// completionQueue belongs to one goroutine at a time.
type completionQueue struct {
	object
	cq      *C.struct_vb_cq
	depth   atomic.Int64
	channel *completionChannel
	polled  *C.struct_vb_polled // C memory
	stamps  bool
}

// CreateCQ makes a completion queue.
func (d *device) CreateCQ(o verbs.CompletionQueueOptions) (verbs.CompletionQueue, error) {
	if o.Depth == 0 {
		o.Depth = defaultDepth
	}
	verb := fmt.Sprintf("create completion queue of %d entries", o.Depth)
	q := &completionQueue{object: object{d: d}, stamps: o.Timestamps}
	if o.Timestamps && d.info.Clock.IsZero() {
		return nil, d.fail(verb,
			fmt.Errorf("completions with time stamps: %w by this device: it tells no clock of its own", verbs.ErrUnsupported))
	}
	var channel *C.struct_vb_comp_channel
	needs := handle.Needs[*device]{Of: d, List: []*handle.Handle{&d.Handle}}
	if o.Channel != nil {
		if q.channel = handle.Need[*completionChannel](&needs, "completion channel", o.Channel); needs.Err != nil {
			return nil, d.fail(verb, needs.Err)
		}
		channel = q.channel.ch
	}
	q.kind, q.destroy = "completion queue", func() C.int { return C.vb_destroy_cq(d.v, q.cq) }
	err := q.Open(q.kind, func() (err error) {
		q.cq, err = C.vb_create_cq(d.v, d.context, C.int(o.Depth), channel, C.int(o.Vector), flag(o.Timestamps))
		if err = refusal(q.cq, err); err == nil && q.cq.cqe < 1 {
			err = fmt.Errorf("%w: it made a queue of %d entries", errLie, q.cq.cqe)
		}
		return err
	}, needs.List...)
	if err != nil {
		f := d.failure(verb, err, "")
		if o.Depth > d.info.Limits.MaxCQE {
			f.Fix = fmt.Sprintf("ask for at most %d entries: the device has no more", d.info.Limits.MaxCQE)
		}
		return nil, explain(f, 0)
	}
	q.depth.Store(int64(q.cq.cqe))
	q.announce(unsafe.Pointer(q.cq), q)
	q.polled = &allocate[C.struct_vb_polled](&q.memory, 1)[0]
	return q, nil
}

// Depth is the number of entries granted.
func (q *completionQueue) Depth() int { return int(q.depth.Load()) }

// Resize makes room for so many entries.
func (q *completionQueue) Resize(depth int) error {
	return q.inside(fmt.Sprintf("resize completion queue to %d entries", depth), func() error {
		err := errnoError(C.vb_resize_cq(q.d.v, q.cq, C.int(depth)))
		q.depth.Store(int64(q.cq.cqe))
		return err
	})
}

// Poll moves up to len(c) completions into c.
func (q *completionQueue) Poll(c []verbs.Completion) (int, error) {
	if err := q.Enter(); err != nil {
		return 0, q.fail("poll completion queue", err)
	}
	defer q.Leave()
	got := 0
	for got < len(c) {
		want := min(len(c)-got, pollBatch)
		n := int(C.vb_poll(q.cq, C.int(want), q.polled, flag(q.stamps)))
		if n < 0 || n > want {
			return got, q.fail("poll completion queue", pollError(n))
		}
		completions(c[got:], q.polled, n)
		if got += n; n < want {
			break
		}
	}
	return got, nil
}

// pollError is why a poll failed that returned n: a negative errno, or more completions than were asked for.
func pollError(n int) error {
	if n < 0 {
		return syscall.Errno(-n)
	}
	return fmt.Errorf("%w: a poll found %d completions, more than were asked for", errLie, n)
}

// completions are the first n that a poll has found. Without time stamps these are 0.
func completions(to []verbs.Completion, p *C.struct_vb_polled, n int) {
	for i := range n {
		to[i] = goCompletion(&p.wc[i])
		if to[i].Status == verbs.Success {
			to[i].Timestamp = uint64(p.stamps[i])
		}
	}
}

func goCompletion(w *C.struct_vb_wc) verbs.Completion {
	c := verbs.Completion{
		ID: uint64(w.wr_id), Status: verbs.Status(w.status), VendorError: uint32(w.vendor_err), QPN: uint32(w.qp_num),
	}
	if c.Status != verbs.Success { // the rest is undefined
		return c
	}
	c.Opcode, c.Bytes, c.SourceQPN, c.Flags = verbs.CompletionOpcode(w.opcode), uint32(w.byte_len), uint32(w.src_qp),
		verbs.CompletionFlags(w.wc_flags)
	if c.Flags&verbs.WithImmediate != 0 {
		c.Immediate = bits.ReverseBytes32(uint32(w.imm_or_rkey))
	}
	if c.Flags&verbs.WithInvalidate != 0 {
		c.InvalidatedRKey = uint32(w.imm_or_rkey)
	}
	return c
}

// Arm asks for one event at the next completion.
func (q *completionQueue) Arm(n verbs.Notify) error {
	return q.inside("arm completion queue", func() error {
		if q.channel == nil {
			return errors.New("it has no completion channel")
		}
		return errnoError(C.vb_req_notify_cq(q.cq, C.int(n)))
	})
}

// completionChannel belongs to one goroutine.
type completionChannel struct {
	object
	ch *C.struct_vb_comp_channel
	watcher
}

// CreateCompletionChannel makes a channel on which completion queues announce events.
func (d *device) CreateCompletionChannel() (verbs.CompletionChannel, error) {
	c := &completionChannel{object: object{d: d}}
	c.wake = c.stop
	destroy := func() C.int { return C.vb_destroy_comp_channel(d.v, c.ch) }
	return made[verbs.CompletionChannel](c, c.open("create completion channel", "completion channel", func() (err error) {
		if c.ch, err = C.vb_create_comp_channel(d.v, d.context); c.ch == nil {
			return refusal(c.ch, err)
		}
		if err = c.watch(c.ch.fd, "completion channel"); err != nil {
			destroy()
		}
		return err
	}, destroy, &d.Handle))
}

// Wait blocks until an armed queue has an event.
func (c *completionChannel) Wait(ctx context.Context) (verbs.CompletionQueue, error) {
	var q *completionQueue
	err := c.wait(ctx, "wait for a completion event", &c.watcher, func() bool {
		for q == nil {
			var cq *C.struct_vb_cq
			var context unsafe.Pointer
			if C.vb_get_cq_event(c.d.v, c.ch, &cq, &context) != 0 {
				return false
			}
			o, _ := c.d.objects.Load(uintptr(unsafe.Pointer(cq)))
			C.vb_ack_cq_events(c.d.v, cq, 1) // destroying the queue waits for this: after it the queue may be gone
			if found, is := o.(*completionQueue); is && !found.Closed() {
				q = found
			}
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	return q, nil
}
