package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Policy is what an end grants to a test that somebody else proposes. Zero fields grant everything.
type Policy struct {
	Bytes      uint64         // memory at this end, see [Memory]
	Duration   time.Duration  // of the whole test: what is settled, and what is measured
	QueuePairs int            // of one test
	Rounds     uint64         // measured and unmeasured ones, parts of verified ones included
	Records    uint64         // rows of a result
	Operations []Operation    // those allowed
	Addresses  []netip.Prefix // to which traffic may go
}

// check notes what the policy does not grant.
func (p Policy) check(s *Settled, wrong *Faults) {
	need, length, rounds, records := s.memory.Total(), s.Length(), s.RoundCount(), s.RecordCount()
	wrong.If(p.Bytes > 0 && need > p.Bytes, "the test needs %d bytes at this end (%s); it grants %d", need, s.memory, p.Bytes)
	wrong.If(p.Duration > 0 && length > p.Duration, "the test takes %v; this end grants %v", length, p.Duration)
	wrong.If(p.Duration > 0 && s.spec.Infinite, "the test runs until it is stopped; this end grants %v", p.Duration)
	wrong.If(p.QueuePairs > 0 && s.spec.QPs > p.QueuePairs, "%d queue pairs; this end grants %d", s.spec.QPs, p.QueuePairs)
	wrong.If(p.Rounds > 0 && rounds > p.Rounds, "%d rounds; this end grants %d", rounds, p.Rounds)
	wrong.If(p.Records > 0 && records > p.Records, "%d records; this end grants %d", records, p.Records)
	if len(p.Operations) > 0 && !slices.Contains(p.Operations, s.spec.Operation) {
		names := make([]string, len(p.Operations))
		for i, o := range p.Operations {
			names[i] = string(o)
		}
		wrong.Add("operation %s; this end grants %s", s.spec.Operation, strings.Join(names, ", "))
	}
}

// CheckAddress refuses an address to which no traffic may go, whoever asks for it.
func (p Policy) CheckAddress(a netip.Addr) error {
	a = a.Unmap()
	switch {
	case !a.IsValid() || a.IsUnspecified():
		return fmt.Errorf("the peer's address %v is none", a)
	case a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return fmt.Errorf("the peer's address %v stands for many", a)
	}
	return p.grants(a)
}

// CheckGroup refuses a multicast group that the peer of a multicast test wants traffic to. An end that limits where its traffic
// goes sends to no group, unless it is told to.
func (p Policy) CheckGroup(g netip.Addr) error {
	if !g.IsMulticast() {
		return fmt.Errorf("the peer's address %v is no multicast group: give --mcg (-g) to both ends", g)
	}
	return p.grants(g)
}

func (p Policy) grants(a netip.Addr) error {
	if p.Addresses == nil {
		return nil
	}
	for _, prefix := range p.Addresses {
		if prefix.Contains(a) {
			return nil
		}
	}
	return fmt.Errorf("the peer wants traffic to %v; this end sends to %s", a, prefixText(p.Addresses))
}

func prefixText(list []netip.Prefix) string {
	if len(list) == 0 {
		return "nobody"
	}
	names := make([]string, len(list))
	for i, prefix := range list {
		names[i] = prefix.String()
		if prefix.IsSingleIP() {
			names[i] = prefix.Addr().String()
		}
	}
	return strings.Join(names, ", ")
}
