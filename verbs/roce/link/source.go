package link

import (
	"cmp"
	"net/netip"

	"github.com/gobw/gobw/verbs/roce/wire"
	"github.com/gobw/gobw/verbs/tick"
)

// Source is where packets come from: an address and UDP port of a peer, and what checking their ICRC takes.
type Source struct {
	Socket *Socket // at which they arrive
	Addr   netip.Addr
	Port   uint16
	known  bool // it has sent a packet whose ICRC was right
	flow   wire.Flow
	ids    *numbers // of its address
}

// sourceTable remembers the sources of a socket's packets in bounded memory: anybody may send to it. A source enters
// with its first right packet. Where there are too many, all are forgotten, and enter anew.
type sourceTable struct {
	known  map[netip.AddrPort]*Source
	ids    map[netip.Addr]*numbers // of known sources
	latest *Source                 // that of the latest datagram, if it is known
	other  Source                  // and else
	first  numbers                 // other's, where nothing is known of its address

	clock tick.Rate // by which packets are received
}

const (
	maxSources   = 512
	maxAddresses = 512
)

func newSourceTable(clock tick.Rate) sourceTable {
	return sourceTable{known: map[netip.AddrPort]*Source{}, ids: map[netip.Addr]*numbers{}, clock: clock}
}

// From returns the entry of a source, perhaps one that was just made and is not yet known; nil where its address is of
// the other family.
func (s *Socket) From(addr netip.Addr, port uint16) *Source {
	t, from := &s.sources, netip.AddrPortFrom(addr, port)
	if x := t.known[from]; x != nil {
		return x
	}
	flow, err := wire.NewFlow(from, netip.AddrPortFrom(s.Local, s.Port))
	if err != nil {
		return nil
	}
	t.other = Source{Socket: s, Addr: addr, Port: port, flow: flow, ids: t.ids[addr]}
	if t.other.ids == nil {
		t.first = numbers{}
		t.other.ids = &t.first
	}
	return &t.other
}

// keep makes a source known.
func (t *sourceTable) keep(x *Source) {
	if x.known {
		return
	}
	x.known = true
	if t.ids[x.Addr] == nil {
		if len(t.ids) >= maxAddresses {
			clear(t.ids)
		}
		ids := *x.ids
		x.ids = &ids
		t.ids[x.Addr] = x.ids
	}
	if len(t.known) >= maxSources {
		clear(t.known)
	}
	kept := *x
	t.known[netip.AddrPortFrom(x.Addr, x.Port)] = &kept
}

// source tells who sent the datagram received last.
func (s *Socket) source() *Source {
	if x := s.sources.latest; x != nil && s.sameSender() {
		return x
	}
	s.remember()
	addr, port := s.sender()
	x := s.From(addr, port)
	s.sources.latest = nil
	if x != nil && x.known {
		s.sources.latest = x
	}
	return x
}

// Verify checks a packet's ICRC and returns its IPv4 ID. place is its place in what the kernel joined.
func (x *Source) Verify(b []byte, place uint16, now tick.Time) (id uint16, ok bool) {
	if id, ok = x.flow.Solve(b, place); !ok {
		return 0, false
	}
	if id == place {
		x.Prove()
		return id, true
	}
	if !x.ids.expects(id, now, x.Socket.sources.clock) {
		return 0, false
	}
	x.Socket.sources.keep(x)
	return id, true
}

// Prove notes a packet whose IPv4 ID is its place: its ICRC is right beyond doubt.
func (x *Source) Prove() {
	x.Socket.sources.keep(x)
	x.ids.inPlace()
}

// numbers judges the IPv4 ID for which a packet's ICRC is right. A UDP socket does not show the ID, and for some
// ID one damaged packet of 2^15 seems right; so an address is held to the way in which it numbers its packets.
// Senders do it in one of three ways: this device by places (0, or the place in a segmented send), rxe by the
// kernel's counter of the destination, and some in no way that shows. With places a damaged packet passes with
// probability 2^-25, with a counter 2^-20. Only the first packet of an address, those after a minute of silence
// and those of the third kind pass with 2^-15.
type numbers struct {
	known     bool   // a packet has come
	counts    bool   // by a counter; else IDs are places
	strangers uint8  // packets in a row that did not fit; manyStrangers: it numbers them in no way
	stranger  uint16 // ID of the latest
	last      uint16 // counter
	at        tick.Time
}

const (
	// counterReach is how far the counter may run ahead between two packets that we see: others of its destination
	// use it too, and packets are lost. The kernel adds up to one per clock tick of idleness, at most 1000 a second,
	// on top (net/ipv4/route.c, ip_idents_reserve).
	counterReach = 1024
	// counterBack is how far behind a packet may be that was overtaken.
	counterBack = 256
	// manyStrangers packets that fit nothing, one after another, are no damage (2^-60) but a sender's way.
	manyStrangers = 4
	maxPlace      = MaxSegments
)

// expects tells whether a packet with this ID, which is not its place, may come from the source, and learns from it.
func (n *numbers) expects(id uint16, now tick.Time, clock tick.Rate) bool {
	overtaken, fits := false, id < maxPlace // segments before it were lost, or it was sent by itself
	if n.counts {
		reach := counterReach + int(min(clock.Duration(now-n.at).Milliseconds(), 1<<16))
		overtaken = n.last-id <= counterBack
		fits = overtaken || within(id, n.last, reach)
	}
	fits = fits || !n.known
	follows := n.strangers > 0 && within(id, n.stranger, counterReach) // two that follow each other: 2^-37
	switch {
	case n.strangers == manyStrangers:
		return true
	case !fits && !follows:
		n.stranger = id
		n.strangers++
		return n.strangers == manyStrangers
	case !overtaken && (n.counts || id >= maxPlace):
		n.counts, n.last, n.at = true, id, now
	}
	n.known, n.strangers = true, 0
	return true
}

// inPlace notes a packet whose ID is its place, which proves its ICRC right.
func (n *numbers) inPlace() {
	n.known = true
	if n.strangers < manyStrangers {
		n.strangers = 0
	}
}

// within tells whether a number is beyond another by at most reach.
func within(id, base uint16, reach int) bool { return id != base && int(id-base) <= reach }

// Datagram is a packet of the source that was received last, with the IP fields that its socket was told of,
// and else as a device of ours sends them.
func (x *Source) Datagram(b []byte, id uint16) *wire.Datagram {
	seen := &x.Socket.seen
	return &wire.Datagram{
		Source: netip.AddrPortFrom(x.Addr, x.Port), Dest: netip.AddrPortFrom(x.Socket.Local, x.Socket.Port),
		ID: id, Fragment: 0x4000, Payload: b, TrafficClass: seen.Class, Hops: cmp.Or(seen.Hops, DefaultHops),
		FlowLabel: seen.FlowLabel,
	}
}
