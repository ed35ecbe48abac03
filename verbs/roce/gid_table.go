package roce

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/wire"
)

// gid is a line of the GID table: an address of this machine.
type gid struct {
	addr     netip.Addr // without zone
	zone     uint32     // index of its interface
	name     string
	mtu      int // of the interface
	loopback bool
	virtual  bool // no hardware behind the interface
	gone     bool // the address was on this machine, and is not now
}

// gidTable keeps the index of each address for as long as the device is bound, as a NIC does: addresses
// come and go (the link-local one of an interface appears a second after it is up), and an index
// already told must not change its meaning.
type gidTable []gid

// update takes over what the machine has now: new addresses go to the end, and those that vanished keep their line.
func (t *gidTable) update(now []gid) {
	for i := range *t {
		(*t)[i].gone = true
	}
	for _, g := range now {
		if i := slices.IndexFunc(*t, func(old gid) bool { return old.addr == g.addr && old.zone == g.zone }); i >= 0 {
			(*t)[i] = g
		} else {
			*t = append(*t, g)
		}
	}
}

// readGIDs lists the addresses of this machine as rxe would for the interface that holds first, and after them those of
// the other interfaces: per interface the link-local address, then the others in the order they were added. A loopback
// address that is not assigned (127.0.0.2) is a line too when it is first.
func readGIDs(first netip.Addr) ([]gid, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var head, tail []gid
	for i := range interfaces {
		f := &interfaces[i]
		if f.Flags&net.FlagUp == 0 {
			continue
		}
		list, holds := interfaceGIDs(f, first)
		if holds {
			head = append(head, list...)
		} else {
			tail = append(tail, list...)
		}
	}
	return append(head, tail...), nil
}

func interfaceGIDs(f *net.Interface, first netip.Addr) (list []gid, holds bool) {
	addrs, err := f.Addrs()
	if err != nil {
		return nil, false
	}
	loopback := f.Flags&net.FlagLoopback != 0
	line := func(a netip.Addr) gid {
		return gid{
			addr: a, zone: uint32(f.Index), name: f.Name, mtu: f.MTU, loopback: loopback, virtual: loopback || isVirtual(f.Name),
		}
	}
	var local, rest []gid
	for _, x := range addrs {
		n, ok := x.(*net.IPNet)
		if !ok {
			continue
		}
		a, ok := netip.AddrFromSlice(n.IP)
		if !ok {
			continue
		}
		a = a.Unmap().WithZone("")
		switch {
		case a == first:
			holds = true
			rest = append([]gid{line(a)}, rest...)
		case a.Is6() && a.IsLinkLocalUnicast():
			local = append(local, line(a))
		default:
			rest = append(rest, line(a))
		}
	}
	if loopback && !holds && first.IsLoopback() && first.Is4() {
		holds = true
		rest = append([]gid{line(first)}, rest...)
	}
	return append(local, rest...), holds
}

// isVirtual tells whether an interface has no device behind it (veth, tap, bridge), as far as sysfs says.
func isVirtual(name string) bool {
	if _, err := os.Stat(filepath.Join("/sys/class/net", name)); err != nil {
		return false
	}
	_, err := os.Stat(filepath.Join("/sys/class/net", name, "device"))
	return os.IsNotExist(err)
}

// mostHeaders is what the largest packet has besides its payload: IPv6, UDP, BTH, RETH,
// immediate data and ICRC. rxe counts 80.
const mostHeaders = 40 + wire.UDPBytes + wire.BTHBytes + wire.RETHBytes + wire.ImmediateBytes + wire.ICRCBytes

// activeMTU is the largest path MTU an interface carries.
func activeMTU(interfaceMTU int) verbs.MTU {
	best := verbs.MTU256
	for m := verbs.MTU256; m <= verbs.MTU4096; m++ {
		if m.Bytes()+mostHeaders <= interfaceMTU {
			best = m
		}
	}
	return best
}
