package job

import (
	"errors"
	"fmt"
)

// faults collects what is wrong with a job.
type faults []error

// add adds a fault where there is one.
func (f *faults) add(wrong bool, format string, args ...any) {
	if wrong {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// Validate tells everything that is wrong with a job, at once. Runners call it in Prepare.
func (j *Job) Validate() error {
	var f faults
	f.add(j.Shape > Serve, "unknown shape %v", j.Shape)
	f.add(j.Shape == Stream && len(j.Lanes) == 0, "no lanes: a stream needs at least 1")
	f.add(j.Shape == PingPong && len(j.Lanes) != 1, "%d lanes: a ping-pong alternates on exactly 1", len(j.Lanes))
	f.add(j.Shape == Serve && j.Stop == nil, "serve never ends: set Stop")
	f.add(len(j.CQs) == 0 && len(j.Lanes) > 0, "no completion queues: list every queue the lanes complete into")
	for i, cq := range j.CQs {
		f.add(cq == nil, "completion queue %d is nil", i)
	}
	f.add(j.Burst < 0 || j.Burst > 1 && j.Pace == 0, "bursts of %d messages: want 0 or more, with a pace", j.Burst)
	f.add(j.MakeUp < 0 || j.MakeUp > 0 && j.Pace == 0, "%d ticks to make up for: want 0 or more, with a pace", j.MakeUp)
	f.add(j.Pace < 0, "pace of %d ticks: want 0 or more", j.Pace)
	f.add(j.Record != nil && len(j.Record.Counts) != HistogramCounts, "a recorder that was not made with NewRecorder")
	if j.Record != nil && !j.Record.Clock.IsZero() {
		f.add(j.Shape != PingPong || j.Pace > 0 || len(j.Lanes) == 1 && j.Lanes[0].Await == AwaitLastByte,
			"samples by the device's clock: want a ping-pong that awaits completions, without a pace")
	}
	lanes := make(map[uint32]int, len(j.Lanes))
	for i := range j.Lanes {
		l := &j.Lanes[i]
		var of faults
		l.validate(j, &of)
		for _, err := range of {
			f.add(true, "lane %d: %w", i, err)
		}
		if l.QP != nil {
			first, twice := lanes[l.QP.QPN()]
			f.add(twice, "lanes %d and %d share qp %#x: a lane is one queue pair's part, in both directions", first, i,
				l.QP.QPN())
			lanes[l.QP.QPN()] = i
		}
	}
	if len(f) > 0 {
		return fmt.Errorf("%v job: %w", j.Shape, errors.Join(f...))
	}
	return nil
}

func (l *Lane) validate(j *Job, f *faults) {
	sends, receives := len(l.Ring) > 0, len(l.Receives) > 0
	f.add(l.QP == nil, "no queue pair")
	if j.Shape != Serve { // rings are not used there
		f.add(!sends && !receives, "nothing to send and nothing to receive")
		f.add(!sends && receives && l.Count > 0, "count %d without messages in the ring", l.Count)
		f.add(sends && l.Count == 0 && j.Stop == nil, "sends for ever: set Count or Stop")
	}
	f.add(!receives && l.Expect > 0, "%d messages expected without receives", l.Expect)
	f.add(receives && l.Expect == 0 && j.Stop == nil && j.Shape != PingPong, "receives for ever: set Expect or Stop")
	f.add(!receives && len(l.Unpack) > 0, "unpacks without receives")
	f.add(l.ReceiveList < 0 || l.ReceiveList > 0 && !receives,
		"receives posted in lists of %d: want 0 or more, and receives", l.ReceiveList)
	if posted := l.Posted; l.ReceiveList > 0 && receives {
		due := uint64(l.ReceiveList)
		if l.Expect > 0 {
			due = min(due, l.Expect-min(posted, l.Expect))
		}
		f.add(due > posted, "%d receives are posted: a list of %d never becomes due", posted, due)
	}
	f.add(l.Group < 0 || l.Group > 0 && (l.Groups < 1 || l.Batch != 1),
		"groups of %d messages, %d in flight, batch %d: want 1 or more in flight, and batch 1", l.Group, l.Groups, l.Batch)
	if sends && j.Shape != Serve {
		l.validateWindow(f)
		for k := range l.Ring {
			l.validateMessage(k, f)
		}
	}
	if j.Shape == PingPong {
		f.add(!sends, "a ping-pong needs messages to send")
		f.add(l.Batch > 1, "batch %d: a ping-pong sends one message at a time", l.Batch)
		f.add(l.Await > AwaitLastByte, "unknown await %d", l.Await)
		f.add(l.Await == AwaitCompletion && l.Signal != 1, "awaits completions but signals every %d: want 1", l.Signal)
		f.add(l.Await == AwaitReceive && !receives, "awaits receives but posts none")
		f.add(l.Await == AwaitLastByte && (l.FlagIn == nil || l.FlagOut == nil), "awaits a byte: set FlagIn and FlagOut")
	}
}

func (l *Lane) validateWindow(f *faults) {
	switch {
	case l.Window < 1:
		f.add(true, "window %d: want at least 1", l.Window)
	case l.Signal < 1 || l.Signal > l.Window:
		f.add(true, "signal every %d: want 1 to the window of %d", l.Signal, l.Window)
	case l.Batch < 1 || l.Batch > l.Window:
		f.add(true, "batch %d: want 1 to the window of %d", l.Batch, l.Window)
	default:
		need := l.Signal + l.Batch - GCD(l.Signal, l.Batch)
		f.add(l.Window < need, "window %d with batches of %d, signaled every %d: gets stuck; want a window of at least %d",
			l.Window, l.Batch, l.Signal, need)
	}
}

// GCD is the greatest common divisor of two numbers.
func GCD(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func (l *Lane) validateMessage(k int, f *faults) {
	m := &l.Ring[k]
	f.add(len(m.Steps) == 0 || len(m.Steps[len(m.Steps)-1].Requests) == 0, "message %d: its last step posts nothing", k)
	f.add(!m.Done.IsZero() && l.Signal != 1,
		"message %d: work after completion needs every message signaled, not every %d", k, l.Signal)
	for _, step := range m.Steps {
		for i := range step.Requests {
			if op := step.Requests[i].Opcode; l.QP != nil && !l.QP.Transport().Supports(op) {
				f.add(true, "message %d: %v has no %v", k, l.QP.Transport(), op)
			}
		}
	}
}
