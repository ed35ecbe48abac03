package drive

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

// explain puts a cause before what follows from it: first why this end's device failed, next why the peer is gone, last
// the failed completion. The device comes before the peer's words, too: a port that both ends use fails at both.
func (d *Driver) explain(ctx, watch context.Context, err error) error {
	_, failed := errors.AsType[*verbs.CompletionError](err)
	_, told := errors.AsType[*control.PeerError](err)
	if !failed && !told || d.Session == nil {
		return err
	}
	switch reason := d.awaitDeviceFailure(); {
	case reason != nil && failed:
		return fmt.Errorf("%w (and then: %w)", reason, err)
	case reason != nil:
		return fmt.Errorf("%w (and the %s)", reason, err.Error())
	case failed && watch.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("%w (and then: %w)", context.Cause(watch), err)
	}
	return err
}

// awaitDeviceFailure waits a moment for an event of this end's device that explains a failure: the event, the peer's
// words and the failed completion come by different ways. Events of a queue pair tell no more than its completions do.
func (d *Driver) awaitDeviceFailure() error {
	for end := time.Now().Add(reasonWait); ; time.Sleep(reasonWait / 50) {
		err := d.Devices.Failure(func(e verbs.AsyncEvent) bool { return e.QP == nil })
		if err != nil || time.Now().After(end) {
			return err
		}
	}
}
