package plan

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/verbs"
)

// Limits is what this end has: its device, its memory, its side of the connection. While a command line is read, no
// device is known, and none limits the test.
type Limits struct {
	Device    verbs.DeviceInfo
	Port      verbs.PortInfo
	PageBytes int  // 0: 4096
	LineBytes int  // of a cache line; 0: 64
	CPUs      int  // that this end may run on; 0: not known
	Rails     int  // devices that this end runs at once, of which Device and Port are the common part; 0: not known
	Dialled   bool // this end is the client

	// List is what the plan's descriptors name, scaled as the plan says; nil: this end does not know it yet.
	List *pattern.Transfer
}

// known tells whether there is a device.
func (l *Limits) known() bool { return l.Device.Name != "" }

// Peer is what the other end has told. The zero Peer is one of ours that has told nothing yet. A test that is settled
// with the zero Peer may be proposed; before anything is made, it is settled again with what the peer told.
type Peer struct {
	Perftest    bool // it speaks perftest's dialect
	PageBytes   int
	LineBytes   int
	MTU         verbs.MTU
	Outstanding int // READs and atomics
}

// Role is an end's part in a test. It does not depend on who dialled.
type Role uint8

// Roles.
const (
	Initiator Role = iota // posts the requests (in a bidirectional test: like the other end)
	Target                // is written to, read from, or receives
)

func (r Role) String() string { return [...]string{"initiator", "target"}[r] }

// Settled is a test as one end runs it: nothing in it is open. [Settle] makes it, and nothing changes it.
type Settled struct {
	Spec        Spec // complete
	Row         Row
	Role        Role
	Point       *Point    // of the non-contiguous experiment; nil in other tests
	MTU         verbs.MTU // of the path; 0: no end knows it
	Outstanding int       // READs and atomics in flight per queue pair
	Buffers     Buffers
	Queues      Queues
	Memory      Memory
	Notes       []string // what was asked for and has no effect at this end

	limits Limits
	peer   Peer

	openSizes  bool // sizes are the path's to choose, see Proposal
	openLength bool // nobody asked for a count or a time
	largest    int  // bytes of the largest message
	page, line int
	spread     int // places of a test in which every message is compared; 0: as perftest
	places     int // messages that may be sent before one lies over another
	rxDepth    int
}

// Proposal is the test as the peer is asked for it: in full, but for sizes that the path decides, for a count that
// follows from the rest, and for the threads of this end where the peer neither posts nor receives.
func (s *Settled) Proposal() Spec {
	p := s.Spec
	if s.openSizes {
		p.Sizes = nil
	}
	if s.openLength && s.Ours() {
		p.Iterations = 0
	}
	if p.Threads == 1 || !s.sharesThreads() {
		p.Threads = 0
	}
	if p.Rails == 1 {
		p.Rails = 0
	}
	return p
}

// Agreed completes the peer's answer with the local settings that Proposal left out.
func (s *Settled) Agreed(spec Spec) Spec {
	if !s.sharesThreads() {
		spec.Threads = s.Spec.Threads
	}
	return spec
}

// sharesThreads tells whether the peer works with as many threads: it posts or receives, too.
func (s *Settled) sharesThreads() bool {
	other := Target - s.Role
	return s.sends(other) || s.receives(other)
}

// CountGiven is the count of messages that was asked for; 0: none was.
func (s *Settled) CountGiven() uint64 {
	if s.openLength {
		return 0
	}
	return s.Spec.Iterations
}

// Ours tells whether the other end is one of ours.
func (s *Settled) Ours() bool { return !s.peer.Perftest }

// FlowLabel is queue pair q's.
func (s *Settled) FlowLabel(q int) uint32 {
	if len(s.Spec.FlowLabels) == 0 {
		return 0
	}
	return s.Spec.FlowLabels[q%len(s.Spec.FlowLabels)]
}

// Answers tells whether both ends send in turn: a latency test of an operation that the peer can see arrive.
func (s *Settled) Answers() bool { return s.Spec.Kind == Latency && !s.Row.Responded }

// Sends tells whether this end posts requests.
func (s *Settled) Sends() bool { return s.sends(s.Role) }

// Receives tells whether this end posts receives.
func (s *Settled) Receives() bool { return s.receives(s.Role) }

func (s *Settled) sends(r Role) bool { return r == Initiator || s.Spec.Bidirectional || s.Answers() }

func (s *Settled) receives(r Role) bool {
	return s.Row.NeedsReceive() && (r == Target || s.Spec.Bidirectional || s.Answers())
}

// OneSided tells whether the target posts nothing: it is written to or read from, and only
// the initiator knows how far the test is.
func (s *Settled) OneSided() bool {
	return s.Row.Addressed() && !s.Row.NeedsReceive() && !s.Spec.Bidirectional && !s.Answers()
}

// SendsToGroup tells whether what this end sends goes to a multicast group that the peer has joined.
func (s *Settled) SendsToGroup() bool { return s.Spec.Multicast && s.Sends() }

// Group is the multicast group that this end joins to receive; false: none. It is the group that the user named, or a
// random one of the family of this end's address, which the peer is told. If both ends receive, the client joins the
// next group: an end hears also what it sends to its own group. perftest does the same if it is told no group.
func (s *Settled) Group(own verbs.GID) (verbs.GID, bool) {
	if !s.Spec.Multicast || !s.Receives() {
		return verbs.GID{}, false
	}
	var g verbs.GID
	switch {
	case s.Spec.MGID != nil:
		if g = *s.Spec.MGID; s.limits.Dialled && s.Sends() {
			g[len(g)-1]++
		}
	case own.Addr().Is4():
		// RFC 2365: of the site
		g = verbs.GIDFromAddr(netip.AddrFrom4([4]byte{239, 255, byte(rand.Uint32()), byte(rand.Uint32())}))
	default:
		g = verbs.GID{0: 0xff, 1: 0x12} // RFC 4291: of the link, not assigned for good
		binary.BigEndian.PutUint32(g[12:], rand.Uint32())
	}
	return g, true
}

// MovesFirst tells whether this end makes the first move of a latency test.
func (s *Settled) MovesFirst() bool {
	return (s.Role == Initiator) != (s.Answers() && s.Row.TargetFirst)
}

// StampedByDevice tells whether this end times the test by the device's clock.
func (s *Settled) StampedByDevice() bool {
	return s.Spec.Timestamps == DeviceClock && s.Role == Initiator
}

// LargestSize is the largest message in bytes.
func (s *Settled) LargestSize() int { return s.Spec.LargestSize() }

// OpenEnded tells whether receives are kept posted across rounds, for any number of messages.
func (s *Settled) OpenEnded() bool { return s.Ours() || s.Spec.Infinite }

// ReceivesPerMessage is 1 but where a message is a chain of SENDs.
func (s *Settled) ReceivesPerMessage() uint64 {
	if s.Point != nil && !s.Point.Listed() {
		return uint64(max(s.Point.Load.RecvWRs, 1))
	}
	return 1
}

// Strict tells whether memory is registered without relaxed ordering.
func (s *Settled) Strict() bool {
	return s.Spec.StrictOrdering || s.Row.TargetFirst && s.Spec.Kind == Latency
}
