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
	mask, depth                uint32
	released, done, next, tail uint32
	flushTo                    uint32 // requests before it end with FlushError, as soon as there is room
}

func newSendQueue(depth int) sendQueue {
	n := ringSize(depth)
	return sendQueue{ring: make([]sendWork, n), mask: n - 1, depth: uint32(depth)}
}

func (s *sendQueue) at(i uint32) *sendWork { return &s.ring[i&s.mask] }

func (s *sendQueue) full() bool { return s.tail-s.released >= s.depth }

// pop takes the oldest request off.
func (s *sendQueue) pop() {
	s.done++
	if int32(s.next-s.done) < 0 {
		s.next = s.done
	}
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
	lazy       bool // nobody waits for its completion alone: see wantsAck
	started    bool
	finished   bool         // local operations, UC and UD, which nobody acknowledges
	failure    verbs.Status // why it cannot go on; it fails when everything before it is complete
}

// operations are the packets of a request: only, first, middle, last. Local operations have none.
var operations = [...][4]wire.Operation{ //nolint:gochecknoglobals // a table: never written
	verbs.OpWrite:              {wire.WriteOnly, wire.WriteFirst, wire.WriteMiddle, wire.WriteLast},
	verbs.OpWriteWithImmediate: {wire.WriteOnlyImmediate, wire.WriteFirst, wire.WriteMiddle, wire.WriteLastImmediate},
	verbs.OpSend:               {wire.SendOnly, wire.SendFirst, wire.SendMiddle, wire.SendLast},
	verbs.OpSendWithImmediate:  {wire.SendOnlyImmediate, wire.SendFirst, wire.SendMiddle, wire.SendLastImmediate},
	verbs.OpSendWithInvalidate: {wire.SendOnlyInvalidate, wire.SendFirst, wire.SendMiddle, wire.SendLastInvalidate},
	verbs.OpRead:               {wire.ReadRequest},
	verbs.OpCompareSwap:        {wire.CompareSwap},
	verbs.OpFetchAdd:           {wire.FetchAdd},
	verbs.OpLocalInvalidate:    {},
	verbs.OpBindMW:             {},
}

// operation is what packet k of the request is.
func (w *sendWork) operation(k uint32) wire.Operation {
	place := 0
	if w.packets > 1 && !w.isResponded() {
		switch k {
		case 0:
			place = 1
		default:
			place = 2
		case w.packets - 1:
			place = 3
		}
	}
	return operations[w.opcode][place]
}

// isLocal tells whether nothing of the request is sent.
func (w *sendWork) isLocal() bool {
	return w.opcode == verbs.OpLocalInvalidate || w.opcode == verbs.OpBindMW
}

// isResponded tells whether the request is answered with data rather than an ACK.
func (w *sendWork) isResponded() bool {
	return w.opcode == verbs.OpRead || w.opcode == verbs.OpCompareSwap || w.opcode == verbs.OpFetchAdd
}

// end is the PSN behind the request.
func (w *sendWork) end() uint32 { return (w.psn + w.packets) & wire.Mask24 }
