package plan

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/verbs"
)

// Group is where the help of a command shows a flag.
type Group string

// Groups of flags.
const (
	GroupMessages Group = "Messages"
	GroupLength   Group = "Length"
	GroupQueues   Group = "Queues"
	GroupPath     Group = "Path"
)

// Field is a row of the table of settings: what a number or a switch of a [Spec] is called, and between which bounds it
// lies. Flags, checks, searches and the hints about perftest's options read it.
type Field struct {
	// At is where a spec has the field: a *bool, *int, *uint8, *uint64 or *verbs.MTU.
	At func(*Spec) any

	Name, Letter string // of the flag; without a name messages call it Shown
	Shown        string
	Group        Group // of its flag; empty: no command binds it by this table
	Of           Kind  // of the tests that have it; empty: all
	Help         string
	HelpOf       func(Row, Kind) string // in place of Help; "" from a test that does not have the flag

	Least, Most int64 // bounds of a value that is not zero; Least 0: 1; Most 0: the field has no bounds
	Tries       []int // what a search tries; none: it leaves it alone
}

// Fields is the table. A search makes the first of them small first.
func Fields() []Field { return table }

// mostBytesOfPoint bounds what a layout may span.
const mostBytesOfPoint = 1 << 46

var table = []Field{
	{
		At:    func(p *Spec) any { return &p.Iterations },
		Shown: "--iters (-n)",
		Most:  1 << 40,
	},
	{
		At:    func(p *Spec) any { return &p.Warmup },
		Shown: "--warmup",
		Most:  1 << 40,
	},
	{
		At:   func(p *Spec) any { return &p.Runs },
		Name: "runs", Group: GroupLength, Most: 1 << 20,
		Help: "repeat each size this many times (default: 1)",
	},
	{
		At:   func(p *Spec) any { return &p.Threads },
		Name: "threads", Group: GroupQueues, Of: Bandwidth, Most: 1024,
		Tries: []int{1, 2, 4, 8, 16},
		Help:  "threads at each end (default: 1 per device; on roce0 at most 1 per device)",
	},
	{
		At:   func(p *Spec) any { return &p.QPs },
		Name: "qp", Letter: "q", Group: GroupQueues, Of: Bandwidth, Most: maxQueuePairs,
		Tries: []int{1, 2, 4, 8, 16, 64},
		Help:  "queue pairs (default: 1 per device)",
	},
	{
		At:    func(p *Spec) any { return &p.Rails },
		Shown: "devices (-d)",
		Most:  64,
	},
	{
		At:   func(p *Spec) any { return &p.Bidirectional },
		Name: "bidirectional", Letter: "b", Group: GroupMessages, Of: Bandwidth,
		Help: "both ends send at the same time",
	},
	{
		At:   func(p *Spec) any { return &p.Reversed },
		Name: "reversed", Group: GroupMessages, Of: Bandwidth,
		Help: "the server sends to the client",
	},

	{
		At:   func(p *Spec) any { return &p.TxDepth },
		Name: "tx-depth", Letter: "t", Group: GroupQueues, Most: 15000,
		Tries:  []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512},
		HelpOf: helpOfTxDepth,
	},
	{
		At:   func(p *Spec) any { return &p.Outstanding },
		Name: "outs", Letter: "o", Group: GroupQueues, Most: maxOutstanding,
		Tries: []int{1, 2, 4, 8, 16, 32, 64, 128},
		HelpOf: func(r Row, _ Kind) string {
			return where(r.Responded, "READs and atomics in flight (default: device maximum)")
		},
	},
	{
		At:   func(p *Spec) any { return &p.RxDepth },
		Name: "rx-depth", Letter: "r", Group: GroupQueues, Most: 16384,
		Tries:  []int{16, 64, 128, 256, 512, 1024},
		HelpOf: helpOfRxDepth,
	},
	{
		At:   func(p *Spec) any { return &p.PostList },
		Name: "post-list", Letter: "l", Group: GroupQueues, Of: Bandwidth, Most: 15000,
		Tries: []int{1, 2, 4, 8, 16, 32, 64},
		Help:  "messages per post call (default: 1)",
	},
	{
		At:   func(p *Spec) any { return &p.CQMod },
		Name: "cq-mod", Letter: "Q", Group: GroupQueues, Of: Bandwidth, Most: 1024,
		Tries:  []int{1, 4, 16, 64, 100},
		HelpOf: helpOfCQMod,
	},
	{
		At:    func(p *Spec) any { return &p.RecvList },
		Shown: "--recv_post_list",
		Most:  16384,
	},
	{
		At:   func(p *Spec) any { return &p.InlineBytes },
		Name: "inline", Letter: "I", Group: GroupQueues, Least: -1, Most: 4096,
		Tries: []int{0, 64, 128, 220},
		HelpOf: func(r Row, _ Kind) string {
			return where(r.MayInline(), "send messages of up to N bytes inline (default: as perftest does)")
		},
	},
	{
		At:   func(p *Spec) any { return &p.SRQ },
		Name: "srq", Group: GroupQueues,
		HelpOf: func(r Row, _ Kind) string {
			return where(r.Operation == Send, "one shared receive queue for all queue pairs")
		},
	},
	{
		At:    func(p *Spec) any { return &p.MTU },
		Shown: "--mtu (-m) code",
		Most:  int64(verbs.MTU4096),
	},
	{
		At:   func(p *Spec) any { return &p.Events },
		Name: "events", Letter: "e", Group: GroupQueues,
		Help: "sleep until a completion comes, instead of polling",
	},
	{
		At:    func(p *Spec) any { return &p.Vector },
		Shown: "--vector (-X)",
		Most:  2048,
	},
	{
		At:    func(p *Spec) any { return &p.Burst },
		Shown: "--burst_size",
		Most:  15000,
	},
	{
		At:   func(p *Spec) any { return &p.CPU },
		Name: "cpu-time", Group: GroupQueues,
		Help: "measure the CPU time per message",
	},
	{
		At:   func(p *Spec) any { return &p.HugePages },
		Name: "huge-pages", Group: GroupQueues,
		Help: "use reserved huge pages for the buffers",
	},

	{
		At:   func(p *Spec) any { return &p.SL },
		Name: "sl", Letter: "S", Group: GroupPath, Most: 15,
		Help: "service level, 0 to 15",
	},
	{
		At:   func(p *Spec) any { return &p.TrafficClass },
		Name: "tclass", Group: GroupPath, Most: 255,
		Help: "traffic class, 0 to 255",
	},
	{
		At:   func(p *Spec) any { return &p.PKeyIndex },
		Name: "pkey", Group: GroupPath, Most: 65535,
		Help: "P_Key index",
	},
	{
		At:   func(p *Spec) any { return &p.Timeout },
		Name: "qp-timeout", Letter: "u", Group: GroupPath, Most: 31,
		Help: "send again after 4.096 us x 2^N without an answer; `N` from 1 to 31 (default: 14, on roce0 16)",
	},
	{
		At:    func(p *Spec) any { return &p.Retries },
		Shown: "retries",
		Most:  7,
	},
	{
		At:   func(p *Spec) any { return &p.RDMACM },
		Name: "rdma-cm", Letter: "R", Group: GroupPath,
		Help: "connect by RDMA CM (not roce0, not UC)",
	},
}

// pointTable has the fields that only a point of the non-contiguous experiment has.
var pointTable = []Field{
	{
		At:    func(p *Spec) any { return &p.Noncontig.Window },
		Shown: "--tx-depth (-t)",
		Most:  4096,
	},
	{
		At:    func(p *Spec) any { return &p.Noncontig.Footprint },
		Shown: "footprint",
		Most:  mostBytesOfPoint,
	},
	{
		At:    func(p *Spec) any { return &p.Noncontig.Segment },
		Shown: "segment",
		Most:  mostBytesOfPoint,
	},
	{
		At:    func(p *Spec) any { return &p.Noncontig.ListBytes },
		Shown: "list bytes",
		Most:  mostBytesOfPoint,
	},
	{
		At:    func(p *Spec) any { return &p.Noncontig.MaxSGE },
		Shown: "--max-sge",
		Most:  1024,
	},
}

// listTable has the fields that only a list of descriptors has.
var listTable = []Field{
	{
		At:    func(p *Spec) any { return &p.Noncontig.Descriptors.PackedBytes },
		Shown: "bytes of the list",
		Most:  256 << 20,
	},
	{
		At:    func(p *Spec) any { return &p.Noncontig.Descriptors.Pieces },
		Shown: "descriptors",
		Most:  pattern.MaxPieces,
	},
	{
		At:    func(p *Spec) any { return &p.Noncontig.Descriptors.Bytes },
		Shown: "bytes of all descriptors",
		Most:  pattern.MaxSpan,
	},
	{
		At:    func(p *Spec) any { return &p.Noncontig.Descriptors.LocalBytes },
		Shown: "span of the local side",
		Most:  pattern.MaxSpan + pattern.BaseBytes,
	},
	{
		At:    func(p *Spec) any { return &p.Noncontig.Descriptors.RemoteBytes },
		Shown: "span of the remote side",
		Most:  pattern.MaxSpan + pattern.BaseBytes,
	},
	{
		At:    func(p *Spec) any { return &p.Noncontig.Descriptors.Mean },
		Shown: "mean length",
		Most:  pattern.MaxSpan,
	},
}

// shown is the field in a message: "--qp (-q)".
func (f *Field) shown() string {
	switch {
	case f.Shown != "":
		return f.Shown
	case f.Letter != "":
		return fmt.Sprintf("--%s (-%s)", f.Name, f.Letter)
	}
	return "--" + f.Name
}

func (f *Field) least() int64 { return cmp.Or(f.Least, 1) }

// HelpFor is the help of the flag in a test; empty: the test does not have the flag.
func (f *Field) HelpFor(r Row, k Kind) string {
	switch {
	case f.Of != "" && f.Of != k:
		return ""
	case f.HelpOf != nil:
		return f.HelpOf(r, k)
	}
	return f.Help
}

// checkNumbers refuses numbers beyond the bounds of a table, so that what follows can count with them.
func checkNumbers(fields []Field, p *Spec, wrong *Faults) {
	for _, f := range fields {
		if f.Most == 0 {
			continue
		}
		n, is := int64(0), true
		switch at := f.At(p).(type) {
		case *int:
			n = int64(*at)
		case *uint8:
			n = int64(*at)
		case *uint64:
			n = int64(min(*at, math.MaxInt64))
		case *verbs.MTU:
			n = int64(*at)
		default:
			is = false
		}
		outside := n < f.least() || n > f.Most
		wrong.If(is && n != 0 && outside, "%s %d: want %d to %d", f.shown(), n, f.least(), f.Most)
	}
}

func where(is bool, text string) string { //nolint:revive // whether there is something to say
	if is {
		return text
	}
	return ""
}

func helpOfTxDepth(r Row, k Kind) string {
	switch {
	case k == Bandwidth:
		return "messages in flight per queue pair (default: 128)"
	case r.MayInline() && !r.Responded:
		return "at most this many outstanding completions; the test still sends one message at a time " +
			"(default: 1, on roce0 over RC 64)"
	}
	return ""
}

func helpOfRxDepth(r Row, _ Kind) string {
	switch r.Operation {
	case Send:
		return "receives posted per queue pair (default: 512)"
	case Write:
		return "receives posted, with --imm (default: 512)"
	default:
		return ""
	}
}

func helpOfCQMod(r Row, _ Kind) string {
	return "messages per completion, at most the tx depth (default: 100" +
		where(!r.Counter, "; 1 above 8 KiB, but 100 with -a or -e") +
		where(r.Supports(verbs.UD), " or UD") + "; N with -l N)"
}

// BoundsOf returns the least and the most value of the field of p at this address.
func BoundsOf(p *Spec, at any) (least, most int64) {
	for _, f := range table {
		if f.At(p) == at {
			return f.least(), f.Most
		}
	}
	return 1, math.MaxInt64
}
