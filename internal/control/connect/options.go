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
	// Plans gives the slot, and returns the session, only once the client's plan is known. It may then be handed over.
	Plans bool
	// Told is the plan of perftest's clients that do not tell theirs; nil: they are refused.
	Told *plan.Spec
	// Admit refuses plans; nil: none.
	Admit func(*plan.Spec) error
	// Serve takes each client whose plan has come, in a goroutine of its own, until the context ends. It reads the plan, and takes a slot
	// where it may be run. nil: Accept returns clients that have a slot.
	Serve func(context.Context, *Client)
	// LocalFacts describes this end (page, cache line, MTU, outstanding reads) before a plan is known. It lets a client
	// of perftest 6.28 or later, which says all of its test, be served without a plan; nil: such clients are refused.
	LocalFacts func() (control.Facts, error)
	// RDMA listens by RDMA CM on this device, for perftest's dialect; nil: TCP. The device outlives the sessions.
	RDMA verbs.Device
	// Once makes the listener close as soon as it has a client, as stock perftest servers do.
	Once bool
}
