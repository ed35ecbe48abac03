package roce

import (
	"context"
	"math"
	"slices"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/tick"
)

// completionChannel is a verbs.CompletionChannel.
type completionChannel struct {
	object
	events []*completionQueue // at most one per arming
}

func (d *device) CreateCompletionChannel() (verbs.CompletionChannel, error) {
	ch := &completionChannel{object: object{e: d.e}}
	return made[verbs.CompletionChannel](d, ch, "create completion channel", d.open(&ch.Handle, kindChannel, math.MaxInt))
}

// Close wakes whoever waits.
func (ch *completionChannel) Close() error {
	err := ch.Handle.Close(func() {
		ch.e.lock()
		ch.e.wakeSleepers()
		ch.e.unlock()
	}, func() error { return nil })
	return ch.fail("close completion channel", err)
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
	ch.events = slices.Delete(ch.events, 0, 1)
	return c
}

func (ch *completionChannel) forget(c *completionQueue) {
	ch.events = slices.DeleteFunc(ch.events, func(x *completionQueue) bool { return x == c })
}

// Wait blocks until an event comes or the context ends. The waiting goroutine drives the
// device meanwhile, blocked in the kernel.
func (ch *completionChannel) Wait(ctx context.Context) (verbs.CompletionQueue, error) {
	e := ch.e
	const verb = "wait for completion event"
	if err := ch.Enter(); err != nil {
		return nil, ch.fail(verb, err)
	}
	defer ch.Leave()
	stop := context.AfterFunc(ctx, func() {
		e.lock()
		e.wakeSleepers()
		e.unlock()
	})
	defer stop()
	e.lock()
	defer e.unlock()
	for {
		if ch.Closed() {
			return nil, ch.fail(verb, verbs.ErrClosed)
		}
		if c := ch.next(); c != nil {
			return c, nil
		}
		if err := context.Cause(ctx); err != nil {
			return nil, ch.fail(verb, err)
		}
		if !e.progress(tick.Now(), receiveBudget) && len(ch.events) == 0 {
			e.await(tick.Never)
		}
	}
}
