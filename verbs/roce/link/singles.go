package link

import "github.com/gobw/gobw/verbs/roce/wire"

// singles counts packets that arrive one by one, as in a ping-pong. Above singlesEnough they are received by a quicker
// call, without the control data in which the kernel says whether it joined several, and segmentOf finds that out.
type singles int

const (
	singlesEnough = 32
	mostSingles   = 64
	singlesLost   = 2 // by packets that were joined
)

func (c singles) prevails() bool { return c >= singlesEnough }

// notice learns from what was received.
func (c *singles) notice(joined bool) {
	switch {
	case joined:
		*c = max(*c-singlesLost, 0)
	case *c < mostSingles:
		*c++
	}
}

// segmentTries is how many lengths segmentOf tries: payload may look like the front of a packet, and a
// stranger may send nothing but such bytes.
const segmentTries = 8

// segmentOf finds the length of the first packet in b, one or several that the kernel joined, by its
// ICRC, which is right for the IP ID 0: the length of all but the last. Where none fits, as with
// peers that number their packets, it is 0.
func (x *Source) segmentOf(b []byte) int {
	if x.flow.Check(b, 0) {
		return len(b)
	}
	tries := segmentTries
	// padding makes every length a multiple of 4
	for n := wire.MinPacketBytes; n+wire.MinPacketBytes <= len(b) && n <= wire.MaxPacketBytes; n += 4 {
		if !wire.MayBegin(b[n:]) {
			continue
		}
		if x.flow.Check(b[:n], 0) {
			return n
		}
		if tries--; tries == 0 {
			break
		}
	}
	return 0
}
