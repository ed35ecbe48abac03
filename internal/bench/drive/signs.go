package drive

import "github.com/gobw/gobw/verbs/job"

// signs looks for signs of life of a test in which no message completes: a signaled window of large messages can take
// longer than the limit on a slow path, and then packets move.
type signs struct {
	last             job.Ticks // the last sign
	packets          uint64    // counted halfway to the limit
	naks             uint64
	looked           bool
	packetExtensions int // how often packets have been a sign
}

// mostPacketExtensions bounds how long packets alone are a sign of life: counters tell of other traffic of the device, too.
const mostPacketExtensions = 10

// alive tells whether a message or a packet has moved within the limit. Packets that only ask for what the peer has not
// (a receive) are none.
func (s *signs) alive(now, lastChange, limit job.Ticks, counters func() map[string]uint64) bool {
	if lastChange > s.last {
		*s = signs{last: lastChange}
	}
	silent := now - s.last
	if silent <= limit/2 || s.looked && silent <= limit {
		return true
	}
	c := counters() // names of the kernel's rxe and of roce; other devices are fast
	packets, naks := c["sent_pkts"]+c["rcvd_pkts"], c["rnr_nak_retry_err"]+c["rcvd_rnr_err"]
	if !s.looked { // a look that comes late, because this process had no CPU, judges nobody
		s.packets, s.naks, s.looked = packets, naks, true
		s.last = max(s.last, now-limit/2-1)
		return true
	}
	if packets == s.packets || naks != s.naks || s.packetExtensions == mostPacketExtensions {
		return false
	}
	*s = signs{last: now, packetExtensions: s.packetExtensions + 1}
	return true
}
