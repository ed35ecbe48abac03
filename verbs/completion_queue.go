package verbs

import (
	"context"
	"io"
)

// CompletionQueueOptions describes a completion queue. Zero fields take the default shown.
type CompletionQueueOptions struct {
	Depth   int               // entries; 128. The device may grant more
	Channel CompletionChannel // nil: polled only
	Vector  int               // completion vector
	// Timestamps has the device stamp each completion; a device without a clock ([DeviceInfo].Clock) refuses.
	Timestamps bool
}

// CompletionQueue collects completions. It belongs to one goroutine at a time.
type CompletionQueue interface {
	io.Closer
	// Depth is the number of entries granted.
	Depth() int
	// Poll moves up to len(c) completions into c and returns how many; 0 means "none now". It does not allocate.
	Poll(c []Completion) (int, error)
	// Arm asks for one event on the channel at the next completion, or at the next solicited one. Arm first, then poll
	// until empty, then wait: a completion that came before arming makes no event.
	Arm(n Notify) error
	// Resize makes room for so many entries, keeping those that wait to be polled. The device may grant more.
	Resize(depth int) error
}

// Notify says which completions make an event.
type Notify uint8

// What Arm waits for.
const (
	NotifyAny       Notify = iota // any completion
	NotifySolicited               // a receive whose sender set SOLICITED, or an error
)

// CompletionChannel delivers the events of armed completion queues. It belongs to one goroutine.
type CompletionChannel interface {
	io.Closer
	// Wait blocks until an armed queue has an event, and returns that queue; the context ends the wait.
	Wait(ctx context.Context) (CompletionQueue, error)
}

// GRHBytes is what a receive of UD holds before the payload: room for the global routing header (IBTA 11.4.1.2).
const GRHBytes = 40

// Completion is what became of a work request (struct ibv_wc in Go words). Where Status is not Success, only ID,
// Status, QPN and VendorError mean anything.
type Completion struct {
	ID              uint64
	Status          Status
	Opcode          CompletionOpcode
	VendorError     uint32
	Bytes           uint32 // received, UD: with GRHBytes
	Immediate       uint32 // with WithImmediate: host order, see [SendRequest].Immediate
	InvalidatedRKey uint32 // with WithInvalidate
	QPN             uint32 // ours
	SourceQPN       uint32 // UD: the sender's
	Flags           CompletionFlags
	Timestamp       uint64 // of a queue with Timestamps: when the device completed the request, by its [CompletionClock]
}

// CompletionClock is the clock by which a device stamps completions. The zero value is that of a device that does not.
type CompletionClock struct {
	Hz   float64 `json:"hz"`   // as the device states it
	Mask uint64  `json:"mask"` // the largest stamp, a power of two less one: after it comes 0
}

// IsZero tells a device that stamps no completions, or does not say in which unit.
func (c CompletionClock) IsZero() bool { return c.Hz == 0 || c.Mask == 0 }

// Between is the number of ticks from one stamp to a later one, which came before the clock had gone round once.
func (c CompletionClock) Between(from, to uint64) uint64 { return (to - from) & c.Mask }

// CompletionFlags qualifies a receive completion (ibv_wc_flags).
type CompletionFlags uint32

// Completion flags.
const (
	WithGRH        CompletionFlags = 1 << 0 // the receive buffer starts with a 40-byte GRH
	WithImmediate  CompletionFlags = 1 << 1
	WithInvalidate CompletionFlags = 1 << 3
)

// CompletionOpcode tells what kind of request completed (ibv_wc_opcode).
type CompletionOpcode uint32

// Completion opcodes.
const (
	CompletedSend                 CompletionOpcode = 0
	CompletedWrite                CompletionOpcode = 1
	CompletedRead                 CompletionOpcode = 2
	CompletedCompareSwap          CompletionOpcode = 3
	CompletedFetchAdd             CompletionOpcode = 4
	CompletedBindMW               CompletionOpcode = 5
	CompletedLocalInv             CompletionOpcode = 6
	CompletedReceive              CompletionOpcode = 128
	CompletedReceiveWithImmediate CompletionOpcode = 129 // RECV_RDMA_WITH_IMM: a WRITE with immediate arrived
)

func (o CompletionOpcode) String() string {
	if o.IsReceive() {
		return enumString(o-CompletedReceive, []string{"RECV", "RECV_RDMA_WITH_IMM"}, "CompletionOpcode 128+")
	}
	return enumString(o, []string{"SEND", "RDMA_WRITE", "RDMA_READ", "COMP_SWAP", "FETCH_ADD", "BIND_MW", "LOCAL_INV"},
		"CompletionOpcode")
}

// IsReceive tells a receive completion from a send completion.
func (o CompletionOpcode) IsReceive() bool { return o&CompletedReceive != 0 }
