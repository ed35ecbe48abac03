package roce

import (
	"fmt"
	"slices"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/internal/handle"
	"github.com/gobw/gobw/verbs/roce/rc"
	"github.com/gobw/gobw/verbs/tick"
)

// entry is a completion and what polling it gives back.
type entry struct {
	verbs.Completion
	qp      *queuePair // whose send slots come back; nil for receives
	release uint32     // send slots before this one are free
}

// completionClock is the host's, read while the packet that completes a request is handled: what the program did
// between that and its poll is not in it, but all that the kernel did before is.
func completionClock() verbs.CompletionClock { return verbs.CompletionClock{Hz: 1e9, Mask: 1<<63 - 1} }

var clockEpoch = time.Now() //nolint:gochecknoglobals // Go tells monotonic time by differences alone

// completionQueue is a verbs.CompletionQueue.
type completionQueue struct {
	object
	ring    []entry // a power of two long
	mask    uint32
	depth   uint32
	head    uint32
	tail    uint32
	overrun bool
	stamps  bool // completions say when they came to be

	spin     spin // of who polls without a job
	channel  *completionChannel
	armed    bool
	any      bool // armed for any completion, not for solicited ones alone
	flushing []*queuePair
}

func (d *device) CreateCQ(o verbs.CompletionQueueOptions) (verbs.CompletionQueue, error) {
	const verb = "create completion queue"
	setDefault(&o.Depth, 128)
	switch {
	case o.Depth < 1 || o.Depth > maxCQE:
		return nil, d.fail(verb, fmt.Errorf("depth %d: want 1 to %d", o.Depth, maxCQE))
	case o.Vector != 0:
		return nil, d.fail(verb, fmt.Errorf("completion vector %d: this device has one, 0", o.Vector))
	}
	n := rc.RingSize(o.Depth)
	c := &completionQueue{
		object: object{e: d.e}, ring: make([]entry, n), mask: n - 1, depth: uint32(o.Depth), stamps: o.Timestamps,
	}
	needs := handle.Needs[*engine]{Of: d.e}
	if o.Channel != nil {
		if c.channel = handle.Need[*completionChannel](&needs, kindChannel, o.Channel); needs.Err != nil {
			return nil, d.fail(verb, needs.Err)
		}
	}
	return made[verbs.CompletionQueue](d, c, verb, d.open(&c.Handle, kindCQ, maxCQ, needs.List...))
}

func (c *completionQueue) Depth() int {
	c.e.lock()
	defer c.e.unlock()
	return int(c.depth)
}

// Resize makes room for so many entries.
func (c *completionQueue) Resize(depth int) error {
	return c.locked(fmt.Sprintf("resize completion queue to %d entries", depth), func() error {
		held := int(c.tail - c.head)
		if depth < max(held, 1) || depth > maxCQE {
			return fmt.Errorf("it holds %d: want %d to %d", held, max(held, 1), maxCQE)
		}
		n := rc.RingSize(depth)
		ring := make([]entry, n)
		for i := c.head; i != c.tail; i++ {
			ring[i&(n-1)] = c.ring[i&c.mask]
		}
		c.ring, c.mask, c.depth = ring, n-1, uint32(depth)
		c.resumeFlush()
		return nil
	})
}

func (c *completionQueue) Close() error {
	return c.close("close completion queue", func() {
		if c.channel != nil {
			c.channel.forget(c)
		}
	})
}

func (c *completionQueue) Poll(out []verbs.Completion) (int, error) {
	e := c.e
	e.lock()
	defer e.unlock()
	if c.Closed() {
		return 0, c.fail("poll completion queue", verbs.ErrClosed)
	}
	if c.head == c.tail {
		e.progress(tick.Now(), 1)
	}
	n := c.drain(out)
	if n > 0 {
		c.spin.quiet = 0
	}
	if n == 0 && c.overrun {
		return 0, c.fail("poll completion queue", c.overran())
	}
	return n, nil
}

// Idle is for a program that polls in a loop of its own, after a Poll that brought nothing: from time to time it lets
// others have the processor, as a job does while it waits.
func (c *completionQueue) Idle() {
	e := c.e
	e.lock()
	defer e.unlock()
	if c.head != c.tail || c.Closed() {
		return
	}
	c.spin.idle(e, 0)
}

func (c *completionQueue) overran() error {
	return fmt.Errorf("overrun: more than %d completions were not polled; make it deeper", c.depth)
}

// drain takes what there is, and goes on with what waited for room.
func (c *completionQueue) drain(out []verbs.Completion) (n int) {
	for n < len(out) && c.head != c.tail {
		out[n] = c.take().Completion
		n++
	}
	if len(c.flushing) > 0 {
		c.resumeFlush()
	}
	return n
}

// take removes the oldest entry, which must be there; it is valid until the next push.
func (c *completionQueue) take() *entry {
	x := &c.ring[c.head&c.mask]
	c.head++
	if x.qp != nil {
		x.qp.request.Release(x.release)
		x.qp = nil
	}
	return x
}

func (c *completionQueue) room() bool { return c.tail-c.head < c.depth }

// push adds a completion; where there is no room the queue is overrun and the completion lost (IBTA 11.6.3.1).
func (c *completionQueue) push(x *entry, solicited bool) bool {
	if !c.room() {
		if !c.overrun {
			c.overrun = true
			c.e.raise(verbs.AsyncEvent{Type: verbs.EventCQError, CQ: c})
		}
		return false
	}
	if c.stamps {
		x.Timestamp = uint64(time.Since(clockEpoch))
	}
	c.ring[c.tail&c.mask] = *x
	c.tail++
	if c.armed && (c.any || solicited || x.Status != verbs.Success) {
		c.armed = false
		c.channel.post(c)
	}
	return true
}

func (c *completionQueue) Arm(n verbs.Notify) error {
	return c.locked("arm completion queue", func() error {
		if c.channel == nil {
			return fmt.Errorf("without a completion channel: %w", verbs.ErrUnsupported)
		}
		c.any = n == verbs.NotifyAny || c.armed && c.any // "any" overrides "solicited", not vice versa
		c.armed = true
		return nil
	})
}

// resumeFlush goes on flushing the queue pairs for which there was no room.
func (c *completionQueue) resumeFlush() {
	waiting := c.flushing
	c.flushing = c.flushing[:0]
	for _, q := range waiting {
		q.flush()
	}
}

// awaitRoom has q's flush resumed when entries were polled.
func (c *completionQueue) awaitRoom(q *queuePair) {
	if !slices.Contains(c.flushing, q) {
		c.flushing = append(c.flushing, q)
	}
}

// forget drops what the queue knows of a queue pair that goes or is reset, its completions with it, as NICs do: the
// program may have given back what their IDs stand for.
func (c *completionQueue) forget(q *queuePair) {
	end := c.head
	for i := c.head; i != c.tail; i++ {
		if x := &c.ring[i&c.mask]; x.QPN != q.qpn {
			c.ring[end&c.mask] = *x
			end++
		}
	}
	c.tail = end
	c.flushing = slices.DeleteFunc(c.flushing, func(x *queuePair) bool { return x == q })
	c.resumeFlush()
}
