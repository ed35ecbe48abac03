package fabric

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// Key proves that two processes belong to the same run: it is made from the job's id and a secret that all its ranks share.
func Key(job, secret string) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(h, "gobw fabric\n%s", job)
	return h.Sum(nil)
}

// Kinds of message, in the order of a run: rank 0 asks, an agent answers.
const (
	kindOpen     = "open"     // open your devices
	kindFacts    = "facts"    // what was opened
	kindPrepare  = "prepare"  // make the objects of a round
	kindPrepared = "prepared" // their addresses
	kindGo       = "go"       // the peers' addresses, and when to begin
	kindResult   = "result"   // what was moved
	kindAnswer   = "answer"   // a measuring process's to its agent
)

// Bounds of what an agent may say, in bytes; what it was asked for decides.
const (
	mostFacts   = 64 << 10
	mostAnswer  = 8 << 10 // and beyond it
	mostAddress = 512     // of each queue pair
	mostFlow    = 1 << 10 // of each flow's result
	mostOrder   = 32 << 20
	mostRails   = 16
)

// Hello is who an agent is.
type Hello struct {
	Rank  int       `json:"rank"` // -1: by its host's name
	Host  string    `json:"host"`
	Place string    `json:"place"` // the same for two processes that share a host's network
	Leaf  string    `json:"leaf,omitempty"`
	Now   time.Time `json:"now"`
}

// OpenOrder is what to measure with.
type OpenOrder struct {
	Address string    `json:"address"` // the agent's, as others know it
	Rails   []string  `json:"rails"`   // devices; empty names: the agent chooses
	Plan    plan.Spec `json:"plan"`
}

// Facts is what an agent has found on its host.
type Facts struct {
	Rails    []Rail   `json:"rails"`
	CPUs     int      `json:"cpus"` // that this process may run on
	Warnings []string `json:"warnings,omitempty"`
}

// Rail is one device, opened.
type Rail struct {
	Device   string    `json:"device"`
	Software bool      `json:"software,omitempty"`
	MTU      verbs.MTU `json:"mtu,omitempty"`
	Error    string    `json:"error,omitempty"`
	Remedy   string    `json:"remedy,omitempty"`
}

// PrepareOrder asks for the objects of a round.
type PrepareOrder struct {
	Round int       `json:"round"`
	Rails []int     `json:"rails"`
	MTU   verbs.MTU `json:"mtu,omitempty"`
	Flows []Part    `json:"flows"` // this agent's
}

// Part is one end's part in a flow.
type Part struct {
	Initiates bool `json:"initiates,omitempty"`
	// FlowLabel is the flow's first queue pair's; each other one has the next. By it a network with several equal ways (ECMP)
	// chooses: a NIC makes the UDP source port of it (RoCEv2, InfiniBand specification, annex A17).
	FlowLabel uint32 `json:"flow_label,omitempty"`
}

// Prepared answers it.
type Prepared struct {
	Round int    `json:"round"`
	Error string `json:"error,omitempty"`
	// Addresses are per rail and flow one per queue pair.
	Addresses [][][]control.Address `json:"addresses,omitempty"`
}

// GoOrder begins a round.
type GoOrder struct {
	Round     int                   `json:"round"`
	Addresses [][][]control.Address `json:"addresses"` // the peers', per rail and flow; none: the flow does not run
	In        time.Duration         `json:"in_ns"`     // how long after this message
	Lead      time.Duration         `json:"lead_ns"`
	Measure   time.Duration         `json:"measure_ns"`
	Tail      time.Duration         `json:"tail_ns"`
}

// bounded tells whether the round is as long as one may be: it comes from another host.
func (g *GoOrder) bounded() bool {
	for _, d := range []time.Duration{g.In, g.Lead, g.Measure, g.Tail} {
		if d < 0 || d > time.Hour {
			return false
		}
	}
	return true
}

// Result is what an agent's flows moved, per rail.
type Result struct {
	Round int      `json:"round"`
	Rails [][]Flow `json:"rails"`
	Error string   `json:"error,omitempty"` // the device's, not a flow's
}

// Flow is one flow's figures.
type Flow struct {
	Bits      float64    `json:"bits_per_s,omitempty"`
	Quantiles [5]float64 `json:"latency_ns,omitzero"` // 5th, 25th, 50th, 75th, 95th percentile
	Error     string     `json:"error,omitempty"`
	Corrupt   bool       `json:"corrupt,omitempty"`
	// Unmeasured is a flow that had moved nothing when another one of this device failed.
	Unmeasured bool `json:"unmeasured,omitempty"`
}

// The most that a flow can have measured: a petabit a second, and a day.
const (
	mostBits    = 1e15
	mostLatency = 24 * 3600 * 1e9
)

// possible tells whether these are figures at all: they come from another host.
func (f *Flow) possible() bool {
	in := func(v, most float64) bool { return v >= 0 && v <= most && !math.IsNaN(v) }
	return in(f.Bits, mostBits) && in(f.Quantiles[0], mostLatency) && in(f.Quantiles[4], mostLatency) && slices.IsSorted(f.Quantiles[:])
}
