package wire

import (
	"github.com/gobw/gobw/internal/plan"
)

// step is one thing that crosses perftest's wire.
type step uint8

const (
	stepBarrier step = iota // keys of queue pair 0, content ignored
	stepKeys                // keys of every queue pair, again
	stepReport              // five exchanges of 8 bytes
)

// sequence is a perftest tool as a table: what crosses the wire at each call of the session. It leaves out the first
// keys, which Exchange always swaps.
type sequence struct {
	opening      []step // before the first keys
	connected    []step
	ready        []step // of each size
	done, report []step // of each size, or of the last alone
	lastAlone    bool
	finished     []step
	// partingUnannounced: the ends close without a word, so that a closed connection is no fault while this end finishes.
	partingUnannounced bool
}

// sequenceOf is the table of a plan's tool. In a one-sided test of one direction the target waits in the barrier of
// done until the initiator has measured.
func sequenceOf(p *plan.Spec) (s sequence) {
	row, _ := p.Row() // a settled plan has one
	barrier, report := []step{stepBarrier}, []step{stepReport}
	var afterSize []step // the barrier that -a puts after each size
	if p.AllSizes {
		afterSize = barrier
	}
	addressed := row.Addressed()
	unseen := addressed && !row.NeedsReceive() // the peer is not told that a message has arrived
	s.connected = []step{stepBarrier, stepKeys}
	if addressed {
		s.connected = []step{stepKeys, stepBarrier}
	}
	if p.Kind == plan.Latency {
		switch {
		case !addressed:
			s.ready, s.finished = barrier, barrier
		case row.Responded:
			s.opening, s.done, s.lastAlone = barrier, barrier, true
		default:
			s.opening, s.partingUnannounced = barrier, true
			if row.NeedsReceive() {
				s.ready = barrier
			}
		}
		return s
	}
	s.finished = barrier
	if unseen && !p.Bidirectional {
		s.done, s.report, s.lastAlone = barrier, report, true
		return s
	}
	s.ready, s.done = barrier, afterSize
	// Both directions report each size, unless the test has a duration and its messages need receives.
	if p.Bidirectional && (p.Duration == 0 || unseen) {
		s.report = report
		if !addressed { // the barrier comes behind the report
			s.done, s.report = nil, append(report, afterSize...)
		}
	}
	return s
}
