package endpoint

import (
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strings"

	"github.com/gobw/gobw/verbs"
)

// Ends are how the ends of the control connection know each other.
type Ends struct {
	Local, Remote netip.Addr // either may be invalid
	Dialled       bool       // this end is the client
}

// ChooseGIDs picks the pair of addresses that can reach each other: of the same type and family; RoCE v2 before v1,
// IPv4 before IPv6, global before link-local, then the addresses of the control connection, then the longest common
// prefix. Both ends call it with the same tables and come to the same pair: of equal ones the first of the client's. An
// end that wants one line passes only that one.
func ChooseGIDs(mine, theirs []verbs.GIDEntry, ends Ends) (own, other verbs.GIDEntry, err error) {
	local, remote := bare(ends.Local), bare(ends.Remote)
	var best []int
	for _, m := range mine {
		for _, t := range theirs {
			if m.Type != t.Type || !reachable(m.GID, t.GID) {
				continue
			}
			client := m.Index
			if !ends.Dialled {
				client = t.Index
			}
			score := []int{
				int(m.Type),
				yes(m.GID.Addr().Is4()),
				yes(!m.GID.IsLinkLocal()),
				yes(m.GID.Addr() == local) + yes(t.GID.Addr() == remote),
				commonPrefix(m.GID, t.GID),
				-m.Index - t.Index,
				-client,
			}
			if best == nil || slices.Compare(score, best) > 0 {
				own, other, best = m, t, score
			}
		}
	}
	if best == nil {
		return own, other, &verbs.Error{
			Verb: "choose GIDs",
			Err: fmt.Errorf("no GID of one end reaches a GID of the other: this end has %s; the peer has %s",
				tableText(mine), tableText(theirs)),
			Fix: "give both interfaces addresses of one family (IPv4 on both, or IPv6 on both), or choose with -x on each end",
		}
	}
	return own, other, nil
}

// bare is an address as a GID has it: without a zone, and IPv4 in its own form.
func bare(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// GIDWithIndex is the line of the table with that index.
func GIDWithIndex(table []verbs.GIDEntry, index int) (verbs.GIDEntry, error) {
	for _, e := range table {
		if e.Index == index {
			return e, nil
		}
	}
	return verbs.GIDEntry{}, fmt.Errorf("GID index (-x) %d is empty; there are: %s", index, tableText(table))
}

func reachable(a, b verbs.GID) bool {
	x, y := a.Addr(), b.Addr()
	return x.Is4() == y.Is4() && x.IsLoopback() == y.IsLoopback() && a.IsLinkLocal() == b.IsLinkLocal()
}

func commonPrefix(a, b verbs.GID) int {
	for i := range a {
		if x := a[i] ^ b[i]; x != 0 {
			return i*8 + bits.LeadingZeros8(x)
		}
	}
	return len(a) * 8
}

func tableText(t []verbs.GIDEntry) string {
	if len(t) == 0 {
		return "none"
	}
	var s []string
	for _, e := range t {
		s = append(s, fmt.Sprintf("%d: %v (%v)", e.Index, e.GID.Addr(), e.Type))
	}
	return strings.Join(s, ", ")
}

func yes(b bool) int {
	if b {
		return 1
	}
	return 0
}
