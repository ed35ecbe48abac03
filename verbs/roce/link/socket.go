package link

import (
	"net/netip"

	"github.com/gobw/gobw/verbs/roce/wire"
	"github.com/gobw/gobw/verbs/tick"
)

// Socket is a UDP socket bound to a port of one local address. One that only sends may be connected to a peer. It
// belongs to one goroutine at a time.
type Socket struct {
	Local       netip.Addr // without zone
	Zone        uint32     // index of its interface
	Port        uint16
	BufferBytes int // of the receive buffer, as the kernel counts

	segmentation bool // the kernel cuts a batch into its packets
	joins        bool // the kernel joins what arrives in a row
	singles      singles
	sources      sourceTable
	treated      Service // what the kernel was told last
	seen         Service // how what was received last was treated, where TellService was called
	tells        bool    // the kernel says so
	system
}

// NewSocket describes a socket that nothing arrives at but by hand; [Open] opens one. Packets are received by
// the clock.
func NewSocket(local netip.Addr, zone uint32, port uint16, clock tick.Rate) *Socket {
	return &Socket{Local: local.WithZone("").Unmap(), Zone: zone, Port: port, sources: newSourceTable(clock)}
}

// Received is what one receive has brought: packets of one source, all of Segment bytes but the last.
type Received struct {
	From    *Source
	Bytes   []byte
	Segment int
	Proven  bool // it is one packet, and its ICRC is right
}

// Receive takes what has arrived into b: one packet, or several that the kernel has joined. It never blocks: ok is
// false when there is nothing. From is nil where the packet cannot be a peer's.
func (s *Socket) Receive(b []byte) (r Received, ok bool) {
	n, segment := s.receive(b)
	if n <= 0 {
		return r, n == 0 // a datagram may be empty
	}
	r = Received{From: s.source(), Bytes: b[:n], Segment: segment}
	if segment != 0 || r.From == nil {
		return r, true
	}
	switch r.Segment = r.From.segmentOf(r.Bytes); {
	case r.Segment == 0:
		r.Segment = n
		s.singles = 0
	case r.Segment < n:
		s.singles.notice(true)
	default:
		r.Proven = true
	}
	return r, true
}

// Segments tells whether the kernel cuts batches into their packets.
func (s *Socket) Segments() bool { return s.segmentation }

// Service is how a path's packets are to be treated on their way: it goes into the IP header and to the kernel's queues
// (annex A17.4.5.2).
type Service struct {
	Class     uint8  // traffic class: TOS on IPv4
	Level     uint8  // SL: the kernel's packet priority, from which a VLAN's PCP is made
	Hops      uint8  // hop limit: TTL on IPv4
	FlowLabel uint32 // IPv6 alone has it
}

// DefaultHops is the hop limit of packets that nobody chose one for.
const DefaultHops = 64

// Path is a way from a socket to a peer's address.
type Path struct {
	Socket   *Socket
	Remote   netip.Addr
	Service  Service
	Segments int // most packets of one send: 1 without segmentation
	uncut    int // sends in a row that the kernel did not cut

	name sockaddr  // the peer, as the kernel wants it
	flow wire.Flow // what we send
}

// NewPath makes the path from s to remote, an address of the same family.
func NewPath(s *Socket, remote netip.Addr, v Service) (Path, error) {
	remote = remote.WithZone("")
	flow, err := wire.NewFlow(netip.AddrPortFrom(s.Local, s.Port), netip.AddrPortFrom(remote, wire.Port))
	p := Path{
		Socket: s, Remote: remote, Service: v, Segments: 1, name: makeSockaddr(remote, s.Zone, wire.Port, v.FlowLabel),
		flow: flow,
	}
	if s.segmentation {
		p.Segments = MaxSegments
	}
	return p, err
}
