package control

import (
	"time"

	"github.com/gobw/gobw/internal/plan"
)

// DefaultPort is the TCP port of both dialects: perftest's.
const DefaultPort = 18515

// Timeouts bound how long a session waits. Zero fields take the default shown.
type Timeouts struct {
	// Peer is how long silence is borne: 3 s. In our dialect heartbeats show life; in perftest's, TCP keep-alives do.
	Peer time.Duration
	// Hello is how long the first message may take, and from there the first plan, in perftest's dialect each message until
	// then: 10 s. ib_write_bw sleeps a second before its own.
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

// WithDefaults fills in the defaults.
func (t Timeouts) WithDefaults() Timeouts {
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

// ForPhase is the time limit of a wait at p under a plan.
func (t Timeouts) ForPhase(p Phase, spec *plan.Spec) time.Duration {
	if p != PhaseDone && p != PhaseFinished {
		return t.Phase
	}
	if spec != nil && spec.Infinite {
		return 100 * 365 * 24 * time.Hour // until somebody stops it
	}
	if spec != nil && spec.Duration > 0 {
		runs := time.Duration(max(spec.Runs, 1))
		// A perftest server passes all sizes without a word and waits for the last one.
		return runs*time.Duration(max(len(spec.Sizes), 1))*(spec.Duration+2*spec.Margin) + t.Phase
	}
	return t.Test
}
