package drive

import (
	"context"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/verbs/job"
)

// maySleep tells whether this end has nothing to do while the peer works: either the peer asks for nothing, or this
// end's devices serve the peer by themselves.
func (d *Driver) maySleep() bool {
	if d.ended {
		return !d.Job.KeepsReceives() && (d.Devices.ServeThemselves() || !d.Spec.Bidirectional)
	}
	return d.Limits.Passive && d.Job.Shape == job.Serve && d.Devices.ServeThemselves()
}

// sleep waits for the peer's Done without taking the processor from it, but returns now and then to look around.
func (d *Driver) sleep(watch context.Context) error {
	look := 100 * time.Millisecond
	if d.PeerDone { // and what it has sent is on its way
		look = lullUnreliable / 4
	}
	select {
	case err := <-d.synced:
		d.PeerDone = true
		return err
	case <-watch.Done():
		return context.Cause(watch)
	case <-time.After(look):
		return nil
	}
}

// meet tells the peer that this end is done and waits for the same, beside the measurement.
func (d *Driver) meet(ctx context.Context) {
	d.synced = make(chan error, 1)
	go func() { d.synced <- d.Session.Sync(ctx, control.PhaseDone, d.Round.Size, d.Round.Last) }()
}

// pollSync looks whether the peer is done.
func (d *Driver) pollSync() error {
	select {
	case err := <-d.synced:
		d.PeerDone = true
		return err
	default:
		return nil
	}
}

// awaitSync does not leave the goroutine of meet behind.
func (d *Driver) awaitSync(cancel context.CancelFunc) {
	if d.synced != nil && !d.PeerDone {
		cancel()
		<-d.synced //nolint:errcheck // the round has its error already
	}
}

// stopMost bounds the wait for a thread that is told to stop: on a busy machine it
// may get no CPU for a second and more.
const stopMost = 10 * time.Second

// finishStopped ends a job that has no end of its own, on all of its threads.
func (d *Driver) finishStopped() {
	d.Job.Stop.Store(1)
	for end := job.Now() + d.PerNs.Ticks(stopMost); job.Now() < end; {
		p, err := d.Runner.Run(job.Now() + d.PerNs.Ticks(time.Millisecond))
		if err != nil {
			return
		}
		p.LastDone = d.p.LastDone // the time of the stop is not measured
		if d.p = p; p.Done {
			return
		}
	}
}
