package control

import (
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/gobw/gobw/verbs"
)

// Timeouts bound how long a session waits. Zero fields take the default shown.
type Timeouts struct {
	// Peer is how long silence is borne: 3 s. In our dialect heartbeats show life; in perftest's, TCP keep-alives do.
	Peer time.Duration
	// Hello is how long the first message may take: 10 s. ib_write_bw sleeps a second before its own.
	Hello time.Duration
	// Phase is how long a peer that lives may take to reach the next phase: 30 s (it allocates and registers memory).
	Phase time.Duration
	// Test is how long a peer may take from Ready to Done where the plan counts iterations: 1 h. With a duration it is
	// that duration plus Phase.
	Test time.Duration
	// Parting is how long a client waits for the one before it to be gone: 1 s. Scripts start the next test at once, and
	// the server may not have closed the last one yet; a perftest client cannot be told to come again.
	Parting time.Duration
}

func (t Timeouts) withDefaults() Timeouts {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&t.Peer, 3*time.Second)
	set(&t.Hello, 10*time.Second)
	set(&t.Phase, 30*time.Second)
	set(&t.Test, time.Hour)
	set(&t.Parting, time.Second)
	return t
}

// forPhase is the time limit of a wait at p under a plan.
func (t Timeouts) forPhase(p Phase, plan *Plan) time.Duration {
	if p != PhaseDone && p != PhaseFinished {
		return t.Phase
	}
	if plan != nil && plan.Infinite {
		return 100 * 365 * 24 * time.Hour // until somebody stops it
	}
	if plan != nil && plan.Duration > 0 {
		runs := time.Duration(max(plan.Runs, 1))
		// A perftest server passes all sizes without a word and waits for the last one.
		return runs*time.Duration(max(len(plan.Sizes), 1))*(plan.Duration+2*plan.Margin) + t.Phase
	}
	return t.Test
}

// PerftestOptions is what perftest's dialect needs and the plan does not say.
type PerftestOptions struct {
	// Version is the perftest version to advertise: "6.27" as a client. From "6.28" on the parameters are negotiated.
	// A server chooses by the client's version unless this is set.
	Version string
	// Gbits tells that this end's figures cross the wire in Gb/s (--report_gbits), not MiB/s. A server that negotiates
	// follows its client.
	Gbits bool
	// NoMarker hides that we are gobw, so that the peer speaks perftest's dialect even if it could speak ours.
	NoMarker bool
}

// Check refuses versions that cannot be advertised.
func (o PerftestOptions) Check() error {
	if o.Version == "" {
		return nil
	}
	v, err := parseVersion(o.Version)
	if err == nil && v < versionOldest {
		err = fmt.Errorf("version %s: every perftest refuses one below %s", o.Version, versionOldest)
	}
	return err
}

// DialOptions says how to reach a server. The zero value works.
type DialOptions struct {
	Timeouts Timeouts
	Perftest PerftestOptions
	Program  string        // name and version of this program, for the peer's log: "gobw 1.0"
	Source   netip.Addr    // local address to connect from; invalid: the system's choice
	Network  string        // "tcp" (default), "tcp4" or "tcp6"
	Wait     time.Duration // how long to go on trying while the server refuses connections or is busy; 0: one try
	// RDMA makes the conversation one by RDMA CM on this device (perftest's -z and -R), in perftest's dialect; nil: TCP.
	RDMA verbs.Device
}

// ListenOptions says how to serve. The zero value listens on every address at [DefaultPort].
type ListenOptions struct {
	Address   string // "host:port", ":port"; empty: ":18515"
	Timeouts  Timeouts
	Perftest  PerftestOptions
	Program   string
	Allow     []netip.Prefix // clients admitted; empty: all
	MaxMemory uint64         // bytes that a plan of our dialect may need; 0: no limit
	Log       *slog.Logger   // nil: silent
	// LocalFacts describes this end (page, cache line, MTU, outstanding reads) before a plan is known. It lets a client
	// of perftest 6.28 or later, which says all of its test, be served without a plan; nil: such clients are refused.
	LocalFacts func() (Facts, error)
	// RDMA listens by RDMA CM on this device, for perftest's dialect; nil: TCP. The device outlives the sessions.
	RDMA verbs.Device
	// Once makes the listener close as soon as it has a client, as stock perftest servers do.
	Once bool
}
