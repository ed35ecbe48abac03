package wire

import (
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// Protocol is the version of this conversation. Ends of different versions refuse each other.
const Protocol = 1

// Kind is the kind of a message.
type Kind string

// Kinds, in the order of a run.
const (
	KindChallenge Kind = "challenge" // coordinator: who are you?
	KindHello     Kind = "hello"     // agent: its rank, and the proof
	KindWelcome   Kind = "welcome"   // coordinator: its own proof
	KindRefused   Kind = "refused"   // coordinator: Text says why
	KindOpen      Kind = "open"      // coordinator: open your devices
	KindFacts     Kind = "facts"     // agent: what was opened
	KindPrepare   Kind = "prepare"   // coordinator: make the objects of a round
	KindPrepared  Kind = "prepared"  // agent: their addresses
	KindGo        Kind = "go"        // coordinator: the peers' addresses, and when to begin
	KindResult    Kind = "result"    // agent: what was moved
	KindHeartbeat Kind = "heartbeat" // both, while nothing else is said
	KindBye       Kind = "bye"       // coordinator: the run is over
)

// Message is one frame.
type Message struct {
	Kind      Kind       `json:"kind"`
	Text      string     `json:"text,omitempty"`
	Challenge *Challenge `json:"challenge,omitempty"`
	Hello     *Hello     `json:"hello,omitempty"`
	Open      *Open      `json:"open,omitempty"`
	Facts     *Facts     `json:"facts,omitempty"`
	Prepare   *Prepare   `json:"prepare,omitempty"`
	Prepared  *Prepared  `json:"prepared,omitempty"`
	Go        *Go        `json:"go,omitempty"`
	Result    *Result    `json:"result,omitempty"`
}

// Challenge opens the conversation.
type Challenge struct {
	Protocol int    `json:"protocol"`
	Nonce    []byte `json:"nonce"`
	Proof    []byte `json:"proof,omitempty"` // in a welcome: the coordinator's
}

// Hello is who an agent is.
type Hello struct {
	Protocol int       `json:"protocol"`
	Version  string    `json:"version"`
	Rank     int       `json:"rank"` // -1: by its host's name
	Host     string    `json:"host"`
	Place    string    `json:"place"` // the same for two processes that share a host's network
	Leaf     string    `json:"leaf,omitempty"`
	Now      time.Time `json:"now"`
	Nonce    []byte    `json:"nonce"`
	Proof    []byte    `json:"proof"`
}

// Open is what to measure with.
type Open struct {
	Ranks   int       `json:"ranks"`
	Address string    `json:"address"` // the agent's, as others know it
	Rails   []string  `json:"rails"`   // devices; empty names: the agent chooses
	Plan    plan.Spec `json:"plan"`
}

// Facts is what an agent has found on its host.
type Facts struct {
	Rails        []Rail   `json:"rails"`
	CPUs         int      `json:"cpus"`          // that this process may run on
	MemlockBytes int64    `json:"memlock_bytes"` // -1: unlimited
	Kernel       string   `json:"kernel,omitempty"`
	Warnings     []string `json:"warnings,omitempty"`
}

// Rail is one device, opened.
type Rail struct {
	Device   string    `json:"device"`
	Software bool      `json:"software,omitempty"`
	Label    string    `json:"label,omitempty"`
	Link     string    `json:"link,omitempty"` // "InfiniBand", "Ethernet"
	Rate     string    `json:"rate,omitempty"`
	Bits     float64   `json:"rate_bits_per_s,omitempty"`
	MTU      verbs.MTU `json:"mtu,omitempty"`
	GID      string    `json:"gid,omitempty"`
	Error    string    `json:"error,omitempty"`
	Remedy   string    `json:"remedy,omitempty"`
}

// Prepare asks for the objects of a round.
type Prepare struct {
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

// Go begins a round.
type Go struct {
	Round     int                   `json:"round"`
	Addresses [][][]control.Address `json:"addresses"` // the peers', per rail and flow; none: the flow does not run
	In        time.Duration         `json:"in_ns"`     // how long after this message
	Lead      time.Duration         `json:"lead_ns"`
	Measure   time.Duration         `json:"measure_ns"`
	Tail      time.Duration         `json:"tail_ns"`
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
	Samples   int        `json:"samples,omitempty"`
	Error     string     `json:"error,omitempty"`
	Corrupt   bool       `json:"corrupt,omitempty"`
	// Unmeasured is a flow that had moved nothing when another one of this device failed.
	Unmeasured bool `json:"unmeasured,omitempty"`
}
