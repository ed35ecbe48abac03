package perftest

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

// sequence is a perftest tool as a table: what crosses the wire at each call of the session. The first pass of keys is
// always Exchange's own.
type sequence struct {
	opening    []step // before the first keys
	connected  []step
	ready      []step // of each size
	done       []step // of each size but the last
	lastDone   []step
	report     []step // of each size but the last
	lastReport []step
	finished   []step
	// partingUnannounced: the ends close without a word, so that a closed connection is no fault while this end finishes.
	partingUnannounced bool
}

// sequenceOf is the table of a plan's tool. Ends that only serve (one-sided, one direction) wait for the peer's end of
// the test in lastDone.
func sequenceOf(p *plan.Spec) sequence {
	row, _ := p.Row() // a settled plan has one
	var (
		none      []step
		barrier   = []step{stepBarrier}
		report    = []step{stepReport}
		afterSize = none // the barrier that -a puts after each size
		s         sequence
	)
	if p.AllSizes {
		afterSize = barrier
	}
	oneSided := row.Addressed()
	s.connected = []step{stepBarrier, stepKeys}
	if oneSided {
		s.connected = []step{stepKeys, stepBarrier}
	}
	if p.Kind == plan.Latency {
		switch {
		case !oneSided:
			s.ready, s.finished = barrier, barrier
		case row.Responded:
			s.opening, s.lastDone = barrier, barrier
		default:
			s.opening = barrier
			if row.NeedsReceive() {
				s.ready = barrier
			}
			s.partingUnannounced = true
		}
		return s
	}
	s.finished = barrier
	perSizeReport := p.Bidirectional && p.Duration == 0
	switch {
	case !oneSided:
		s.ready = barrier
		if perSizeReport {
			s.report = append(append(none, stepReport), afterSize...)
			s.lastReport = s.report
		} else {
			s.done, s.lastDone = afterSize, afterSize
		}
	case row.NeedsReceive():
		s.ready, s.done, s.lastDone = barrier, afterSize, afterSize
		if perSizeReport {
			s.report, s.lastReport = report, report
		}
	case p.Bidirectional:
		s.ready, s.done, s.lastDone = barrier, afterSize, afterSize
		s.report, s.lastReport = report, report
	default:
		s.lastDone, s.lastReport = barrier, report
	}
	return s
}
