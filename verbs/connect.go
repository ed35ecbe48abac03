package verbs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
)

// Open opens the device of that name or, where name is empty, the first that can be opened, of providers in this order.
func Open(name string, providers ...Provider) (Device, error) {
	why := []error{errors.New("no RDMA device")}
	if name != "" {
		why[0] = fmt.Errorf("no device %q", name)
	}
	for _, p := range providers {
		names, err := p.Devices()
		why = append(why, err)
		for _, n := range names {
			if name != "" && n.Name != name {
				continue
			}
			d, err := p.Open(n.Name)
			if err == nil || name != "" {
				return d, err
			}
			why = append(why, err)
		}
	}
	return nil, errors.Join(why...)
}

// ChooseGID is the line of a port's GID table for a local address, such as that of a connection to the peer:
// the line of that address, or else the best one. A device that Rebinds is bound to the address. InfiniBand
// has LIDs and needs none: the zero entry.
func ChooseGID(d Device, port int, local netip.Addr) (GIDEntry, error) {
	local = local.Unmap().WithZone("")
	if d.Info().Rebinds {
		if err := d.Bind(local); err != nil {
			return GIDEntry{}, err
		}
		return d.DefaultGID()
	}
	p, err := d.Port(port)
	if err != nil || p.LinkLayer == LinkInfiniBand {
		return GIDEntry{}, err
	}
	table, err := d.GIDs(port)
	if err != nil {
		return GIDEntry{}, err
	}
	for _, g := range table {
		if g.GID.Addr() == local && g.Type == GIDRoCEv2 {
			return g, nil
		}
	}
	return BestGID(table, local)
}

// BestGID is the line of a GID table that reaches most peers: an IPv4 address before IPv6, RoCE v2 before v1, a global
// address before a link-local one, and then the local address of a connection, if there is one.
func BestGID(table []GIDEntry, local netip.Addr) (GIDEntry, error) {
	if len(table) == 0 {
		return GIDEntry{},
			&Error{Verb: "choose GID", Err: errors.New("the port has no GID"), Fix: "give its interface an address"}
	}
	local = local.Unmap().WithZone("") // as GIDs have it
	yes := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	return slices.MaxFunc(table, func(a, b GIDEntry) int {
		return cmp.Or(
			yes(a.GID.Addr().Is4())-yes(b.GID.Addr().Is4()), int(a.Type)-int(b.Type),
			yes(b.GID.IsLinkLocal())-yes(a.GID.IsLinkLocal()),
			yes(a.GID.Addr() == local)-yes(b.GID.Addr() == local), b.Index-a.Index,
		)
	}), nil
}

// Address is what one end of a connection tells the other before they can talk, over a
// socket or however else: it has a JSON form.
type Address struct {
	QPN    uint32 `json:"qpn"`
	PSN    uint32 `json:"psn"` // of the first packet it sends
	LID    uint16 `json:"lid,omitempty"`
	GID    GID    `json:"gid"`
	MTU    MTU    `json:"mtu"`              // the port's active MTU: both ends use the smaller
	Window int    `json:"window,omitempty"` // [Limits].ReceiveWindow
	// Memory that the peer may use, if there is any.
	Addr  uint64 `json:"addr,omitempty"`
	Bytes uint64 `json:"bytes,omitempty"`
	RKey  uint32 `json:"rkey,omitempty"`
}

// AddressOf is the address of a queue pair on a port of its device. Its packets
// begin with a random number. mr may be nil.
func AddressOf(qp QueuePair, port int, gid GIDEntry, mr MemoryRegion) (Address, error) {
	p, err := qp.Device().Port(port)
	if err != nil {
		return Address{}, err
	}
	info := qp.Device().Info()
	a := Address{
		QPN: qp.QPN(), PSN: rand.Uint32() & 0xffffff, LID: p.LID, GID: gid.GID, MTU: p.ActiveMTU,
		Window: info.Limits.ReceiveWindow,
	}
	if mr != nil {
		a.Addr, a.Bytes, a.RKey = mr.Addr(), uint64(mr.Len()), mr.RKey()
	}
	return a, nil
}

// Connect moves a queue pair from RESET or INIT to RTS, towards the peer's address. gid is the line of this end's GID
// table, mine what the peer was told. Of o it takes what is neither end's address: see [DefaultConnect].
func Connect(qp QueuePair, gid GIDEntry, mine, peer Address, o ConnectOptions) error {
	o.DestQPN, o.SendPSN, o.RecvPSN, o.PeerWindow = peer.QPN, mine.PSN, peer.PSN, peer.Window
	if o.PathMTU == 0 {
		o.PathMTU = min(mine.MTU, peer.MTU)
	}
	v := &o.AddressVector
	v.DLID, v.DGID, v.SGIDIndex, v.UseGID = peer.LID, peer.GID, gid.Index, !peer.GID.IsZero()
	if qp.State() == StateReset {
		if err := InitQP(qp, o); err != nil {
			return err
		}
	}
	return ConnectQP(qp, o)
}

// Await polls a completion queue until it has given n completions. Before that it ends with the first that is no
// success, as a [*CompletionError], or with the context. What has completed is returned in any case.
func Await(ctx context.Context, cq CompletionQueue, n int) ([]Completion, error) {
	list := make([]Completion, n)
	for done := 0; done < n; {
		found, err := cq.Poll(list[done:])
		if err != nil {
			return list[:done], err
		}
		for ; found > 0; found-- {
			if c := list[done]; c.Status != Success {
				return list[:done+found], &CompletionError{Completion: c, Sent: uint64(n), Done: uint64(done)}
			}
			done++
		}
		if err := context.Cause(ctx); err != nil && done < n {
			return list[:done], err
		}
		runtime.Gosched() //nolint:forbidigo // it waits, and measures nothing
	}
	return list, nil
}
