package drive

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// failing is a device that fails by the first of its events that ends a test.
type failing struct {
	Devices
	events []verbs.AsyncEvent
}

func (f failing) Failure(counts func(verbs.AsyncEvent) bool) error {
	for _, e := range f.events {
		if counts(e) && e.Type.EndsTest() {
			return &verbs.Error{
				Verb: "measure", Device: "rxe0", Err: fmt.Errorf("the device reports %v: %s", e, e.Type.Meaning()),
				Fix: e.Type.Remedy(),
			}
		}
	}
	return nil
}

func (failing) ServeThemselves() bool       { return true }
func (failing) Counters() map[string]uint64 { return nil }

// silent is the session with a peer that never says that it is done.
type silent struct{ control.Session }

func (silent) Watch(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

func (silent) Sync(ctx context.Context, _ control.Phase, _ int, _ bool) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// done is a runner whose job is over.
type done struct{ job.Runner }

func (done) Run(job.Ticks) (job.Progress, error) { return job.Progress{Done: true}, nil }

// TestPortDownAfterTheJob: an end whose own job is over still looks at its device while it waits for the peer.
func TestPortDownAfterTheJob(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := New(Task{
		Plan: settled(t, plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth}, true, plan.Peer{}),
		Job:  &job.Job{Shape: job.Stream}, Runner: done{},
		Session: silent{}, Devices: failing{events: []verbs.AsyncEvent{linkLost}}, PerNs: 1,
	}).Run(ctx)
	if err == nil || !strings.Contains(err.Error(), "PORT_ERR on port 1: the link went down") {
		t.Errorf("got %v, want the device's event", err)
	}
}

// numbered is a queue pair as an event names it.
type numbered struct{ verbs.QueuePair }

func (numbered) QPN() uint32 { return 0x12 }

// driverOf is a driver whose device reports events.
func driverOf(events ...verbs.AsyncEvent) *Driver {
	return &Driver{Task: Task{Session: silent{}, Devices: failing{events: events}, PerNs: 1}}
}

var (
	linkLost     = verbs.AsyncEvent{Type: verbs.EventPortError, Port: 1}
	accessFailed = verbs.AsyncEvent{Type: verbs.EventQPAccessError, QP: numbered{}}
	harmless     = verbs.AsyncEvent{Type: verbs.EventGIDChange, Port: 1}
)

// TestPortDownGoesBeforeItsConsequences holds that a failed completion and a peer's complaint that follow from a dead
// port name the port, and that the exit code stays that of a failed test.
func TestPortDownGoesBeforeItsConsequences(t *testing.T) {
	flushed := &verbs.CompletionError{
		Device: "rxe0", Completion: verbs.Completion{Status: verbs.LocalQPOperationError, QPN: 0x12},
	}
	ctx := t.Context()
	lost, lose := context.WithCancelCause(ctx)
	lose(&control.PeerError{Message: "measure: rxe0: the device reports PORT_ERR on port 1"})
	for _, c := range []struct {
		name  string
		err   error
		wants string
	}{
		{
			"completion", driverOf(harmless, linkLost).explain(ctx, ctx, flushed),
			"measure: rxe0: the device reports PORT_ERR on port 1: the link went down (and then: rxe0 qp 0x12",
		},
		{
			"peer", driverOf(harmless, linkLost).explain(ctx, lost, context.Cause(lost)),
			"measure: rxe0: the device reports PORT_ERR on port 1: the link went down (and the peer said: ",
		},
		{
			"peer alone", driverOf(harmless).explain(ctx, lost, context.Cause(lost)),
			"peer said: \"measure: rxe0: the device reports PORT_ERR",
		},
		{
			"alone", driverOf(linkLost).lookAround(ctx, job.Now()),
			"measure: rxe0: the device reports PORT_ERR on port 1: the link went down",
		},
		{
			"queue pair", driverOf(accessFailed).explain(ctx, ctx, flushed),
			"rxe0 qp 0x12: work request 0 completed with LOC_QP_OP_ERR",
		},
		{
			"peer gone", driverOf().explain(ctx, lost, flushed),
			"peer said: \"measure: rxe0: the device reports PORT_ERR on port 1\" (and then: rxe0 qp 0x12",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.err == nil || !strings.HasPrefix(c.err.Error(), c.wants) {
				t.Fatalf("got %v, want it to begin with %q", c.err, c.wants)
			}
			if _, ours := errors.AsType[*verbs.Error](c.err); ours {
				if _, peers := errors.AsType[*control.PeerError](c.err); peers {
					t.Errorf("%v counts as the peer's error too", c.err)
				}
				if fix := verbs.RemedyOf(c.err); !strings.Contains(fix, "rdma link") {
					t.Errorf("remedy %q does not name the next command", fix)
				}
			}
		})
	}
}
