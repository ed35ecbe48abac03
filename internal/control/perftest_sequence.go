package control

import (
	"fmt"

	"github.com/gobw/gobw/verbs"
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
func sequenceOf(p *Plan) sequence {
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
	oneSided := p.Operation != Send
	s.connected = []step{stepBarrier, stepKeys}
	if oneSided {
		s.connected = []step{stepKeys, stepBarrier}
	}
	if p.Kind == Latency {
		switch p.Operation {
		case Send:
			s.ready, s.finished = barrier, barrier
		case Write:
			s.opening = barrier
			if p.WriteImm {
				s.ready = barrier
			}
			s.partingUnannounced = true
		case Read, Atomic:
			s.opening, s.lastDone = barrier, barrier
		}
		return s
	}
	s.finished = barrier
	perSizeReport := p.Bidirectional && p.Duration == 0
	switch {
	case p.Operation == Send:
		s.ready = barrier
		if perSizeReport {
			s.report = append(append(none, stepReport), afterSize...)
			s.lastReport = s.report
		} else {
			s.done, s.lastDone = afterSize, afterSize
		}
	case p.WriteImm:
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

// allSizes is the ladder of -a.
func allSizes(limit int) []int {
	var sizes []int
	for size := 2; size <= limit; size *= 2 {
		sizes = append(sizes, size)
	}
	return sizes
}

// checkPerftestPlan refuses plans that no perftest can run with us.
func checkPerftestPlan(p *Plan) error {
	if err := p.Check(); err != nil {
		return err
	}
	switch {
	case p.Noncontig != nil:
		return fmt.Errorf("perftest has no non-contiguous messages: run gobw at both ends")
	case p.Runs > 1:
		return fmt.Errorf("perftest runs a test once per connection, not %d times: run gobw at both ends", p.Runs)
	case !p.AllSizes && len(p.Sizes) != 1:
		return fmt.Errorf("perftest runs one size, or all powers of two (-a), not %d sizes: run gobw at both ends", len(p.Sizes))
	case p.Kind == Latency && p.QPs > 1:
		return fmt.Errorf("perftest's latency tests have one queue pair, not %d", p.QPs)
	}
	if p.AllSizes && p.Transport != verbs.UD {
		want := allSizes(allSizesBytes)
		same := len(want) == len(p.Sizes)
		for i := range want {
			same = same && p.Sizes[i] == want[i]
		}
		if !same {
			return fmt.Errorf("perftest's -a runs 2, 4, … %d bytes; the plan has other sizes", allSizesBytes)
		}
	}
	return nil
}
