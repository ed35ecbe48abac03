package bench

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// eventful is a device of which only the events count.
type eventful struct {
	verbs.Device
	events chan verbs.AsyncEvent
}

func (e eventful) Events() <-chan verbs.AsyncEvent { return e.events }
func (e eventful) Info() verbs.DeviceInfo          { return verbs.DeviceInfo{Name: "rxe0"} }

// driverOf is a driver whose device reports events.
func driverOf(events ...verbs.AsyncEvent) *driver {
	d := eventful{events: make(chan verbs.AsyncEvent, 8)}
	for _, e := range events {
		d.events <- e
	}
	return &driver{run: &run{rails: []rail{{device: d}}, perNs: 1}, t: &trace{}}
}

var (
	linkLost     = verbs.AsyncEvent{Type: verbs.EventPortError, Port: 1}
	accessFailed = verbs.AsyncEvent{Type: verbs.EventQPAccessError, QPN: 0x12}
	harmless     = verbs.AsyncEvent{Type: verbs.EventGIDChange, Port: 1}
)

// TestPortDownGoesBeforeItsConsequences holds that a failed completion and a peer's complaint that follow from a dead
// port name the port, and that the exit code stays that of a failed test.
func TestPortDownGoesBeforeItsConsequences(t *testing.T) {
	flushed := &verbs.CompletionError{Device: "rxe0", Completion: verbs.Completion{Status: verbs.LocalQPOperationError, QPN: 0x12}}
	ctx := t.Context()
	lost, lose := context.WithCancelCause(ctx)
	lose(&control.PeerError{Message: "measure: rxe0: the device reports PORT_ERR on port 1"})
	for _, c := range []struct {
		name  string
		err   error
		wants string
	}{
		{"completion", driverOf(harmless, linkLost).explain(ctx, ctx, flushed), "measure: rxe0: the device reports PORT_ERR on port 1: the link went down (and then: rxe0 qp 0x12"},
		{"peer", driverOf(harmless, linkLost).rooted(context.Cause(lost)), "measure: rxe0: the device reports PORT_ERR on port 1: the link went down (and the peer said: "},
		{"peer alone", driverOf(harmless).rooted(context.Cause(lost)), "peer said: \"measure: rxe0: the device reports PORT_ERR"},
		{"alone", driverOf(linkLost).lookAround(ctx, job.Now()), "measure: rxe0: the device reports PORT_ERR on port 1: the link went down"},
		{"queue pair", driverOf(accessFailed).explain(ctx, ctx, flushed), "rxe0 qp 0x12: work request 0 completed with LOC_QP_OP_ERR"},
		{"peer gone", driverOf().explain(ctx, lost, flushed), "peer said: \"measure: rxe0: the device reports PORT_ERR on port 1\" (and then: rxe0 qp 0x12"},
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
