package plan

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/gobw/gobw/verbs"
)

// Policy is what an end grants to a test that somebody else proposes. Zero fields grant everything.
type Policy struct {
	Bytes      uint64        // memory at this end, see [Memory]
	Duration   time.Duration // of the whole test: what is settled, and what is measured
	QueuePairs int           // of one test
	Rounds     uint64        // measured and unmeasured ones, parts of verified ones included
	Records    uint64        // rows of a result
	Operations []Operation   // those allowed
	Data       DataPolicy
}

// DataPolicy is where the traffic of this end may go. A peer that names another's address as its own
// would aim it at somebody else. The peer's end of the control connection has shown that it is there.
// The zero DataPolicy lets it go anywhere.
type DataPolicy struct {
	Peer  netip.Addr     // of the control connection
	Bound bool           // the device's address is that of the control connection, so the peer's is too
	Allow []netip.Prefix // where else it may go
}

// CheckAddress refuses an address to which this end's traffic may not go. Nobody sends to an address that stands
// for many. Else a client's user has asked for the test, so only what goes astray for certain is refused; a
// server's has not: of addresses that are not the client's a hardware device sends a reliable connection's first
// packets, and no more until they are acknowledged.
func (s *Settled) CheckAddress(a netip.Addr, d DataPolicy) error {
	a = a.Unmap()
	if !a.IsValid() || a.IsUnspecified() {
		return fmt.Errorf("the peer's address %v cannot be used", a)
	}
	many := a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255})
	switch {
	case s.SendsToGroup() && !a.IsMulticast():
		return fmt.Errorf("the peer's address %v is no multicast group: give --mcg (-g) to both ends", a)
	case many && !s.SendsToGroup():
		return fmt.Errorf("the peer's address %v is not the address of one host", a)
	case !d.Peer.IsValid() || s.limits.Dialled && many:
		return nil
	}
	own := d.Peer.Unmap().WithZone("")
	if a == own || own.IsLoopback() && !many { // a peer on this host sends whatever it likes without our help
		return nil
	}
	for _, p := range d.Allow {
		if p.Contains(a) {
			return nil
		}
	}
	unasked := s.Sends() && s.Spec.Transport != verbs.RC
	switch {
	case s.limits.Dialled && d.Bound && unasked:
		return fmt.Errorf("the server at %v asks for data at %v, which may not be its own address: "+
			"give that address as HOST, or choose another GID (-x) at the server", own, a)
	case !s.limits.Dialled && (d.Bound || a.IsLoopback() || unasked):
		return fmt.Errorf("the client at %v asks for data at %v, which may not be its own address: "+
			"choose another GID (-x), or start serve with --data-allow %v", own, a, a)
	}
	return nil
}
