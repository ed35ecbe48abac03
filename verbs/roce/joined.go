package roce

import "github.com/gobw/gobw/verbs/roce/wire"

// calm is how much speaks for packets arriving one by one, as in a ping-pong. While it prevails they are received by a
// quicker call, without the control data in which the kernel says whether it joined several, and segmentOf finds that out.
type calm int

const (
	calmEnough = 32
	calmest    = 64
	calmLost   = 2 // by packets that were joined
)

func (c calm) prevails() bool { return c >= calmEnough }

// notice learns from what was received.
func (c *calm) notice(joined bool) {
	switch {
	case joined:
		*c = max(*c-calmLost, 0)
	case *c < calmest:
		*c++
	}
}

// segmentOf finds the length of the first packet in b, one or several that the kernel joined, by its ICRC, which is right
// for the IP ID 0: the length of all but the last. Where none fits, as with peers that number their packets, it is 0.
func (p *path) segmentOf(b []byte, port uint16) int {
	flow := p.incoming(port)
	switch {
	case flow == nil:
		return 0
	case flow.Exact(b):
		return len(b)
	}
	for n := wire.MinPacketBytes; n+wire.MinPacketBytes <= len(b); n += 4 { // padding makes every length a multiple of 4
		if wire.MayBegin(b[n:]) && flow.Exact(b[:n]) {
			return n
		}
	}
	return 0
}
