package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gobw/gobw/report/plain"
)

// Plan is what was settled of a test, but for how long it measured: the key of a record, which repetitions share and by
// which comparisons match, whole. Whatever else needs its fields derives them from the tags: points, columns, the
// schema, labels, titles, legends, differences. The tags are those of a [field]. A new field goes last in its block.
type Plan struct {
	Operation string `json:"operation"` // "write", "read", "send", "atomic", "flush"
	Kind      string `json:"kind"`      // "bandwidth", "latency"
	Transport string `json:"transport" words:"%s,title"`
	// "out", "in", "both": as the client sees it
	Direction string `json:"direction" words:"direction %s" usual:"out" of:"bandwidth"`
	SizeBytes uint64 `json:"size_bytes" of:"size"`
	QPs       int    `json:"qps" words:"%s QP(s),always" usual:"1"`
	Rails     int    `json:"rails,omitempty" words:"%s rail(s)|1 rail"`       // devices that an end ran at once; 0: one
	Threads   int    `json:"threads,omitempty" words:"%s thread(s)|1 thread"` // that shared an end's queue pairs; 0: one
	MTU       int    `json:"mtu" words:"MTU %s,title"`                        // bytes
	TxDepth   int    `json:"tx_depth" words:"tx depth %s,title" usual:"1"`
	CQMod     int    `json:"cq_mod" of:"size"` // every how many messages one is signaled
	PostList  int    `json:"post_list" words:"post list %s" usual:"1"`

	InlineBytes int    `json:"inline_bytes,omitempty" words:"inline %s B,title"`
	Immediate   bool   `json:"immediate,omitempty" words:"immediate data|no immediate data"`
	Atomic      string `json:"atomic,omitempty" words:"%s" usual:"fetch-and-add"`
	// read, atomic: requests in flight per queue pair
	Outstanding       int     `json:"outstanding,omitempty" words:"%s outstanding,title" of:"bandwidth"`
	SRQ               bool    `json:"srq,omitempty" words:"shared receive queue|a receive queue each"`
	RateLimitBitsPerS float64 `json:"rate_limit_bits_per_s,omitempty" words:"at most %s|no rate limit"`
	GapNs             float64 `json:"gap_ns,omitempty" words:"%s pause before each message|no pause"`
	// latency: "device": from the stamps of its completions
	Timestamps string `json:"timestamps,omitempty" words:"by the %s's clock|by the host's clock"`
	Events     bool   `json:"events,omitempty" words:"events|polling"`
	// "ends": the first and the last message; "all"
	Verified string `json:"verified,omitempty" words:"%s verified|not verified"`
	// latency figures are half of what was stamped
	RoundTripHalf  bool `json:"half_round_trip,omitempty"`
	HugePages      bool `json:"huge_pages,omitempty" words:"huge pages|small pages"`
	OnDemand       bool `json:"on_demand,omitempty" words:"on-demand paging|pinned pages"`
	MRPerQP        bool `json:"mr_per_qp,omitempty" words:"one memory region per QP|one memory region"`
	StrictOrdering bool `json:"strict_ordering,omitempty" words:"strict ordering|relaxed ordering"`
	Multicast      bool `json:"multicast,omitempty" words:"multicast|unicast"`
	RDMACM         bool `json:"rdma_cm,omitempty" words:"RDMA CM|no RDMA CM"`
	SL             int  `json:"sl,omitempty" words:"service level %s"`
	TrafficClass   int  `json:"tclass,omitempty" words:"traffic class %s"`
	// what messages cycle through: their mean is SizeBytes
	Mix     string `json:"mix,omitempty" words:"mix %s|no mix,title"`
	CPUTime bool   `json:"cpu_time,omitempty" words:"CPU time measured|CPU time not measured"`

	// Of a test of many hosts: what its cells have in common.
	Pattern string `json:"pattern,omitempty" words:"%s"`
	Rail    string `json:"rail,omitempty" words:"rail %s"`
	Path    string `json:"path,omitempty" words:"%s"`
	Node    string `json:"node,omitempty" words:"%s"` // a host, or the link between two
	Side    string `json:"side,omitempty" words:"%s"` // "sending", "receiving", "link"
	FanIn   int    `json:"fan_in,omitempty" words:"%s senders to one receiver"`

	// Of the non-contiguous experiment. The bytes that the layouts in flight take follow from the cache, the layouts and
	// the window.
	Shape        string `json:"shape,omitempty" words:"%s"` // "gather", "scatter", "both"
	Strategy     string `json:"strategy,omitempty" words:"%s"`
	Layout       string `json:"layout,omitempty" words:"%s"`
	Cache        string `json:"cache,omitempty" words:"%s cache"`
	MaxSGE       int    `json:"max_sge,omitempty" words:"lists of %s entries,title"`
	MaxSGERead   int    `json:"max_sge_read,omitempty" words:"READ lists of %s entries,title"`
	ListBytes    string `json:"list_bytes,omitempty" words:"bytes per work request: %s,title"`
	SegmentBytes int    `json:"segment_bytes,omitempty" words:"segments of %s B"` // pack-pipelined's
	Kernel       string `json:"kernel,omitempty" words:"packed by %s,title"`
}

// Kinds of tests.
const (
	latencyKind   = "latency"
	bandwidthKind = "bandwidth"
)

// NewPlan takes what settled plans call by the same name, of later ones before that of earlier ones.
func NewPlan(settled ...any) (Plan, error) {
	var p Plan
	for _, s := range settled {
		b, err := json.Marshal(s)
		if err == nil {
			err = json.Unmarshal(b, &p)
		}
		if err != nil {
			return p, fmt.Errorf("the plan of a record: %w", err)
		}
	}
	return p, nil
}

// PlanFields are the names of the fields by which plans may differ.
func PlanFields() []string {
	return plain.Each(fieldsOf(&Plan{}), func(f field) string { return f.name })
}

// Without is the plan without one of its fields, and what that was; false where there is no such field.
func (p Plan) Without(name string) (rest Plan, value string, ok bool) {
	for _, f := range fieldsOf(&p) {
		if f.name == name {
			value, ok = fmt.Sprint(f.value.Interface()), true
			f.value.SetZero()
		}
	}
	return p, value, ok
}

// Differences are the fields in which a later plan is another: "tx_depth: 128 before, 16 now".
func (p Plan) Differences(now Plan) []string {
	var out []string
	others := fieldsOf(&now)
	for i, f := range fieldsOf(&p) {
		if was, is := fmt.Sprint(f.value.Interface()), fmt.Sprint(others[i].value.Interface()); was != is {
			out = append(out, fmt.Sprintf("%s: %s before, %s now", f.name, cmp.Or(was, "none"), cmp.Or(is, "none")))
		}
	}
	slices.Sort(out)
	return out
}

// Setup is the plan without what depends on the message size: records of one Setup make one table and one curve.
func (p Plan) Setup() Plan {
	for _, f := range fieldsOf(&p) {
		if f.Tag.Get("of") == "size" {
			f.value.SetZero()
		}
	}
	return p
}

// IsLatency tells a latency test from a bandwidth test.
func (p Plan) IsLatency() bool { return p.Kind == latencyKind }

// Row is the plan without what names a row of a comparison, and that: the size; of a test of many hosts the host; of
// the non-contiguous experiment layout and strategy.
func (p Plan) Row() (table Plan, row string) {
	switch {
	case p.Node != "":
		row = p.Node + ", " + p.Side
		p.Node, p.Side = "", ""
	case p.Layout != "":
		row = p.Layout + plain.When(p.Strategy != "", ", %s", p.Strategy)
		var block, blocks, stride float64
		if n, _ := fmt.Sscanf(p.Layout, "vector:block=%g,num=%g,stride=%g", &block, &blocks, &stride); n == 3 {
			row = fmt.Sprintf("%g blocks of %s, stride %s", blocks, plain.Bytes(block), plain.Bytes(stride)) +
				plain.When(p.Strategy != "", ", %s", p.Strategy)
		}
		p.Layout, p.Strategy, p.SegmentBytes = "", "", 0
	default:
		row = fmt.Sprintf("%d B", p.SizeBytes)
	}
	return p, row
}

// Title says the set-up in words: "write bandwidth, RC, 1 QP, MTU 1024, tx depth 128".
func (p Plan) Title() string {
	title := p.Transport != "" // else a test of calls, which has no queue pairs
	return strings.Join(append([]string{p.Operation + " " + p.Kind}, p.words(title)...), ", ")
}

// String is the plan in a few words: "write bandwidth RC 65536 B", and what is unusual.
func (p Plan) String() string {
	head := strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %d B", p.Operation, p.Kind, p.Transport, p.SizeBytes)), " ")
	return strings.Join(append([]string{head}, p.words(false)...), ", ")
}

// words say the fields that are unusual, for a title or a short name.
func (p Plan) words(title bool) []string { //nolint:revive // title: for whom, as in the tags
	var out []string
	for _, f := range fieldsOf(&p) {
		words, option, _ := strings.Cut(f.Tag.Get("words"), ",")
		if words == "" || p.IsLatency() && f.Tag.Get("of") == bandwidthKind || !title && option == "title" {
			continue
		}
		if said, unusual := f.inWords(); unusual || title && option == "always" && !f.value.IsZero() {
			out = append(out, said)
		}
	}
	return out
}

// InWords says one field of the plan, its usual value too: "tx depth 128", "polling".
func (p Plan) InWords(name string) (said string) {
	for _, f := range fieldsOf(&p) {
		if f.name == name {
			said, _ = f.inWords()
		}
	}
	return said
}
