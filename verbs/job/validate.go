package job

import (
	"errors"
	"fmt"
)

// Validate tells everything that is wrong with a job, at once. Runners call it in Prepare.
func (j *Job) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	switch j.Shape {
	case Stream:
		if len(j.Lanes) == 0 {
			bad("no lanes: a stream needs at least 1")
		}
	case PingPong:
		if len(j.Lanes) != 1 {
			bad("%d lanes: a ping-pong alternates on exactly 1", len(j.Lanes))
		}
	case Serve:
		if j.Stop == nil && j.Deadline == 0 {
			bad("serve never ends: set Stop or Deadline")
		}
	default:
		bad("unknown shape %v", j.Shape)
	}
	if len(j.CQs) == 0 && len(j.Lanes) > 0 {
		bad("no completion queues: list every queue the lanes complete into")
	}
	for i, cq := range j.CQs {
		if cq == nil {
			bad("completion queue %d is nil", i)
		}
	}
	if j.Burst < 0 || j.Burst > 1 && j.Pace == 0 {
		bad("bursts of %d messages: want 0 or more, with a pace", j.Burst)
	}
	if j.Pace < 0 {
		bad("pace of %d ticks: want 0 or more", j.Pace)
	}
	if j.Record != nil && !j.Record.Clock.IsZero() {
		if j.Shape != PingPong || j.Pace > 0 || len(j.Lanes) == 1 && j.Lanes[0].Await == AwaitLastByte {
			bad("samples by the device's clock: want a ping-pong that awaits completions, without a pace")
		}
	}
	lanes := make(map[uint32]int, len(j.Lanes))
	for i := range j.Lanes {
		l := &j.Lanes[i]
		for _, err := range l.problems(j) {
			bad("lane %d: %w", i, err)
		}
		if l.QP == nil {
			continue
		}
		if first, twice := lanes[l.QP.QPN()]; twice {
			bad("lanes %d and %d share qp %#x: a lane is one queue pair's part, in both directions", first, i, l.QP.QPN())
		}
		lanes[l.QP.QPN()] = i
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%v job: %w", j.Shape, err)
	}
	return nil
}

func (l *Lane) problems(j *Job) []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if l.QP == nil {
		bad("no queue pair")
	}
	endless := j.Stop == nil && j.Deadline == 0
	switch {
	case j.Shape == Serve: // rings are not used
	case len(l.Ring) == 0 && len(l.Receives) == 0:
		bad("nothing to send and nothing to receive")
	case len(l.Ring) == 0 && l.Count > 0:
		bad("count %d without messages in the ring", l.Count)
	case len(l.Ring) > 0 && l.Count == 0 && endless:
		bad("sends for ever: set Count, Deadline or Stop")
	}
	if len(l.Receives) == 0 && l.Expect > 0 {
		bad("%d messages expected without receives", l.Expect)
	}
	if len(l.Receives) > 0 && l.Expect == 0 && endless && j.Shape != PingPong {
		bad("receives for ever: set Expect, Deadline or Stop")
	}
	if l.ReceiveList < 0 || l.ReceiveList > 0 && len(l.Receives) == 0 {
		bad("receives posted in lists of %d: want 0 or more, and receives", l.ReceiveList)
	} else if posted := l.InitialReceives(); l.ReceiveList > 0 {
		due := uint64(l.ReceiveList)
		if l.Expect > 0 {
			due = min(due, l.Expect-min(posted, l.Expect))
		}
		if due > posted {
			bad("%d receives are posted: a list of %d never becomes due", posted, due)
		}
	}
	if len(l.Unpack) > 0 && len(l.Receives) == 0 {
		bad("unpacks without receives")
	}
	if len(l.Ring) > 0 && j.Shape != Serve {
		errs = append(errs, l.windowProblems()...)
		for k := range l.Ring {
			errs = append(errs, l.messageProblems(k)...)
		}
	}
	if j.Shape == PingPong {
		errs = append(errs, l.pingPongProblems()...)
	}
	return errs
}

func (l *Lane) windowProblems() []error {
	var errs []error
	switch {
	case l.Window < 1:
		errs = append(errs, fmt.Errorf("window %d: want at least 1", l.Window))
	case l.Signal < 1 || l.Signal > l.Window:
		errs = append(errs, fmt.Errorf("signal every %d: want 1 to the window of %d", l.Signal, l.Window))
	case l.Batch < 1 || l.Batch > l.Window:
		errs = append(errs, fmt.Errorf("batch %d: want 1 to the window of %d", l.Batch, l.Window))
	default:
		if need := l.Signal + l.Batch - gcd(l.Signal, l.Batch); l.Window < need {
			errs = append(errs, fmt.Errorf("window %d with batches of %d, signaled every %d: gets stuck; want a window of at least %d",
				l.Window, l.Batch, l.Signal, need))
		}
	}
	return errs
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func (l *Lane) messageProblems(k int) []error {
	var errs []error
	m := &l.Ring[k]
	if len(m.Steps) == 0 || len(m.Steps[len(m.Steps)-1].Requests) == 0 {
		return append(errs, fmt.Errorf("message %d: its last step posts nothing", k))
	}
	if !m.Done.IsZero() && l.Signal != 1 {
		errs = append(errs, fmt.Errorf("message %d: work after completion needs every message signaled, not every %d", k, l.Signal))
	}
	if l.QP == nil {
		return errs
	}
	for s := range m.Steps {
		for r := range m.Steps[s].Requests {
			if op := m.Steps[s].Requests[r].Opcode; !l.QP.Transport().Supports(op) {
				errs = append(errs, fmt.Errorf("message %d: %v has no %v", k, l.QP.Transport(), op))
			}
		}
	}
	return errs
}

func (l *Lane) pingPongProblems() []error {
	var errs []error
	if len(l.Ring) == 0 {
		errs = append(errs, errors.New("a ping-pong needs messages to send"))
	}
	if l.Batch > 1 {
		errs = append(errs, fmt.Errorf("batch %d: a ping-pong sends one message at a time", l.Batch))
	}
	switch l.Await {
	case AwaitCompletion:
		if l.Signal != 1 {
			errs = append(errs, fmt.Errorf("awaits completions but signals every %d: want 1", l.Signal))
		}
	case AwaitReceive:
		if len(l.Receives) == 0 {
			errs = append(errs, errors.New("awaits receives but posts none"))
		}
	case AwaitLastByte:
		if l.FlagIn == nil || l.FlagOut == nil {
			errs = append(errs, errors.New("awaits a byte: set FlagIn and FlagOut"))
		}
	default:
		errs = append(errs, fmt.Errorf("unknown await %d", l.Await))
	}
	return errs
}
