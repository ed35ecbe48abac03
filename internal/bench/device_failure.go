package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/verbs"
)

// reasonWait is how long this end waits for what explains a failure.
const reasonWait = 200 * time.Millisecond

// deviceFailure looks at the events of this end's devices for one that no test survives.
func (d *driver) deviceFailure() error {
	return d.nextFailure(func(verbs.AsyncEvent) bool { return true })
}

// endedBy is the error that an event makes of a test, or nil.
func endedBy(dev verbs.Device, e verbs.AsyncEvent) error {
	if !e.Type.EndsTest() {
		return nil
	}
	return &verbs.Error{
		Verb: "measure", Device: dev.Info().Name, Err: fmt.Errorf("the device reports %v: %s", e, e.Type.Meaning()), Fix: e.Type.Remedy(),
	}
}

// explain prefers the reason why this end's device failed, or why the peer is gone, to the failed completion that follows
// from it.
func (d *driver) explain(ctx, watch context.Context, err error) error {
	d.t.last = d.p
	if _, is := errors.AsType[*verbs.CompletionError](err); !is {
		return err
	}
	if reason := d.awaitDeviceFailure(); reason != nil {
		return fmt.Errorf("%w (and then: %w)", reason, err)
	}
	if watch.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w (and then: %w)", context.Cause(watch), err)
	}
	return err
}

// rooted prefers the reason why this end's device failed to what the peer says: a port that both ends use fails at both.
func (d *driver) rooted(err error) error {
	if _, is := errors.AsType[*control.PeerError](err); is {
		if reason := d.awaitDeviceFailure(); reason != nil {
			return fmt.Errorf("%w (and the %s)", reason, err.Error())
		}
	}
	return err
}

// awaitDeviceFailure waits a moment for an event of this end's device that explains a failure: the event, the peer's
// words and the failed completion come by different ways. Events of a queue pair tell no more than its completions do.
func (d *driver) awaitDeviceFailure() error {
	for end := time.Now().Add(reasonWait); ; time.Sleep(reasonWait / 50) {
		err := d.nextFailure(func(e verbs.AsyncEvent) bool { return e.QPN == 0 })
		if err != nil || time.Now().After(end) {
			return err
		}
	}
}
