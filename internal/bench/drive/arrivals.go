package drive

import (
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// For how long nothing may arrive.
const (
	// LullReliable and LullUnreliable are for how long nothing may arrive before an end whose peer is done believes that
	// nothing more will: unacknowledged packets may still lie in a socket, or be on their way.
	LullReliable   = 2 * time.Millisecond
	LullUnreliable = 20 * time.Millisecond
	// LullStock is that of datagrams from a stock perftest, which does not say that it is done, and may begin late: it
	// measures its clock before each size.
	LullStock = 3 * time.Second
	// lullLooks is how often it looks meanwhile at least: after a stall of this process, elapsed time alone proves nothing.
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
// device has received, looked whether every thread of this end has looked again.
func (l *lull) lasts(now, lastChange, limit, most job.Ticks, packets uint64, looked bool) bool {
	if l.begun == 0 {
		l.begun = now
	}
	if lastChange > l.since { // a message was found, and more may lie behind it
		most *= 10
	}
	if l.since == 0 || lastChange > l.since || packets != l.packets {
		l.since, l.looks, l.packets = now, 0, packets
		return now-l.begun > most
	}
	if looked {
		l.looks++
	}
	return l.looks >= lullLooks && now-l.since > limit
}

// allArrived tells whether all that the peer has sent is here, the peer being done. What is acknowledged has arrived when
// its sender is done; of the rest nobody knows, and it is over when nothing has come for a while.
func (d *Driver) allArrived(now job.Ticks) bool {
	reliable, serves := d.Spec.Transport == verbs.RC, d.Job.Shape == job.Serve || d.ended && !d.Job.KeepsReceives()
	counted := reliable || !d.Ours // a stock perftest sends as many as it was told to, and begins the next size when told so
	switch {
	case serves && (reliable || d.ended && !d.Spec.Bidirectional), counted && d.Limits.Expected > 0 && d.p.Received >= d.Limits.Expected:
		return true
	}
	packets, most, quiet := uint64(0), d.ticks(lullMost), d.Limits.QuietAfterDone
	if !d.Ours {
		most = d.ticks(lullMostStock)
	}
	if reliable && d.Limits.Expected > 0 && d.Plan.Receives() { // the others are on their way: an end may have no CPU for long
		quiet, most = d.ticks(lullMost), 10*d.ticks(lullMost)
	}
	if !reliable { // a WRITE is seen in the device's counters alone
		packets = d.Devices.Counters()["rcvd_pkts"]
	}
	t, several := d.Runner.(*job.Threads)
	return d.lull.lasts(now, d.Trace.lastChange, quiet, most, packets, !several || d.asleep() || t.Looked())
}
