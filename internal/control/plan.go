package control

import (
	"time"

	"github.com/gobw/gobw/verbs"
)

// Operation is what a test does; the spelling is the command's name.
type Operation string

// Operations.
const (
	Write  Operation = "write"
	Read   Operation = "read"
	Send   Operation = "send"
	Atomic Operation = "atomic"
)

// Kind is what a test measures.
type Kind string

// Kinds.
const (
	Bandwidth Kind = "bandwidth"
	Latency   Kind = "latency"
)

// Plan is one test, complete: both ends compile their jobs from it and from nothing else. The client sends it in our
// dialect; in perftest's each end has its own and they must agree. Zero fields mean what the comment says.
type Plan struct {
	Operation Operation       `json:"operation"`
	Kind      Kind            `json:"kind"`
	Transport verbs.Transport `json:"transport"`

	Sizes         []int         `json:"sizes"`                   // bytes per message, in the order to run
	AllSizes      bool          `json:"all_sizes,omitempty"`     // -a: buffers are laid out for the largest size
	Iterations    uint64        `json:"iterations,omitempty"`    // per queue pair and size; 0: by Duration
	Duration      time.Duration `json:"duration_ns,omitempty"`   // measured time, margins included
	Margin        time.Duration `json:"margin_ns,omitempty"`     // unmeasured lead-in and tail of a duration test
	Warmup        uint64        `json:"warmup,omitempty"`        // messages before each measured size; 0: none
	WarmupSteady  bool          `json:"warmup_steady,omitempty"` // ours: warm up until the rate is steady
	Runs          int           `json:"runs,omitempty"`          // repetitions of each size; 0: 1
	QPs           int           `json:"qps,omitempty"`           // 0: 1
	Bidirectional bool          `json:"bidirectional,omitempty"` // -b
	Reversed      bool          `json:"reversed,omitempty"`      // the target initiates
	Infinite      bool          `json:"infinite,omitempty"`      // perftest's --run_infinitely: a record each Duration, until stopped
	WriteImm      bool          `json:"write_imm,omitempty"`     // WRITE with immediate
	SendImm       bool          `json:"send_imm,omitempty"`      // SEND with immediate
	AtomicType    verbs.Opcode  `json:"atomic_type,omitempty"`   // OpFetchAdd or OpCompareSwap

	TxDepth        int           `json:"tx_depth,omitempty"`  // window, messages per QP
	RxDepth        int           `json:"rx_depth,omitempty"`  // receives per QP
	CQMod          int           `json:"cq_mod,omitempty"`    // signal every n-th
	PostList       int           `json:"post_list,omitempty"` // messages per post
	RecvList       int           `json:"recv_post_list,omitempty"`
	InlineBytes    int           `json:"inline,omitempty"`      // -1: as perftest chooses
	Outstanding    int           `json:"outstanding,omitempty"` // READs and atomics; 0: as many as both devices have
	MTU            verbs.MTU     `json:"mtu,omitempty"`         // 0: the smaller active MTU
	SRQ            bool          `json:"srq,omitempty"`
	Events         bool          `json:"events,omitempty"` // -e: sleep on completion events
	MRPerQP        bool          `json:"mr_per_qp,omitempty"`
	Vector         int           `json:"vector,omitempty"`          // completion vector of this end's queues
	StrictOrdering bool          `json:"strict_ordering,omitempty"` // register without relaxed ordering
	Verify         string        `json:"verify,omitempty"`          // "", "ends" (first and last message), "all"
	RateBits       float64       `json:"rate_bits_per_s,omitempty"` // pace; 0: none
	Gap            time.Duration `json:"gap_ns,omitempty"`          // latency: pause before each message
	NoPeak         bool          `json:"no_peak,omitempty"`
	CPU            bool          `json:"cpu,omitempty"` // account CPU ticks

	Port         int    `json:"port,omitempty"` // device port of this end, not carried to the peer's choice
	SL           uint8  `json:"sl,omitempty"`
	TrafficClass uint8  `json:"tclass,omitempty"`
	FlowLabel    uint32 `json:"flow_label,omitempty"`
	HopLimit     uint8  `json:"hop_limit,omitempty"`
	PKeyIndex    int    `json:"pkey_index,omitempty"`
	Timeout      uint8  `json:"qp_timeout,omitempty"`  // code; 0: 14
	Retries      uint8  `json:"retries,omitempty"`     // 0: 7
	RNRRetries   uint8  `json:"rnr_retries,omitempty"` // 0: 7, for ever
	QKey         uint32 `json:"qkey,omitempty"`        // 0: 0x11111111
	HugePages    bool   `json:"huge_pages,omitempty"`
	RDMACM       bool   `json:"rdma_cm,omitempty"` // the queue pairs are connected by RDMA CM
	TOS          *uint8 `json:"tos,omitempty"`     // type of service of the path that RDMA CM finds; nil: none

	// Noncontig, where set, makes this one point of the non-contiguous experiment (see internal/bench).
	Noncontig *Noncontig `json:"noncontig,omitempty"`
}

// Noncontig is one point of the non-contiguous experiment: a layout, a shape, a strategy.
type Noncontig struct {
	Shape     string `json:"shape"`    // "gather", "scatter", "both"
	Strategy  string `json:"strategy"` // "gather-write", "pack", "pack-pipelined", "multi-wr", "contiguous", ...
	Layout    string `json:"layout"`   // in the grammar of package pattern
	Window    int    `json:"window"`   // messages in flight
	Cold      bool   `json:"cold,omitempty"`
	Footprint int    `json:"footprint,omitempty"`  // bytes walked; 0: one layout (hot) or beyond the last-level cache (cold)
	Segment   int    `json:"segment,omitempty"`    // bytes per segment of a pipelined pack
	ListBytes int    `json:"list_bytes,omitempty"` // payload at which chains of lists are cut; 0: as few requests as possible
}
