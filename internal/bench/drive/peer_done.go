package drive

import (
	"context"
	"runtime"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/verbs/job"
)

// sleepUntilDone waits for the peer's Done without taking the processor from it, but looks around now and then.
func (d *Driver) sleepUntilDone(watch context.Context) error {
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case err := <-d.synced:
			d.peerDone = true
			if err == nil {
				err = d.sleepUntilArrived(watch)
			}
			if err == nil {
				d.finishStopped()
			}
			d.Trace.Last = d.p
			return err
		case <-watch.Done():
			return context.Cause(watch)
		case <-look.C:
			if err := d.lookAround(watch, job.Now()); err != nil {
				return err
			}
		}
	}
}

// meet tells the peer that this end is done and waits for the same, beside the measurement.
func (d *Driver) meet(ctx context.Context) {
	d.synced = make(chan error, 1)
	go func() { d.synced <- d.Session.Sync(ctx, control.PhaseDone, d.Round.Size, d.Round.Last) }()
}

func (d *Driver) pollSync() error {
	if d.synced == nil || d.peerDone {
		return nil
	}
	select {
	case err := <-d.synced:
		d.peerDone = true
		return err
	default:
		return nil
	}
}

// awaitSync does not leave the goroutine of meet behind.
func (d *Driver) awaitSync(cancel context.CancelFunc) {
	if d.synced != nil && !d.peerDone {
		cancel()
		<-d.synced //nolint:errcheck // the round has its error already
	}
}

// stopMost bounds the wait for a thread that is told to stop: on a busy machine it may get no CPU for a second and more.
const stopMost = 10 * time.Second

// finishStopped ends a job that has no end of its own, on all of its threads.
func (d *Driver) finishStopped() {
	d.Job.Stop.Store(1)
	for end := job.Now() + d.ticks(stopMost); job.Now() < end; {
		p, err := d.Runner.Run(job.Now() + d.ticks(time.Millisecond))
		if err != nil {
			return
		}
		p.LastDone = d.p.LastDone
		if d.p = p; p.Done {
			return
		}
	}
}

// serveUntilDone waits for the peer's Done after this end's job has ended, making progress for the peer on the way.
func (d *Driver) serveUntilDone(ctx, watch context.Context) error {
	if d.synced == nil {
		d.meet(ctx)
	}
	shape := job.Serve
	if d.Job.KeepsReceives() {
		shape = job.Stream
	}
	if shape == job.Serve && (d.Devices.ServeThemselves() || !d.Spec.Bidirectional) {
		select {
		case err := <-d.synced:
			d.peerDone = true
			if err == nil && d.Spec.Bidirectional {
				err = d.sleepUntilArrived(watch)
			}
			return err
		case <-watch.Done():
			return context.Cause(watch)
		}
	}
	for {
		p, err := d.Runner.Run(job.Now() + d.ticks(time.Millisecond))
		if err != nil {
			return d.explain(ctx, watch, err)
		}
		now := job.Now()
		if p.Received > d.Trace.Last.Received {
			d.Trace.Last.Received, d.Trace.Last.BytesIn = p.Received, p.BytesIn
			d.p.Received, d.Trace.lastChange = p.Received, now
		}
		if watch.Err() != nil {
			return context.Cause(watch)
		}
		if err := d.pollSync(); err != nil {
			return err
		}
		if d.peerDone && d.allArrived(d.Runner, shape, now) {
			return nil
		}
		runtime.Gosched()
	}
}
