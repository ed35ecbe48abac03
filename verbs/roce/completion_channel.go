package roce

import (
	"context"
	"fmt"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// completionChannel is a verbs.CompletionChannel.
type completionChannel struct {
	e      *engine
	events []*completionQueue // at most one per arming
	users  int
	closed bool
}

func (d *device) CreateCompletionChannel() (verbs.CompletionChannel, error) {
	e := d.e
	e.lock()
	defer e.unlock()
	if e.closed {
		return nil, e.fail("create completion channel", 0, verbs.ErrClosed)
	}
	e.channels++
	return &completionChannel{e: e}, nil
}

func (ch *completionChannel) Close() error {
	ch.e.lock()
	defer ch.e.unlock()
	switch {
	case ch.closed:
		return nil
	case ch.users > 0:
		return ch.e.fail("close completion channel", 0, fmt.Errorf("%w: %d completion queues open", verbs.ErrBusy, ch.users))
	}
	ch.closed = true
	ch.e.channels--
	ch.e.wakeSleepers()
	return nil
}

// post announces an event.
func (ch *completionChannel) post(c *completionQueue) {
	ch.events = append(ch.events, c)
	ch.e.wakeSleepers()
}

// next takes the oldest event.
func (ch *completionChannel) next() *completionQueue {
	if len(ch.events) == 0 {
		return nil
	}
	c := ch.events[0]
	ch.events = append(ch.events[:0], ch.events[1:]...)
	c.pending++
	return c
}

func (ch *completionChannel) forget(c *completionQueue) {
	kept := ch.events[:0]
	for _, x := range ch.events {
		if x != c {
			kept = append(kept, x)
		}
	}
	ch.events = kept
}

// Wait blocks until an event comes or the context ends. The waiting goroutine drives the device meanwhile, blocked in the
// kernel.
func (ch *completionChannel) Wait(ctx context.Context) (verbs.CompletionQueue, error) {
	e := ch.e
	stop := context.AfterFunc(ctx, func() {
		e.lock()
		e.wakeSleepers()
		e.unlock()
	})
	defer stop()
	e.lock()
	defer e.unlock()
	for {
		if ch.closed || e.closed {
			return nil, e.fail("wait for completion event", 0, verbs.ErrClosed)
		}
		if c := ch.next(); c != nil {
			return c, nil
		}
		if err := context.Cause(ctx); err != nil {
			return nil, e.fail("wait for completion event", 0, err)
		}
		if !e.progress(job.Now()) && len(ch.events) == 0 {
			e.await(never)
		}
	}
}
