package drive

import (
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// takeLeftovers takes what a stopped ping-pong left on its way: the completion of its last message, and at the end that moves
// first the answer to it. Else the next round would take them for its own.
func (d *Driver) takeLeftovers() error {
	if d.Job.Shape != job.PingPong {
		return nil
	}
	p := &d.Trace.Last
	lane := &d.Job.Lanes[0]
	answer := d.Ours && d.Job.First && lane.Await != job.AwaitCompletion && d.stopping
	wait := 50 * time.Millisecond
	if d.Spec.Transport == verbs.RC {
		wait = time.Second
	}
	found := make([]verbs.Completion, 16)
	for end := job.Now() + d.ticks(wait); job.Now() < end; {
		answered := !answer || lane.Await == job.AwaitReceive && p.Received >= p.Posted ||
			lane.Await == job.AwaitLastByte && *lane.FlagIn == byte(p.Posted)
		if answered && p.Completed >= p.Posted-p.Posted%uint64(lane.Signal) {
			return nil
		}
		for _, cq := range d.Job.CQs {
			n, err := cq.Poll(found)
			if err != nil {
				return err
			}
			for i := range found[:n] {
				c := &found[i]
				switch {
				case c.Status != verbs.Success:
					return &verbs.CompletionError{Device: d.Devices.Name(), Completion: *c, Sent: p.Posted, Done: p.Completed}
				case c.Opcode.IsReceive():
					p.Received++
					d.p.Received++
					d.Endpoint.TakeReceive()
				default:
					p.Completed++
				}
			}
		}
	}
	return nil
}
