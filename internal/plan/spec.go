package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/verbs"
)

// Kind is what a test measures.
type Kind string

// Kinds.
const (
	Bandwidth Kind = "bandwidth"
	Latency   Kind = "latency"
)

// Verify is which data of a test is compared.
type Verify string

// Verifications.
const (
	VerifyNothing Verify = ""
	VerifyEnds    Verify = "ends" // the first message and the last
	VerifyAll     Verify = "all"  // every message
)

// Clock is whose clock times a latency test.
type Clock string

// Clocks.
const (
	HostClock   Clock = ""       // read by the measuring thread
	DeviceClock Clock = "device" // stamped on completions
)

// Spec is all that can be said about a test, and the only thing of it that crosses the wire. Zero fields mean what the
// comment says, or that [Settle] chooses. The bounds of numbers, and the flags, are in the table of [Fields].
type Spec struct {
	Operation Operation       `json:"operation"`
	Kind      Kind            `json:"kind"`
	Transport verbs.Transport `json:"transport,omitempty"` // 0: RC

	// bytes per message, in the order to run; none: the operation's default
	Sizes    []int `json:"sizes"`
	AllSizes bool  `json:"all_sizes,omitempty"` // -a: buffers are laid out for the largest size
	// messages cycle through these, in place of Sizes; none: all are of one size
	Mix Mix `json:"mix,omitempty"`
	// per queue pair and size; 0: by Duration, or the default length
	Iterations   uint64        `json:"iterations,omitempty"`
	Duration     time.Duration `json:"duration_ns,omitempty"`   // measured time, margins included
	Margin       time.Duration `json:"margin_ns,omitempty"`     // unmeasured lead-in and tail of a duration test
	Warmup       uint64        `json:"warmup,omitempty"`        // messages before each measured size; 0: none
	WarmupSteady bool          `json:"warmup_steady,omitempty"` // ours: warm up until the rate is steady
	Runs         int           `json:"runs,omitempty"`          // repetitions of each size; 0: 1
	// of each end that posts or receives, which share its queue pairs; 0: one a rail
	Threads int `json:"threads,omitempty"`
	QPs     int `json:"qps,omitempty"` // 0: one a rail
	// devices of each end, to which its threads are dealt out; 0: 1
	Rails         int  `json:"rails,omitempty"`
	Bidirectional bool `json:"bidirectional,omitempty"`
	Reversed      bool `json:"reversed,omitempty"` // the target initiates
	// perftest's --run_infinitely: a record each Duration, until stopped
	Infinite   bool         `json:"infinite,omitempty"`
	WriteImm   bool         `json:"write_imm,omitempty"`   // WRITE with immediate
	SendImm    bool         `json:"send_imm,omitempty"`    // SEND with immediate
	AtomicType verbs.Opcode `json:"atomic_type,omitempty"` // OpFetchAdd or OpCompareSwap; 0: OpFetchAdd

	TxDepth     int       `json:"tx_depth,omitempty"`    // window, messages per QP; 0: 128, latency 1
	Outstanding int       `json:"outstanding,omitempty"` // READs and atomics; 0: as many as both devices have
	RxDepth     int       `json:"rx_depth,omitempty"`    // receives per QP; 0: 512
	PostList    int       `json:"post_list,omitempty"`
	CQMod       int       `json:"cq_mod,omitempty"`         // signal every n-th; 0: 100, and 1 above 8 KiB
	RecvList    int       `json:"recv_post_list,omitempty"` // receives per post; 0: 1
	InlineBytes int       `json:"inline,omitempty"`         // -1: as perftest chooses
	MTU         verbs.MTU `json:"mtu,omitempty"`            // 0: the smaller active MTU
	SRQ         bool      `json:"srq,omitempty"`
	// -g: who receives joins a multicast group, to which the other end sends
	Multicast      bool       `json:"multicast,omitempty"`
	MGID           *verbs.GID `json:"mgid,omitempty"` // the group; nil: one that is drawn
	Events         bool       `json:"events,omitempty"`
	MRPerQP        bool       `json:"mr_per_qp,omitempty"`
	Vector         int        `json:"vector,omitempty"`          // completion vector of this end's queues
	StrictOrdering bool       `json:"strict_ordering,omitempty"` // register without relaxed ordering
	// of the ends that send; 0: as perftest chooses for the device
	PostAPI  verbs.PostAPI `json:"post_api,omitempty"`
	Verify   Verify        `json:"verify,omitempty"`
	RateBits float64       `json:"rate_bits_per_s,omitempty"` // pace; 0: none
	// messages of a queue pair that follow each other at once under RateBits; 0: 1
	Burst      int           `json:"burst,omitempty"`
	Gap        time.Duration `json:"gap_ns,omitempty"`     // latency: pause before each message
	Timestamps Clock         `json:"timestamps,omitempty"` // latency: of the end that initiates
	NoPeak     bool          `json:"no_peak,omitempty"`
	CPU        bool          `json:"cpu,omitempty"`

	SL           uint8    `json:"sl,omitempty"`
	TrafficClass uint8    `json:"tclass,omitempty"`
	FlowLabels   []uint32 `json:"flow_labels,omitempty"` // queue pair q takes number q modulo their count; none: 0
	PKeyIndex    int      `json:"pkey_index,omitempty"`
	Timeout      uint8    `json:"qp_timeout,omitempty"` // code; 0: 14, a software device 16
	Retries      uint8    `json:"retries,omitempty"`    // 0: 7
	// 0: perftest's, 0x11111111; between two ends of ours the client draws one
	QKey      uint32 `json:"qkey,omitempty"`
	HugePages bool   `json:"huge_pages,omitempty"`
	// register memory whose pages the device has brought as it needs them
	OnDemand bool   `json:"on_demand,omitempty"`
	RDMACM   bool   `json:"rdma_cm,omitempty"` // the queue pairs are connected by RDMA CM
	TOS      *uint8 `json:"tos,omitempty"`     // type of service of the path that RDMA CM finds; nil: none

	// Noncontig, where set, makes this one point of the non-contiguous experiment.
	Noncontig *Noncontig `json:"noncontig,omitempty"`
}

// Noncontig is one point of the non-contiguous experiment: a layout, a shape, a strategy. A list of
// descriptors stands in the place of a layout.
type Noncontig struct {
	Shape string `json:"shape"` // "gather", "scatter", "both"; of a list "write", "read"
	// "gather-write", "pack", "pack-pipelined", "multi-wr", "contiguous", ...
	Strategy  string `json:"strategy"`
	Layout    string `json:"layout"`              // in the grammar of package pattern
	Window    int    `json:"window"`              // messages in flight
	Footprint int    `json:"footprint,omitempty"` // bytes walked; 0: as many layouts as may be in flight
	Segment   int    `json:"segment,omitempty"`   // bytes per segment of a pipelined pack; 0: 16 KiB
	// payload at which chains of lists are cut; 0: as few requests as possible
	ListBytes int `json:"list_bytes,omitempty"`
	MaxSGE    int `json:"max_sge,omitempty"` // entries of a list; 0: as many as the device has

	Descriptors *Descriptors `json:"descriptors,omitempty"` // in place of Layout
}

// LargestSize is the largest message of the spec in bytes; 0 where it leaves the sizes open.
func (s *Spec) LargestSize() int { return slices.Max(append([]int{0}, s.Sizes...)) }

// slowPath is the bandwidth below which a path is too slow for a test, in bytes per second.
const slowPath = 20e6

// Drain is what the messages in flight take on a slow path, and the memory of layouts, and of requests, until it is
// registered and compared.
func (s *Spec) Drain() time.Duration {
	window := cmp.Or(s.TxDepth, 1)
	if s.TxDepth == 0 && s.Kind == Bandwidth {
		window = defaultTxDepth
	}
	return DrainTime(float64(s.LargestSize())*float64(window)*float64(max(s.QPs, 1)) + s.Noncontig.memory())
}

// memory is about how many bytes an end has for its layouts or lists.
func (n *Noncontig) memory() float64 {
	switch {
	case n == nil:
		return 0
	case n.Descriptors != nil:
		d := n.Descriptors
		return float64(n.Footprint) + float64(d.LocalBytes) + float64(d.RemoteBytes) + float64(ringBytes(d.Pieces, 1))
	}
	layout, err := pattern.Parse(n.Layout, pattern.ParseOptions{})
	if err != nil { // a plan that is refused elsewhere
		return 0
	}
	return max(float64(n.Footprint), 2*float64(n.Window)*float64(layout.Extent()))
}

// DrainTime is what so many bytes take on a slow path.
func DrainTime(bytes float64) time.Duration {
	return time.Duration(min(bytes/slowPath, maxSeconds) * float64(time.Second))
}

// Same refuses another spec, by the names of the fields that differ. Sizes that this one leaves open are the other's to
// choose.
func (s *Spec) Same(other *Spec) error {
	theirs := *other
	if len(s.Sizes) == 0 {
		theirs.Sizes = s.Sizes
	}
	var wrong []error
	for _, d := range Differences(*s, theirs) {
		wrong = append(wrong, fmt.Errorf("%s is %s, want %s", d.Field, shorten(d.Second), shorten(d.First)))
	}
	return errors.Join(wrong...)
}

// Difference is a field in which two structs of a type differ, by its name in JSON, and what it is in each.
type Difference struct{ Field, First, Second string }

// Differences are those of two structs of a type.
func Differences[T any](first, second T) []Difference {
	a, b := reflect.ValueOf(first), reflect.ValueOf(second)
	var out []Difference
	for i := range a.NumField() {
		if x, y := a.Field(i).Interface(), b.Field(i).Interface(); !reflect.DeepEqual(x, y) {
			name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
			was, _ := json.Marshal(x)
			is, _ := json.Marshal(y)
			out = append(out, Difference{name, string(was), string(is)})
		}
	}
	return out
}

// Error is everything that stands against a test.
type Error struct{ Problems []error }

func (e *Error) Error() string { return errors.Join(e.Problems...).Error() }

// Unwrap returns the problems.
func (e *Error) Unwrap() []error { return e.Problems }
