package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// AddrOf is a TCP address with IPv4 in its own form.
func AddrOf(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	p := t.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}

// Ends are the two ends of a control connection, which sessions of every dialect know.
type Ends struct {
	Conn   net.Conn
	Client bool // this end has dialled
}

// Dialled tells whether this end is the client.
func (e Ends) Dialled() bool { return e.Client }

// LocalAddr is this end's address of the control connection.
func (e Ends) LocalAddr() netip.Addr { return AddrOf(e.Conn.LocalAddr()).Addr() }

// RemoteAddr is the peer's address and port.
func (e Ends) RemoteAddr() netip.AddrPort { return AddrOf(e.Conn.RemoteAddr()) }

// ServerPort is the port on which the server was found.
func (e Ends) ServerPort() uint16 {
	if e.Client {
		return AddrOf(e.Conn.RemoteAddr()).Port()
	}
	return AddrOf(e.Conn.LocalAddr()).Port()
}

// Dialect is the language of a session.
type Dialect string

// Dialects.
const (
	Ours     Dialect = "gobw/1"
	Perftest Dialect = "perftest"
)

// Address is one queue pair as the peer must know it.
type Address struct {
	LID         uint16    `json:"lid,omitempty"`
	QPN         uint32    `json:"qpn"`
	PSN         uint32    `json:"psn"` // the sender's first send PSN
	RKey        uint32    `json:"rkey"`
	Addr        uint64    `json:"addr"`
	Bytes       uint64    `json:"bytes,omitempty"` // how much memory lies there (ours only)
	GID         verbs.GID `json:"gid"`
	HasGID      bool      `json:"has_gid"`
	Outstanding int       `json:"outstanding"`      // READs and atomics this end serves and starts
	Window      int       `json:"window,omitempty"` // bytes that may be in flight to a software device (ours only)
	SRQN        uint32    `json:"srqn,omitempty"`
}

// Impossible says why this cannot be a queue pair's; empty: it can. It comes from another host.
func (a Address) Impossible() string {
	if a.QPN > 0xff_ffff || a.PSN > 0xff_ffff || a.Outstanding < 0 || a.Window < 0 || a.Addr+a.Bytes < a.Addr {
		return fmt.Sprintf("QPN %#x, PSN %#x, %d outstanding, a window of %d bytes, %d bytes at %#x", a.QPN, a.PSN,
			a.Outstanding, a.Window, a.Bytes, a.Addr)
	}
	return ""
}

// Facts is what an end says of itself before addresses are made.
type Facts struct {
	PageBytes      int                `json:"page_bytes"`
	CacheLineBytes int                `json:"cache_line_bytes"`
	MTU            verbs.MTU          `json:"mtu"` // active or chosen; both ends use the smaller
	MaxOutstanding int                `json:"max_outstanding"`
	GIDs           []verbs.GIDEntry   `json:"gids,omitempty"`   // ours only
	Rails          [][]verbs.GIDEntry `json:"rails,omitempty"`  // ours only: the tables of the devices after the first
	Limits         *verbs.Limits      `json:"limits,omitempty"` // ours only
	List           []byte             `json:"list,omitempty"`   // ours only: the client's descriptors, packed
}

// Phase names a point at which both ends meet. The dialect decides what, if anything, crosses the wire there.
type Phase uint8

// Phases, in order. Ready and Done repeat for each size (and run).
const (
	PhaseListening Phase = iota // with RDMA CM: the server listens for queue pairs
	PhaseJoined                 // with RDMA CM: the queue pairs are connected, before addresses
	PhaseConnected              // queue pairs are in RTR or RTS on this end
	PhaseReady                  // this end's receives are posted and its job is prepared
	PhaseDone                   // this end's job for one size has ended
	PhaseFinished               // all sizes are done
)

func (p Phase) String() string {
	return [...]string{"listening", "joined", "connected", "ready", "done", "finished"}[p]
}

// Figures is one end's measurement as it crosses the wire.
type Figures struct {
	Size         uint64  `json:"size"`
	Iterations   uint64  `json:"iterations"` // over all queue pairs
	PeakBits     float64 `json:"peak_bits_per_s"`
	AverageBits  float64 `json:"average_bits_per_s"`
	MessagesPerS float64 `json:"messages_per_s"`
	// Record is the end's whole report.Record (ours only).
	Record json.RawMessage `json:"record,omitempty"`
}

// Session is one control conversation, seen from either end, in either dialect: bench drives it in the order of the
// methods and never asks which dialect it is. Every method has a deadline of its own and ends with the context; each
// returns a [*PeerError] if the other end said what went wrong, and [ErrPeerLost] if it went away or fell silent.
type Session interface {
	Dialect() Dialect
	// Dialled tells whether this end is the client.
	Dialled() bool
	// LocalAddr is this end's address of the control connection: the address that the peer can reach.
	LocalAddr() netip.Addr
	// RemoteAddr is the peer's address and port.
	RemoteAddr() netip.AddrPort
	// ServerPort is the port on which the server was found.
	ServerPort() uint16
	// PeerProgram names the program at the other end: "gobw 1.0", "perftest 6.06".
	PeerProgram() string
	// Propose agrees on the plan. In our dialect the client's plan travels and the server returns it (its argument is
	// ignored and may be nil); in perftest's the argument is this end's own plan and comes back, checked against the
	// peer's where the version tells. It returns nil, nil at the server when the client has no further test.
	Propose(ctx context.Context, p *plan.Spec) (*plan.Spec, error)
	// Facts exchanges what the two systems are. Called after Propose.
	Facts(ctx context.Context, local Facts) (remote Facts, err error)
	// Exchange swaps addresses, one per queue pair.
	Exchange(ctx context.Context, local []Address) (remote []Address, err error)
	// Sync meets the peer at a phase. size is the index in the plan's sizes for Ready and Done; last tells the final one.
	Sync(ctx context.Context, phase Phase, size int, last bool) error
	// Report swaps figures after the phase Done of each size. Where perftest's dialect has no report at that point,
	// nothing crosses the wire; a remote.Iterations of 0 says that the peer gave no figures.
	Report(ctx context.Context, local Figures) (remote Figures, err error)
	// Watch returns a context that ends, with its cause, when the peer is lost or reports an error while this end is
	// measuring and not in a call. In perftest's dialect only a closed connection shows.
	Watch(ctx context.Context) (context.Context, context.CancelFunc)
	// Fail tells the peer why this end gives up (ours only) and closes.
	Fail(err error)
	// Close says goodbye as the dialect does.
	Close() error
}
