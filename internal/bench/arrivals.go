package bench

import (
	"context"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

const (
	// lullReliable and lullUnreliable are for how long nothing may arrive before an end whose peer is done believes that
	// nothing more will: unacknowledged packets may still lie in a socket, or be on their way.
	lullReliable   = 2 * time.Millisecond
	lullUnreliable = 20 * time.Millisecond
	// lullLooks is how often it looks meanwhile at least: an end that had no CPU finds much time gone and has seen nothing.
	lullLooks = 3
	// lullMost bounds the wait: packets are counted for the device, which may have other traffic.
	lullMost = time.Second
)

// lull is the time since something arrived.
type lull struct {
	begun   job.Ticks // the first look
	since   job.Ticks
	looks   int
	packets uint64
}

// lasts tells whether nothing has arrived for the limit. lastChange is when the last message did, packets counts what the
// device has received.
func (l *lull) lasts(now, lastChange, limit, most job.Ticks, packets uint64) bool {
	if l.begun == 0 {
		l.begun = now
	}
	if l.since == 0 || lastChange > l.since || packets != l.packets {
		l.since, l.looks, l.packets = now, 0, packets
		return now-l.begun > most
	}
	l.looks++
	return l.looks >= lullLooks && now-l.since > limit
}

// allArrived tells whether all that the peer has sent is here, the peer being done. What is acknowledged has arrived when
// its sender is done; of the rest nobody knows, and it is over when nothing has come for a while.
func (d *driver) allArrived(shape job.Shape, now job.Ticks) bool {
	reliable := d.spec.Transport == verbs.RC
	if reliable && (shape == job.Serve || d.limit.expected > 0 && d.p.Received >= d.limit.expected) {
		return true
	}
	packets := uint64(0)
	if !reliable { // a WRITE is seen in the device's counters alone
		packets = d.deviceCounters()["rcvd_pkts"]
	}
	return d.lull.lasts(now, d.t.lastChange, d.limit.quietAfterDone, d.ticks(lullMost), packets)
}

// sleepUntilArrived waits for what is still on its way at an end whose device needs nobody.
func (d *driver) sleepUntilArrived(watch context.Context) error {
	look := time.NewTicker(lullUnreliable / 4)
	defer look.Stop()
	for !d.allArrived(job.Serve, job.Now()) {
		select {
		case <-look.C:
		case <-watch.Done():
			return context.Cause(watch)
		}
	}
	return nil
}
