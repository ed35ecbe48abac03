package roce

import (
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
)

// sendQueue is a ring of work requests. Indexes count up; slots are index & mask.
//
//	released … done … next … tail
//	  polled    │      │      └ posted
//	            │      └ being sent
//	            └ oldest that is not complete
type sendQueue struct {
	ring                       []sendWork
	sges                       []verbs.SGE
	inline                     []byte
	mask, depth                uint32
	maxSGE, inlineBytes        uint32
	released, done, next, tail uint32
	flushTo                    uint32 // requests before it end with FlushError, as soon as there is room
}

func (s *sendQueue) at(i uint32) *sendWork { return &s.ring[i&s.mask] }

// list is the scatter/gather list of request i.
func (s *sendQueue) list(i uint32, n uint8) []verbs.SGE {
	o := (i & s.mask) * s.maxSGE
	return s.sges[o : o+uint32(n)]
}

func (s *sendQueue) inlined(i uint32) []byte {
	o := (i & s.mask) * s.inlineBytes
	return s.inline[o : o+s.inlineBytes]
}

// sendWork is a posted send work request.
type sendWork struct {
	id         uint64
	remote     uint64
	compareAdd uint64
	swap       uint64
	length     uint32
	psn        uint32 // of its first packet
	packets    uint32 // PSNs it takes: 0 for local operations
	awaited    uint32 // READ: bytes asked for that have not arrived
	rkey       uint32
	immediate  uint32 // or the key to invalidate
	opcode     verbs.Opcode
	flags      verbs.SendFlags
	sges       uint8
	lazy       bool // nobody waits for its completion alone: see wantsAck
	started    bool
	finished   bool         // local operations, UC and UD, which nobody acknowledges
	failure    verbs.Status // why it cannot go on; it fails when everything before it is complete
	remoteQPN  uint32
	remoteQKey uint32
	ah         *addressHandle
	bound      *boundWindow
}

// boundWindow is a BIND_MW work request.
type boundWindow struct {
	window       *memoryWindow
	region       *memoryRegion
	rkey         uint32
	addr, length uint64
	access       verbs.Access
}

// isResponded tells whether the request is answered with data rather than an ACK.
func (w *sendWork) isResponded() bool {
	return w.opcode == verbs.OpRead || w.opcode == verbs.OpCompareSwap || w.opcode == verbs.OpFetchAdd
}

// end is the PSN behind the request.
func (w *sendWork) end() uint32 { return (w.psn + w.packets) & wire.Mask24 }
