package verbs

import "fmt"

// SGE is one entry of a scatter/gather list: a piece of a registered memory region.
// Its layout is that of struct ibv_sge.
type SGE struct {
	Addr   uint64
	Length uint32 // bytes
	LKey   uint32
}

// Opcode is what a send work request asks for (ibv_wr_opcode).
type Opcode uint32

// Send work request opcodes.
const (
	OpWrite              Opcode = 0
	OpWriteWithImmediate Opcode = 1
	OpSend               Opcode = 2
	OpSendWithImmediate  Opcode = 3
	OpRead               Opcode = 4
	OpCompareSwap        Opcode = 5
	OpFetchAdd           Opcode = 6
	OpLocalInvalidate    Opcode = 7
	OpBindMW             Opcode = 8
	OpSendWithInvalidate Opcode = 9
)

func (o Opcode) String() string {
	return enumString(o, []string{
		"RDMA_WRITE", "RDMA_WRITE_WITH_IMM", "SEND", "SEND_WITH_IMM", "RDMA_READ", "ATOMIC_CMP_AND_SWP",
		"ATOMIC_FETCH_AND_ADD", "LOCAL_INV", "BIND_MW", "SEND_WITH_INV",
	}, "Opcode")
}

// Completed is the completion opcode of the request.
func (o Opcode) Completed() CompletionOpcode {
	switch o {
	case OpWrite, OpWriteWithImmediate:
		return CompletedWrite
	case OpRead:
		return CompletedRead
	case OpCompareSwap:
		return CompletedCompareSwap
	case OpFetchAdd:
		return CompletedFetchAdd
	case OpLocalInvalidate:
		return CompletedLocalInv
	case OpBindMW:
		return CompletedBindMW
	default:
		return CompletedSend
	}
}

// HasImmediate tells whether the opcode carries four bytes to the peer's completion.
func (o Opcode) HasImmediate() bool { return o == OpWriteWithImmediate || o == OpSendWithImmediate }

// NeedsReceive tells whether the opcode consumes a receive at the peer.
func (o Opcode) NeedsReceive() bool {
	return o == OpSend || o == OpSendWithImmediate || o == OpSendWithInvalidate || o == OpWriteWithImmediate
}

// Supports tells whether a transport has the operation (IBTA table 38; UD carries only SEND).
func (t Transport) Supports(o Opcode) bool {
	switch t {
	case RC:
		return true
	case UC:
		return o != OpRead && o != OpCompareSwap && o != OpFetchAdd && o != OpSendWithInvalidate
	case UD:
		return o == OpSend || o == OpSendWithImmediate
	default:
		return false
	}
}

// SendFlags qualify a send work request (ibv_send_flags).
type SendFlags uint32

// Send flags.
const (
	Fence     SendFlags = 1 << 0 // start after all earlier READs and atomics of this queue have finished; RC only
	Signaled  SendFlags = 1 << 1 // make a completion also on success, where the queue does not signal all
	Solicited SendFlags = 1 << 2 // wake a peer that armed for solicited events only
	Inline    SendFlags = 1 << 3 // copy the data while posting: no lkey, buffer free at once; SEND and WRITE only
)

func (f SendFlags) String() string {
	return flagString(uint32(f), []string{"FENCE", "SIGNALED", "SOLICITED", "INLINE"})
}

// SendRequest is one send work request (struct ibv_send_wr in Go words). The caller
// owns the slices; posting copies them.
type SendRequest struct {
	ID     uint64
	Opcode Opcode
	Flags  SendFlags
	SGEs   []SGE
	// Immediate is a number; the wire carries it big-endian, so both ends see the same number.
	Immediate uint32
	// InvalidateRKey is the key to invalidate: the peer's for SEND_WITH_INV, ours for LOCAL_INV.
	InvalidateRKey uint32
	// RemoteAddr and RKey are the peer's memory, for WRITE, READ and atomics.
	RemoteAddr uint64
	RKey       uint32
	// CompareAdd is compared (CMP_SWAP) or added (FETCH_ADD); Swap replaces on a match.
	CompareAdd, Swap uint64
	// UD destination.
	AH         AddressHandle
	RemoteQPN  uint32
	RemoteQKey uint32
	// Bind describes a BIND_MW.
	Bind *MemoryWindowBind
}

// MemoryWindowBind binds a type 2 window to [Addr, Addr+Length) of Region under a new key.
type MemoryWindowBind struct {
	Window MemoryWindow
	Region MemoryRegion
	RKey   uint32 // the window's key with a new low byte
	Addr   uint64
	Length uint64 // at least 1: LOCAL_INV takes the memory away
	Access Access
}

// Length is the number of bytes the list names.
func (r *SendRequest) Length() uint64 { return sgeLength(r.SGEs) }

// ReceiveRequest is one receive work request.
type ReceiveRequest struct {
	ID   uint64
	SGEs []SGE
}

// Length is the number of bytes the list names.
func (r *ReceiveRequest) Length() uint64 { return sgeLength(r.SGEs) }

func sgeLength(s []SGE) uint64 {
	var n uint64
	for i := range s {
		n += uint64(s[i].Length)
	}
	return n
}

// PostError says how far a list of work requests got: requests before Index are posted, that one and the rest are not.
type PostError struct {
	Index int
	Err   error
}

func (e *PostError) Error() string { return fmt.Sprintf("work request %d: %v", e.Index, e.Err) }

// Unwrap returns the cause.
func (e *PostError) Unwrap() error { return e.Err }
