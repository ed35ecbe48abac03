package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gobw/gobw/report/internal/fields"
	"github.com/gobw/gobw/report/plain"
)

// Setup is the settled plan of a record, without its size: records of one Setup make one table and one curve. How long
// was measured is no part of it.
type Setup struct {
	Operation   string  `plan:"operation"`
	Kind        string  `plan:"kind"`
	Transport   string  `plan:"transport"`
	Direction   string  `plan:"direction"`
	QPs         int     `plan:"qps"`
	TxDepth     int     `plan:"tx_depth"`
	PostList    int     `plan:"post_list"`
	InlineBytes int     `plan:"inline_bytes"`
	Events      bool    `plan:"events"`
	MTU         int     `plan:"mtu"`
	HalfTrip    bool    `plan:"half_round_trip"`
	Immediate   bool    `plan:"immediate"`
	Atomic      string  `plan:"atomic"`
	Outstanding int     `plan:"outstanding"`
	SRQ         bool    `plan:"srq"`
	Threads     int     `plan:"threads"`
	Rails       int     `plan:"rails"`
	RateLimit   float64 `plan:"rate_limit_bits_per_s"` // bit/s
	GapNs       float64 `plan:"gap_ns"`
	Timestamps  string  `plan:"timestamps"` // of a latency: "device"; empty: the host's
	Verified    string  `plan:"verified"`
	More        string  // what else the plan says, in canonical form
}

// Point is a Setup at one size: the key of a record, which repetitions share and by which comparisons and baselines match.
// Nothing matches by a part of it. How often a message is signaled belongs here, as its default depends on the size.
type Point struct {
	Setup
	SizeBytes uint64 `plan:"size_bytes"`
	CQMod     int    `plan:"cq_mod"`
}

// Setup of the record.
func (r *Record) Setup() Setup {
	return Setup{
		Operation: r.Operation, Kind: r.Kind, Transport: r.Transport, Direction: r.Direction, QPs: r.QPs,
		TxDepth: r.TxDepth, PostList: r.PostList, InlineBytes: r.InlineBytes, Events: r.Events,
		MTU: r.MTU, HalfTrip: r.RoundTripHalf, Immediate: r.Immediate, Atomic: r.Atomic, Outstanding: r.Outstanding, SRQ: r.SRQ, Threads: r.Threads, Rails: r.Rails,
		RateLimit: r.RateLimitBitsPerS, GapNs: r.GapNs, Timestamps: r.Timestamps, Verified: r.Verified, More: canonical(r.Plan),
	}
}

// canonical writes the rest of a plan so that equal plans give equal texts.
func canonical(plan map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(plan)) {
		parts = append(parts, strconv.Quote(name)+"="+strconv.Quote(plan[name]))
	}
	return strings.Join(parts, "\n")
}

// Point of the record.
func (r *Record) Point() Point {
	return Point{Setup: r.Setup(), SizeBytes: r.SizeBytes, CQMod: r.CQMod}
}

// PlanFields are the names of the fields by which points may differ.
func PlanFields() []string { return fields.Names[Point]() }

// Without is the point without one field of its plan, and what that field was; false where there is no such field.
func (p Point) Without(name string) (rest Point, value string, ok bool) {
	if name == "" {
		return p, "", false
	}
	if value, ok = fields.Clear(&p, name); ok {
		return p, value, true
	}
	var parts []string
	for part := range strings.SplitSeq(p.More, "\n") {
		if key, v, _ := cutField(part); key == name {
			value, ok = v, true
		} else {
			parts = append(parts, part)
		}
	}
	p.More = strings.Join(parts, "\n")
	return p, value, ok
}

// Fields are all of the point's plan, in words, by name.
func (p Point) Fields() map[string]string {
	out := fields.Values(p)
	for part := range strings.SplitSeq(p.More, "\n") {
		if name, value, ok := cutField(part); ok {
			out[name] = value
		}
	}
	return out
}

// cutField reads a line of the canonical form.
func cutField(part string) (name, value string, ok bool) {
	quoted, err := strconv.QuotedPrefix(part)
	if err != nil {
		return "", "", false
	}
	name, _ = strconv.Unquote(quoted)
	value, err = strconv.Unquote(strings.TrimPrefix(part[len(quoted):], "="))
	return name, value, err == nil
}

// IsLatency tells a latency test from a bandwidth test.
func (s Setup) IsLatency() bool { return s.Kind == "latency" }

// Title says the set-up in words: "write bandwidth, RC, 1 QP, MTU 1024, tx depth 128".
func (s Setup) Title() string {
	parts := plain.List{s.Operation + " " + s.Kind, s.Transport}
	parts.When(!s.IsLatency() && s.Direction == "both", "both directions")
	parts.When(!s.IsLatency() && s.Direction == "in", "inbound")
	parts = append(parts, plain.Plural(s.QPs, "QP"))
	parts.When(s.Rails > 1, "%d rails", s.Rails)
	parts.When(s.Threads > max(s.Rails, 1), "%d threads", s.Threads)
	parts.When(s.MTU > 0, "MTU %d", s.MTU)
	parts.When(!s.IsLatency() && s.TxDepth > 0, "tx depth %d", s.TxDepth)
	parts.When(s.PostList > 1, "posted in lists of %d", s.PostList)
	parts.When(s.InlineBytes > 0, "inline %d B", s.InlineBytes)
	parts.When(s.Immediate, "with immediate")
	parts.When(s.Atomic == "compare-and-swap", "%s", s.Atomic)
	parts.When(s.Outstanding > 0, "%d outstanding", s.Outstanding)
	parts.When(s.SRQ, "shared receive queue")
	parts.When(s.RateLimit > 0, "at most %g Gb/s", s.RateLimit/1e9)
	parts.When(s.GapNs > 0, "a pause of %v before each message", time.Duration(s.GapNs))
	parts.When(s.Timestamps != "", "by the %s's clock", s.Timestamps)
	parts.When(s.Events, "events")
	switch s.Verified {
	case "":
	case "ends":
		parts = append(parts, "first and last message verified")
	case "all":
		parts.When(s.Transport == "RC", "every message verified")
		parts.When(s.Transport != "RC", "every message that arrived verified")
	default:
		parts = append(parts, "verified: "+s.Verified)
	}
	parts.When(s.More != "", "%s", strings.NewReplacer(`"`, "", "\n", " ").Replace(s.More))
	return strings.Join(parts, ", ")
}

// String is the point in a few words: "write bandwidth RC 65536 B".
func (p Point) String() string {
	s := fmt.Sprintf("%s %s %s %d B", p.Operation, p.Kind, p.Transport, p.SizeBytes)
	s += plain.When(p.QPs > 1, " %d QPs", p.QPs)
	s += plain.When(p.Rails > 1, " %d rails", p.Rails)
	s += plain.When(p.Threads > max(p.Rails, 1), " %d threads", p.Threads)
	s += plain.When(p.Direction == "both" && !p.IsLatency(), " both directions")
	return s
}

// Device says on what a document was measured: "roce0 (roce) on alpha, to roce0 on beta".
func (d *Document) Device() string {
	if d.Client.Device == "" {
		return ""
	}
	s := d.Client.Device
	provider, host := d.Client.Provider, d.Client.Host
	s += plain.When(provider != "" && provider != s, " (%s)", provider) + plain.When(host != "", " on %s", host)
	if sv := d.Server; sv != nil && sv.Host != "" && (sv.Host != d.Client.Host || sv.Device != d.Client.Device) {
		s += ", to " + sv.Device + " on " + sv.Host
	}
	return s
}

// Name of a document among several: its description, or the device and host.
func (d *Document) Name() string {
	if d.Description != "" {
		return d.Description
	}
	if s := d.Device(); s != "" {
		return s
	}
	return d.Tool
}
