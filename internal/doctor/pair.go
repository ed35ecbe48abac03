package doctor

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gobw/gobw/verbs"
)

// ExaminePair lists what keeps two ends apart: a is this end with its chosen device, b the peer with its.
func ExaminePair(a, b End) []Finding {
	var all []Finding
	for _, da := range a.Devices {
		for _, db := range b.Devices {
			all = append(all, pairMTU(da, db)...)
			all = append(all, pairGIDs(da, db)...)
		}
	}
	return all
}

func pairMTU(a, b Device) []Finding {
	if len(a.Ports) == 0 || len(b.Ports) == 0 || a.Ports[0].ActiveMTU == b.Ports[0].ActiveMTU {
		return nil
	}
	small, large := a, b
	if a.Ports[0].ActiveMTU > b.Ports[0].ActiveMTU {
		small, large = b, a
	}
	return []Finding{{
		"mtu-mismatch", Warning, small.Info.Name + " and " + large.Info.Name,
		fmt.Sprintf("active MTUs differ: %v and %v bytes; tests use %v", small.Ports[0].ActiveMTU, large.Ports[0].ActiveMTU, small.Ports[0].ActiveMTU),
		"the smaller costs bandwidth, and a path of both kinds drops what only one end can send",
		[]string{fmt.Sprintf("ip link set %s mtu 4200   # on the end of %s, and on the switch; or as large as the other end's",
			cmp.Or(small.Ports[0].NetInterface, "INTERFACE"), small.Info.Name)},
	}}
}

func pairGIDs(a, b Device) []Finding {
	if len(a.Ports) == 0 || len(b.Ports) == 0 || a.Ports[0].LinkLayer != verbs.LinkEthernet {
		return nil
	}
	kinds := func(d Device) []string {
		var k []string
		for _, g := range d.GIDs[d.Ports[0].Number] {
			if g.GID.IsLinkLocal() || g.GID.IsZero() {
				continue
			}
			family := "IPv6"
			if g.GID.Addr().Is4() {
				family = "IPv4"
			}
			k = append(k, g.Type.String()+" "+family)
		}
		return k
	}
	ka, kb := kinds(a), kinds(b)
	if slices.ContainsFunc(ka, func(k string) bool { return slices.Contains(kb, k) }) {
		return nil
	}
	return []Finding{{
		"roce-version", Problem, a.Info.Name + " and " + b.Info.Name,
		fmt.Sprintf("no GID of one kind on both ends: %v here, %v there", ka, kb),
		"both ends must use the same RoCE version and address family",
		[]string{"give both interfaces an address of one family; see 'gobw devices' on both ends, then choose with -x"},
	}}
}
