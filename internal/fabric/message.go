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

// Key proves that two processes belong to the same run: it is made from the job's id
// and a secret that all its ranks share.
func Key(job, secret string) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(h, "gobw fabric\n%s", job)
	return h.Sum(nil)
}

// Kinds of message: rank 0 asks its agents, and an agent the processes that measure for it.
const (
	KindOrder  = "order"
	KindAnswer = "answer"
)

// Bounds of messages in bytes. Of what an agent says, what it was asked for decides: a few
// bytes of JSON can take many of memory.
const (
	MostAnswer  = 8 << 10 // and beyond it
	MostAddress = 512     // of each queue pair
	MostFlow    = 1 << 10 // of each flow's result
	MostBytes   = 32 << 20
	MostRails   = 16
)

// Hello is who an agent is.
type Hello struct {
	Rank  int    `json:"rank"` // -1: by its host's name
	Host  string `json:"host"`
	Place string `json:"place"` // the same for two processes that share a host's network
	Leaf  string `json:"leaf,omitempty"`
	CPUs  int    `json:"cpus,omitempty"` // that this process may run on
	// Load is how many threads used or waited for the host's CPUs in the minute before; 0: unknown.
	Load float64 `json:"load,omitempty"`
}

// How long each kind of order may take, beside what the order says itself.
const (
	OpeningWithin = 28 * time.Second
	PrepareWithin = 8 * time.Second
	BeyondRun     = 8 * time.Second // a slow path's first completion is waited for, and processors may be busy
)

// Orders are what the rails of an agent are to do next, all at once.
type Orders struct {
	Rails []Order `json:"rails"`

	Most int `json:"-"` // bytes of the answer
}

// Order is what one rail is to do: one of the three, which follow each other in a run.
type Order struct {
	Rail    int           `json:"rail"`
	Open    *OpenOrder    `json:"open,omitempty"`
	Prepare *PrepareOrder `json:"prepare,omitempty"`
	Go      *GoOrder      `json:"go,omitempty"`
}

// Within is how long an order may take.
func (o Order) Within() time.Duration {
	switch {
	case o.Open != nil:
		return OpeningWithin
	case o.Go != nil:
		return o.Go.In + o.Go.Whole() + BeyondRun
	}
	return PrepareWithin
}

// Possible tells whether they are for rails that there may be, each once: it does one thing at a time.
func (o Orders) Possible() bool {
	for i, r := range o.Rails {
		twice := slices.ContainsFunc(o.Rails[:i], func(before Order) bool { return before.Rail == r.Rail })
		if r.Rail < 0 || r.Rail >= MostRails || twice {
			return false
		}
	}
	return true
}

// OpenOrder asks for a device to be opened.
type OpenOrder struct {
	Address string    `json:"address"` // the agent's, as others know it
	Device  string    `json:"device"`  // empty: the agent chooses
	Plan    plan.Spec `json:"plan"`    // what to measure with
}

// PrepareOrder asks for the objects of a round.
type PrepareOrder struct {
	MTU   verbs.MTU `json:"mtu,omitempty"`
	Flows []FlowEnd `json:"flows"` // this agent's
}

// FlowEnd is what one end does in a flow.
type FlowEnd struct {
	Initiates bool `json:"initiates,omitempty"`
	// FlowLabel is the flow's first queue pair's; each other one has the next. By it a network with several equal ways
	// (ECMP) chooses: a NIC makes the UDP source port of it (RoCEv2, InfiniBand specification, annex A17).
	FlowLabel uint32 `json:"flow_label,omitempty"`
}

// GoOrder begins the round that was prepared.
type GoOrder struct {
	Addresses [][]control.Address `json:"addresses"`  // the peers', of each flow; none: the flow does not run
	In        time.Duration       `json:"in_ns"`      // how long after this message
	Lead      time.Duration       `json:"lead_ns"`    // from then on: until it is measured
	Measure   time.Duration       `json:"measure_ns"` // how long it is
	Tail      time.Duration       `json:"tail_ns"`    // how long it goes on for peers that began later
}

// Whole is how long the round takes once it has begun.
func (g *GoOrder) Whole() time.Duration { return g.Lead + g.Measure + g.Tail }

// Bounded tells whether the round is as long as one may be: it comes from another host.
func (g *GoOrder) Bounded() bool {
	for _, d := range []time.Duration{g.In, g.Lead, g.Measure, g.Tail} {
		if d < 0 || d > time.Hour {
			return false
		}
	}
	return true
}

// Answer is an agent's to its orders.
type Answer struct {
	Rails []Rail `json:"rails,omitempty"` // as the orders have them
}

// Rail is what a device answers to an order.
type Rail struct {
	Device    string              `json:"device,omitempty"`
	MTU       verbs.MTU           `json:"mtu,omitempty"`
	Addresses [][]control.Address `json:"addresses,omitempty"` // of each flow that was prepared, one per queue pair
	Flows     []Flow              `json:"flows,omitempty"`     // what each has moved
	Error     string              `json:"error,omitempty"`     // the device's, not a flow's
	Remedy    string              `json:"remedy,omitempty"`
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
	MostBits    = 1e15
	MostLatency = 24 * 3600 * 1e9
)

// Impossible says why these are no figures, empty: they are. They come from another host.
func (f *Flow) Impossible() string {
	in := func(v, most float64) bool { return v >= 0 && v <= most && !math.IsNaN(v) }
	if in(f.Bits, MostBits) && in(f.Quantiles[0], MostLatency) && in(f.Quantiles[4], MostLatency) &&
		slices.IsSorted(f.Quantiles[:]) {
		return ""
	}
	return fmt.Sprintf("it reports impossible figures: %g bit/s, %g ns", f.Bits, f.Quantiles)
}
