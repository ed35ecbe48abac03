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
	// lullStock is that of datagrams from a stock perftest, which does not say that it is done, and may begin late: it
	// measures its clock before each size.
	lullStock = 3 * time.Second
	// lullLooks is how often it looks meanwhile at least: an end that had no CPU finds much time gone and has seen nothing.
	lullLooks = 3
	// lullMost bounds the wait, lullMostStock that for a stock perftest: packets are counted for the device, which may have
	// other traffic.
	lullMost      = time.Second
	lullMostStock = time.Minute
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
	counted := reliable || !d.ours // a stock perftest sends as many as it was told to, and begins the next size when told so
	if reliable && shape == job.Serve || counted && d.limit.expected > 0 && d.p.Received >= d.limit.expected {
		return true
	}
	packets, most := uint64(0), d.ticks(lullMost)
	if !d.ours {
		most = d.ticks(lullMostStock)
	}
	if !reliable { // a WRITE is seen in the device's counters alone
		packets = d.deviceCounters()["rcvd_pkts"]
	}
	return d.lull.lasts(now, d.t.lastChange, d.limit.quietAfterDone, most, packets)
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
