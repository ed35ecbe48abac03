package drive

import (
	"fmt"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// Lulls: an end whose peer is done believes that all has arrived when nothing has come for so long.
const (
	// lullReliable and lullUnreliable are the lulls of the two kinds of transport: unacknowledged packets may still lie in
	// a socket, or be on their way.
	lullReliable   = 2 * time.Millisecond
	lullUnreliable = 20 * time.Millisecond
	// lullStock is that of datagrams from a stock perftest, which does not say that it is done, and may begin late: it
	// measures its clock before each size.
	lullStock = 3 * time.Second
	// lullLooks is how often this end looks during a lull at least: after a stall of this process, elapsed time alone
	// proves nothing.
	lullLooks = 3
	// lullMost bounds the wait for a lull, lullMostStock that with a stock perftest: the device counts packets of other
	// traffic, too.
	lullMost      = time.Second
	lullMostStock = time.Minute
)

// stillness is the time since a message or a packet has moved.
type stillness struct {
	begun   job.Ticks // when the first look was
	since   job.Ticks // when a look last found that something had moved
	looks   int       // how many followed that look
	packets uint64    // the device's count at that look
	naks    uint64    // the device's count at that look
}

// lasts tells whether nothing has moved for the time limit. It also ends a wait in which something always moves: when
// the time most has passed since the first look. lastChange is when the last message moved. packets counts the device's
// packets. naks counts retransmissions that were answered by receiver-not-ready NAKs: they are no progress. looked:
// every thread of this end has looked again.
func (s *stillness) lasts(now, lastChange, limit, most job.Ticks, packets, naks uint64, looked bool) bool {
	if s.begun == 0 {
		s.begun = now
	}
	if lastChange > s.since { // a message has come since, and more may follow it: wait ten times as long
		most *= 10
	}
	// the first look, a new message, or packets without a NAK
	if s.since == 0 || lastChange > s.since || packets != s.packets && naks == s.naks {
		s.since, s.looks, s.packets, s.naks = now, 0, packets, naks
		return now-s.begun > most
	}
	if looked {
		s.looks++
	}
	return s.looks >= lullLooks && now-s.since > limit
}

// mostExtensions bounds how long packets without a message keep a test alive, in stall limits: the device counts
// packets of other traffic, too.
const mostExtensions = 10

// stalled tells whether no message has moved for the limit, and no packet in its second half: a signaled window of
// large messages can take longer on a slow path, and then packets move.
func (d *Driver) stalled(now, limit job.Ticks) bool {
	if now-d.Trace.lastChange <= limit/2 {
		d.stall = stillness{}
		return false
	}
	// Only the kernel's rxe and roce have counters of these names. Other devices need none: they are fast.
	c := d.Devices.Counters()
	packets, naks := c["sent_pkts"]+c["rcvd_pkts"], c["rnr_nak_retry_err"]+c["rcvd_rnr_err"]
	return d.stall.lasts(now, d.Trace.lastChange, limit/2, mostExtensions*limit, packets, naks, true)
}

// stalledSince is a test in which nothing moves although both ends live.
func (d *Driver) stalledSince(last, now job.Ticks) error {
	fix := "the two ends may run different tests (size, operation, iterations, who sends): give both the same flags; " +
		"or UDP port 4791 is blocked: run 'gobw doctor HOST'"
	if d.Spec.Transport != verbs.RC {
		fix = "a lost datagram ends a ping-pong, and receivers that are too slow lose many: use -c RC, or more receives (-r)"
	}
	waited := d.PerNs.Duration(now - last).Round(time.Second / 10)
	return &verbs.Error{
		Verb: "measure", Err: fmt.Errorf("nothing moved for %v: %d messages posted, %d complete, %d received", waited,
			d.p.Posted, d.p.Completed, d.p.Received),
		Fix: fix,
	}
}

// expected is how many messages will arrive in all; 0: nobody knows.
func (d *Driver) expected() uint64 { return d.Limits.Count * d.Plan.ReceivesPerMessage() }

// allArrived tells, once the peer is done, whether all that it sent is here. An acknowledged message has arrived when
// its sender is done. Whether others still come nobody knows: a lull decides.
func (d *Driver) allArrived(now job.Ticks) bool {
	// serves: this end receives nothing more itself. Its device may still have to serve the peer.
	reliable, serves := d.Spec.Transport == verbs.RC, d.Job.Shape == job.Serve || d.ended && !d.Job.KeepsReceives()
	nothingDue := serves && (reliable || d.ended && !d.Spec.Bidirectional)
	// a stock perftest sends as many as it was told to, and begins the next size when told so
	counted := reliable || !d.Ours
	if nothingDue || counted && d.expected() > 0 && d.p.Received >= d.expected() {
		return true
	}
	packets, most, quiet := uint64(0), lullMost, lullReliable
	if !d.Ours {
		most = lullMostStock
	}
	switch {
	case !reliable: // a WRITE is seen in the device's counters alone
		packets, quiet = d.Devices.Counters()["rcvd_pkts"], lullUnreliable
		if !d.Ours && d.Plan.Receives() {
			quiet = lullStock
		}
	case d.expected() > 0 && d.Plan.Receives(): // the missing messages will come: an end may have no CPU for long
		quiet, most = lullMost, 10*lullMost
	}
	t, several := d.Runner.(*job.Threads) // of several threads that work, each must have looked
	return d.lull.lasts(now, d.Trace.lastChange, d.PerNs.Ticks(quiet), d.PerNs.Ticks(most), packets,
		0, !several || d.maySleep() || t.Looked())
}
