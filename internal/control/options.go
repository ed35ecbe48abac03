package control

import (
	"cmp"
	"log/slog"
	"net/netip"
	"time"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// DefaultPort is the TCP port of both dialects: perftest's.
const DefaultPort = 18515

// Options is what an end knows of its sessions before the peer has said anything. The zero value works.
type Options struct {
	Timeouts Timeouts
	Perftest PerftestOptions
	Program  string // name and version of this program, for the peer's log: "gobw 1.0"
	Token    []byte // a shared secret that both ends prove; nil: none
	// RDMA makes the conversation one by RDMA CM on this device (perftest's -z and -R), in perftest's dialect; nil:
	// TCP. The device outlives the sessions.
	RDMA verbs.Device

	// Of a client.
	Dialled bool       // connect sets it
	Source  netip.Addr // local address to connect from; invalid: the system's choice
	Network string     // "tcp" (default), "tcp4" or "tcp6"
	// SegmentBytes is the most that a packet of the control connection carries (on Linux); 0: what the path takes.
	SegmentBytes int
	Wait         time.Duration // how long to go on trying while the server refuses connections or is busy; 0: one try

	// Of a server.
	Address string         // "host:port", ":port"; empty: ":18515"
	Allow   []netip.Prefix // clients admitted; empty: all
	Clients int            // slots: clients served at once; 0: 1
	// clients at once, beside these, with which a test is being agreed on; 0: none, as this process serves
	Seats int
	Log   *slog.Logger // nil: silent
	// Admit is told each client's plan, and refuses it by an error; nil: none is refused.
	Admit func(*plan.Spec) error
	// Waiting is told that a client's next step is waited for, which may be its measurement, and by the function that it
	// returns that the wait is over (ours only); nil: nobody.
	Waiting func(measuring bool) (over func())
	// LocalFacts describes this end (page, cache line, MTU, outstanding reads) before a plan is known. It lets a client
	// of perftest 6.28 or later, which says all of its test, be served without a plan; nil: such clients are refused.
	LocalFacts func() (Facts, error)
	// Release is told when a session ends, perhaps more than once; nil: nobody. A listener sets it.
	Release func()
}

// PerftestOptions is what perftest's dialect needs and the plan does not say.
type PerftestOptions struct {
	// Version is the perftest version to advertise: "6.27" as a client. From "6.28" on the parameters are negotiated.
	// A server chooses by the client's version unless this is set.
	Version string
	// Gbits tells that this end's figures cross the wire in Gb/s (--report_gbits), not MiB/s. A server that negotiates
	// follows its client.
	Gbits bool
	// Told says that the server knows which test is meant by clients that do not say it.
	Told bool
	// NoMarker hides that we are gobw, so that the peer speaks perftest's dialect even if it could speak ours.
	NoMarker bool
}

// WithDefaults fills in the defaults.
func (o Options) WithDefaults() Options {
	o.Timeouts = o.Timeouts.WithDefaults()
	if o.Release == nil {
		o.Release = func() {}
	}
	if o.Admit == nil {
		o.Admit = func(*plan.Spec) error { return nil }
	}
	if o.Waiting == nil {
		o.Waiting = func(bool) func() { return func() {} }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Timeouts bound how long a session waits. Zero fields take the default shown.
type Timeouts struct {
	// Peer is how long silence is borne: 3 s. In our dialect heartbeats show life; in perftest's, TCP keep-alives do.
	Peer time.Duration
	// Hello is how long the first message may take, and at 'serve' once more all that comes before the first test: 10 s.
	// ib_write_bw sleeps a second before its own.
	Hello time.Duration
	// Phase is how long a peer that lives may take to reach the next phase: 30 s (it allocates and registers memory).
	Phase time.Duration
	// Test is how long a peer that has sent its count may take to say that it is finished: 1 h.
	Test time.Duration
	// Parting is how long a client waits for the one before it to be gone: 1 s. Scripts start the next test at once, and
	// the server may not have closed the last one yet; a perftest client cannot be told to come again.
	Parting time.Duration
}

// WithDefaults fills in the defaults.
func (t Timeouts) WithDefaults() Timeouts {
	t.Peer = cmp.Or(max(t.Peer, 0), 3*time.Second)
	t.Hello = cmp.Or(max(t.Hello, 0), 10*time.Second)
	t.Phase = cmp.Or(max(t.Phase, 0), 30*time.Second)
	t.Test = cmp.Or(max(t.Test, 0), time.Hour)
	t.Parting = cmp.Or(max(t.Parting, 0), time.Second)
	return t
}

// ForPhase is the time limit of a wait at p under a plan; 0: none. The messages in flight may have to arrive before.
// A test of a given count takes as long as it takes: heartbeats and keep-alives tell a peer that is dead, and the
// end that sends tells when nothing moves.
func (t Timeouts) ForPhase(p Phase, spec *plan.Spec) time.Duration {
	if spec != nil {
		t.Phase += min(spec.Drain(), t.Test)
	}
	if p != PhaseDone && p != PhaseFinished {
		return t.Phase
	}
	counted := spec == nil || spec.Duration == 0
	if counted && p == PhaseDone || spec != nil && spec.Infinite {
		return 0
	}
	if counted {
		return t.Test
	}
	runs := time.Duration(max(spec.Runs, 1))
	// A perftest server passes all sizes without a word and waits for the last one.
	return runs*time.Duration(max(len(spec.Sizes), 1))*(spec.Duration+2*spec.Margin) + t.Phase
}
