package rc

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
	ring                       []Work
	mask, depth                uint32
	released, Done, next, Tail uint32
	flushTo                    uint32 // requests before it end with FlushError, as soon as there is room
}

func (s *sendQueue) At(i uint32) *Work { return &s.ring[i&s.mask] }

// Len is how many requests are posted and not polled.
func (s *sendQueue) Len() uint32 { return s.Tail - s.released }

func (s *sendQueue) Full() bool { return s.Len() >= s.depth }

// Flush has everything posted end with FlushError.
func (s *sendQueue) Flush() { s.flushTo = s.Tail }

// Release gives back the slots before an index: their completions were polled.
func (s *sendQueue) Release(to uint32) { s.released = to }

// Pop takes the oldest request off, and returns up to where slots are free once its completion was polled.
func (s *sendQueue) Pop() uint32 {
	s.Done++
	if int32(s.next-s.Done) < 0 {
		s.next = s.Done
	}
	return s.Done
}

// RingSize is the power of two that holds n.
func RingSize(n int) uint32 {
	size := uint32(1)
	for int(size) < n {
		size *= 2
	}
	return size
}

// Work is a posted send work request.
type Work struct {
	ID         uint64
	Remote     uint64
	CompareAdd uint64
	Swap       uint64
	Length     uint32
	PSN        uint32 // of its first packet
	packets    uint32 // PSNs it takes: 0 for local operations
	awaited    uint32 // READ: bytes asked for that have not arrived
	RKey       uint32
	Immediate  uint32 // or the key to invalidate
	Opcode     verbs.Opcode
	Flags      verbs.SendFlags
	Lazy       bool // nobody waits for its completion alone: see wantsAck
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

// Operation is what packet k of the request is.
func (w *Work) Operation(k uint32) wire.Operation {
	place := 0
	if w.packets > 1 && !w.IsResponded() {
		switch k {
		case 0:
			place = 1
		case w.packets - 1:
			place = 3
		default:
			place = 2
		}
	}
	return operations[w.Opcode][place]
}

// IsLocal tells whether nothing of the request is sent.
func (w *Work) IsLocal() bool {
	return w.Opcode == verbs.OpLocalInvalidate || w.Opcode == verbs.OpBindMW
}

// IsResponded tells whether the request is answered with data rather than an ACK.
func (w *Work) IsResponded() bool {
	return w.Opcode == verbs.OpRead || w.Opcode == verbs.OpCompareSwap || w.Opcode == verbs.OpFetchAdd
}

// end is the PSN behind the request.
func (w *Work) end() uint32 { return (w.PSN + w.packets) & wire.Mask24 }
