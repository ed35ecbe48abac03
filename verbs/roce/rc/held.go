package rc

import "github.com/gobw/gobw/verbs/roce/wire"

// heldPackets keeps requests that arrived behind a gap, so that only what is missing must be sent again (as in Mittal
// et al., "Revisiting Network Support for RDMA", 2018). To the peer it looks as if they had arrived later.
type heldPackets struct {
	pool *Pool // nil: nothing is kept
	n    int
	ring []waitingPacket // by PSN
	last uint32          // the highest PSN kept
}

type waitingPacket struct {
	psn   uint32
	bytes []byte // nil: none
}

// heldPSNs is how far behind a gap packets are kept.
const heldPSNs = 512

// keep copies a packet that is ahead of the expected PSN by so many.
func (h *heldPackets) keep(psn, ahead uint32, b []byte) {
	if h.pool == nil || ahead >= heldPSNs {
		return
	}
	if h.ring == nil {
		h.ring = make([]waitingPacket, heldPSNs)
	}
	x := &h.ring[psn%heldPSNs]
	if x.bytes != nil { // the later one is kept: a stranger cannot keep the peer's own out
		h.drop(x)
	}
	if x.bytes = h.pool.copy(b); x.bytes == nil {
		return
	}
	x.psn = psn
	if h.n == 0 || wire.PSNDiff(psn, h.last) > 0 {
		h.last = psn
	}
	h.n++
}

// take removes the packet with a PSN; its bytes are valid until another is kept. Stale packets are dropped.
func (h *heldPackets) take(psn uint32) []byte {
	if h.n == 0 {
		return nil
	}
	if wire.PSNDiff(psn, h.last) > 0 {
		h.clear()
		return nil
	}
	x := &h.ring[psn%heldPSNs]
	if x.bytes == nil || x.psn != psn {
		return nil
	}
	return h.drop(x)
}

// drop gives a packet's memory back to the pool.
func (h *heldPackets) drop(x *waitingPacket) []byte {
	b := x.bytes
	x.bytes = nil
	h.n--
	h.pool.free = append(h.pool.free, b)
	return b
}

// clear forgets what is kept.
func (h *heldPackets) clear() {
	for i := range h.ring {
		if h.n == 0 {
			break
		}
		if h.ring[i].bytes != nil {
			h.drop(&h.ring[i])
		}
	}
}

// Pool is a device's memory for packets that must wait. It is bounded: where it is used up packets are dropped.
type Pool struct {
	free [][]byte
	made int
}

const (
	poolPackets = 2048
	poolBytes   = 4096 + 256 // the largest packet
)

// copy returns a copy of a packet; nil where there is no room.
func (p *Pool) copy(b []byte) []byte {
	if len(b) > poolBytes {
		return nil
	}
	var c []byte
	switch n := len(p.free); {
	case n > 0:
		c = p.free[n-1]
		p.free = p.free[:n-1]
	case p.made < poolPackets:
		p.made++
		c = make([]byte, poolBytes)
	default:
		return nil
	}
	return c[:copy(c[:poolBytes], b)]
}
