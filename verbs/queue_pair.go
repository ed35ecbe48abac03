package verbs

import (
	"io"
	"time"
)

// Transport is a queue pair's service type; the numbers are those of ibv_qp_type.
type Transport uint8

// Transports (IBTA 9.2, table 38).
const (
	RC Transport = 2 // reliable connected: acknowledged, retried, up to 2 GiB a message
	UC Transport = 3 // unreliable connected: up to 2 GiB, a lost packet loses the message
	UD Transport = 4 // unreliable datagram: one packet, any peer, an address handle per destination
)

func transports() []string { return []string{"", "", "RC", "UC", "UD"} }

func (t Transport) String() string { return enumString(t, transports(), "Transport") }

// MarshalText spells the transport as String does.
func (t Transport) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads RC, UC or UD, in any case.
func (t *Transport) UnmarshalText(b []byte) error { return parseEnum(t, b, transports(), "transport") }

// QueuePairOptions describes a queue pair. Zero fields take the default shown.
type QueuePairOptions struct {
	Transport   Transport          // RC
	SendCQ      CompletionQueue    // required
	RecvCQ      CompletionQueue    // SendCQ
	SRQ         SharedReceiveQueue // nil: receives of its own
	SendDepth   int                // 128 work requests
	RecvDepth   int                // 128 work requests; 0 with an SRQ
	SendSGEs    int                // 1 entry a request
	RecvSGEs    int                // 1 entry a request
	InlineBytes int                // 0: nothing inline. The device may grant more, never less
	SignalAll   bool               // every request completes (sq_sig_all)
	NoRecvQueue bool               // RecvDepth 0 means 0
}

// QueuePairCapabilities is what the device granted.
type QueuePairCapabilities struct {
	SendDepth, RecvDepth, SendSGEs, RecvSGEs, InlineBytes int
}

// QueuePair is a send queue and a receive queue. Posting on one queue pair belongs to one goroutine at a time.
type QueuePair interface {
	io.Closer
	QPN() uint32 // 24 bits
	Transport() Transport
	Capabilities() QueuePairCapabilities
	// State is the queue pair's state now; errors move it without being asked.
	State() QPState
	// Modify moves the queue pair and sets the attributes named in a.Mask. A refused transition says which attributes
	// are missing or not allowed there. A move to RESET takes the queue pair's completions out of its queues, as Close
	// does; Soft-RoCE leaves them there.
	Modify(a QueuePairAttributes) error
	// Query returns the attributes in force.
	Query() (QueuePairAttributes, error)
	// PostSend queues requests in order, as one list (one doorbell). On error a [*PostError] says how many got through.
	PostSend(r []SendRequest) error
	// PostReceive queues receives in order.
	PostReceive(r []ReceiveRequest) error
	// AttachMulticast has the messages to a multicast group delivered to this UD queue pair as well: every queue
	// pair attached to a group gets a copy of each (IBTA 10.5.2), its sender included. lid is the group's on
	// InfiniBand, where the subnet manager gives it; 0 on Ethernet. Attaching twice is attaching once. A queue
	// pair that is attached cannot be closed.
	AttachMulticast(group GID, lid uint16) error
	// DetachMulticast takes the queue pair out of a group.
	DetachMulticast(group GID, lid uint16) error
	// Device and PD are the queue pair's parents.
	Device() Device
}

// MulticastQPN is the queue pair number of every multicast group: senders name the
// group by its GID alone (IBTA 10.5.2).
const MulticastQPN = 0xffffff

// SharedReceiveQueueOptions describes a shared receive queue. Zero fields take the default shown.
type SharedReceiveQueueOptions struct {
	Depth int // 128 receives
	SGEs  int // 1 entry a receive
}

// SharedReceiveQueue hands receives to whichever of its queue pairs needs one.
type SharedReceiveQueue interface {
	io.Closer
	PostReceive(r []ReceiveRequest) error
	// SetLimit arms one SRQ_LIMIT_REACHED event for when fewer than limit receives are left.
	SetLimit(limit int) error
}

// QPState is a queue pair's state; the numbers are those of ibv_qp_state (IBTA 10.3.1).
type QPState uint8

// Queue pair states.
const (
	StateReset QPState = 0
	StateInit  QPState = 1 // receives may be posted
	StateRTR   QPState = 2 // ready to receive
	StateRTS   QPState = 3 // ready to send
	StateSQD   QPState = 4 // send queue drained
	StateSQE   QPState = 5 // send queue error (UC, UD)
	StateError QPState = 6 // everything flushes
)

func (s QPState) String() string {
	return enumString(s, []string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}, "QPState")
}

// AttributeMask names attributes of a queue pair; the bits are those of ibv_qp_attr_mask.
type AttributeMask uint32

// Attribute mask bits.
const (
	AttrState           AttributeMask = 1 << 0
	AttrCurrentState    AttributeMask = 1 << 1
	AttrSQDAsyncNotify  AttributeMask = 1 << 2
	AttrAccess          AttributeMask = 1 << 3
	AttrPKeyIndex       AttributeMask = 1 << 4
	AttrPort            AttributeMask = 1 << 5
	AttrQKey            AttributeMask = 1 << 6
	AttrAddressVector   AttributeMask = 1 << 7
	AttrPathMTU         AttributeMask = 1 << 8
	AttrTimeout         AttributeMask = 1 << 9
	AttrRetryCount      AttributeMask = 1 << 10
	AttrRNRRetry        AttributeMask = 1 << 11
	AttrRecvPSN         AttributeMask = 1 << 12
	AttrMaxRDAtomic     AttributeMask = 1 << 13
	AttrMinRNRTimer     AttributeMask = 1 << 15
	AttrSendPSN         AttributeMask = 1 << 16
	AttrMaxDestRDAtomic AttributeMask = 1 << 17
	AttrCapabilities    AttributeMask = 1 << 19
	AttrDestQPN         AttributeMask = 1 << 20
)

var attributeNames = []string{
	"STATE", "CUR_STATE", "EN_SQD_ASYNC_NOTIFY", "ACCESS_FLAGS", "PKEY_INDEX", "PORT", "QKEY", "AV", "PATH_MTU", "TIMEOUT",
	"RETRY_CNT", "RNR_RETRY", "RQ_PSN", "MAX_QP_RD_ATOMIC", "", "MIN_RNR_TIMER", "SQ_PSN", "MAX_DEST_RD_ATOMIC",
	"", "CAP", "DEST_QPN",
}

func (m AttributeMask) String() string { return flagString(uint32(m), attributeNames) }

// QueuePairAttributes are a queue pair's attributes (struct ibv_qp_attr in Go words); Mask says which are meant.
type QueuePairAttributes struct {
	Mask            AttributeMask
	State           QPState
	CurrentState    QPState
	Access          Access // remote operations the queue pair lets in
	PKeyIndex       int
	Port            int // counted from 1
	QKey            uint32
	AddressVector   AddressVector
	PathMTU         MTU
	Timeout         uint8 // 4.096 µs × 2^n; 0: no timer
	RetryCount      uint8 // 0…7
	RNRRetry        uint8 // 0…7; 7: for ever
	RecvPSN         uint32
	SendPSN         uint32
	MaxRDAtomic     uint8 // READs and atomics we keep outstanding
	MaxDestRDAtomic uint8 // READs and atomics we serve at once
	MinRNRTimer     uint8 // code of IBTA table 46; 12 is 0.64 ms
	DestQPN         uint32
	SQDAsyncNotify  bool
	// PeerWindow is, at the move to RTR, the peer's [Limits].ReceiveWindow, by which devices of a kind know each
	// other; 0: not known. It has no bit in Mask.
	PeerWindow int
}

// AckTimeout is the time that an attribute's timeout code stands for, 0 for "never".
func AckTimeout(code uint8) time.Duration {
	if code == 0 {
		return 0
	}
	return 4096 * time.Nanosecond << (code & 31)
}

// ConnectOptions is all that a queue pair needs to go from RESET to RTS (or RTR). Fields mean what they say: begin with
// [DefaultConnect].
type ConnectOptions struct {
	Port            int // counted from 1; 0 means 1
	PKeyIndex       int
	Access          Access // remote operations let in
	QKey            uint32 // UD
	PathMTU         MTU    // 0: the port's active MTU; the smaller of both ends' is right
	AddressVector   AddressVector
	DestQPN         uint32
	SendPSN         uint32
	RecvPSN         uint32
	MaxRDAtomic     uint8 // READs and atomics in flight; 0: none
	MaxDestRDAtomic uint8 // the same of the peer's; 0: none
	MinRNRTimer     uint8 // code of IBTA table 46: 12 is 0.64 ms, 0 is 655 ms
	Timeout         uint8 // 4.096 µs × 2^n: 14 is 67 ms. At 0 there is no timer
	RetryCount      uint8 // 0 to 7
	RNRRetry        uint8 // 0 to 6; 7: for ever
	PeerWindow      int   // the peer's [Limits].ReceiveWindow; 0: not known
	StayRTR         bool  // do not go on to RTS (perftest's one-sided server)
}

// DefaultConnect is what suits most: one READ or atomic in flight each way, 67 ms until a retry, seven retries, and
// patience with a peer that has no receive posted.
func DefaultConnect() ConnectOptions {
	return ConnectOptions{
		Port: 1, MaxRDAtomic: 1, MaxDestRDAtomic: 1, MinRNRTimer: 12, Timeout: 14, RetryCount: 7, RNRRetry: 7,
	}
}

// InitQP moves a queue pair from RESET to INIT, from where receives may be posted.
func InitQP(qp QueuePair, o ConnectOptions) error { return o.move(qp, StateReset, StateInit) }

// ConnectQP moves a queue pair from INIT to RTR and, unless o.StayRTR, to RTS.
func ConnectQP(qp QueuePair, o ConnectOptions) error {
	if o.PathMTU == 0 && qp.Transport() != UD {
		port, err := qp.Device().Port(max(o.Port, 1))
		if err != nil {
			return err
		}
		o.PathMTU = port.ActiveMTU
	}
	o.AddressVector.Port = max(o.Port, 1)
	if err := o.move(qp, StateInit, StateRTR); err != nil || o.StayRTR {
		return err
	}
	return o.move(qp, StateRTR, StateRTS)
}

// move sets the attributes that a queue pair needs to go from one state to another.
func (o *ConnectOptions) move(qp QueuePair, from, to QPState) error {
	required, _, _ := edge(qp.Transport(), from, to)
	return qp.Modify(QueuePairAttributes{
		Mask: AttrState | required, State: to, Access: o.Access, PKeyIndex: o.PKeyIndex, Port: max(o.Port, 1), QKey: o.QKey,
		AddressVector: o.AddressVector, PathMTU: o.PathMTU, Timeout: o.Timeout, RetryCount: o.RetryCount,
		RNRRetry: o.RNRRetry, RecvPSN: o.RecvPSN, SendPSN: o.SendPSN, MaxRDAtomic: o.MaxRDAtomic,
		MaxDestRDAtomic: o.MaxDestRDAtomic, MinRNRTimer: o.MinRNRTimer, DestQPN: o.DestQPN, PeerWindow: o.PeerWindow,
	})
}
