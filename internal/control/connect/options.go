package connect

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/perftest"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// DialOptions says how to reach a server. The zero value works.
type DialOptions struct {
	Timeouts control.Timeouts
	Perftest perftest.Options
	Program  string        // name and version of this program, for the peer's log: "gobw 1.0"
	Source   netip.Addr    // local address to connect from; invalid: the system's choice
	Network  string        // "tcp" (default), "tcp4" or "tcp6"
	Wait     time.Duration // how long to go on trying while the server refuses connections or is busy; 0: one try
	Token    []byte        // a shared secret that both ends prove; nil: none
	// RDMA makes the conversation one by RDMA CM on this device (perftest's -z and -R), in perftest's dialect; nil: TCP.
	RDMA verbs.Device
}

// ListenOptions says how to serve. The zero value listens on every address at [DefaultPort].
type ListenOptions struct {
	Address  string // "host:port", ":port"; empty: ":18515"
	Timeouts control.Timeouts
	Perftest perftest.Options
	Program  string
	Allow    []netip.Prefix // clients admitted; empty: all
	Clients  int            // slots: clients served at once; 0: 1
	Token    []byte         // a shared secret that clients must prove; nil: none
	Log      *slog.Logger   // nil: silent
	// Plans gives clients of ours a slot only once they have sent a plan.
	Plans bool
	// Admit is told each client's plan, and refuses it by an error; nil: none is refused.
	Admit func(*plan.Spec) error
	// Await bounds the wait for a client's next step, in our dialect; nil: the timeouts do.
	Await func(ctx context.Context, measuring bool) (context.Context, context.CancelFunc)
	// LocalFacts describes this end (page, cache line, MTU, outstanding reads) before a plan is known. It lets a client
	// of perftest 6.28 or later, which says all of its test, be served without a plan; nil: such clients are refused.
	LocalFacts func() (control.Facts, error)
	// RDMA listens by RDMA CM on this device, for perftest's dialect and Once; nil: TCP. The device outlives the sessions.
	RDMA verbs.Device
	// Once makes the listener close as soon as it has a client, as stock perftest servers do.
	Once bool
}
