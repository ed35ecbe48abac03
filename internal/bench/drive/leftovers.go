package drive

import (
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// leftoverSlice is how long the runner looks for leftovers at a time.
const leftoverSlice = 50 * time.Microsecond

// takeLeftovers takes what a stopped ping-pong left on its way: the completion of its last message, and at the end that
// moves first the answer to it. Else the next round would take them for its own.
func (d *Driver) takeLeftovers() error {
	if d.Job.Shape != job.PingPong {
		return nil
	}
	p := &d.Trace.Last
	lane := &d.Job.Lanes[0]
	answerDue := d.Ours && d.Job.First && lane.Await != job.AwaitCompletion && d.stopping
	wait := 50 * time.Millisecond
	if d.Spec.Transport == verbs.RC {
		wait = time.Second
	}
	for end := job.Now() + d.PerNs.Ticks(wait); job.Now() < end; {
		answered := !answerDue || lane.Await == job.AwaitReceive && p.Received >= p.Posted ||
			lane.Await == job.AwaitLastByte && *lane.FlagIn == byte(p.Posted)
		// only every Signal-th message has a completion
		if answered && p.Completed >= p.Posted-p.Posted%uint64(lane.Signal) {
			return nil
		}
		late, err := d.Runner.Run(job.Now() + d.PerNs.Ticks(leftoverSlice))
		if err != nil {
			return err
		}
		p.Received, p.Completed, d.p.Received = late.Received, late.Completed, late.Received
	}
	return nil
}
