//go:build linux && cgo

package ibv

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"unsafe"

	"github.com/gobw/gobw/verbs"
)

// attachment is a multicast group of a queue pair.
type attachment struct {
	group verbs.GID
	lid   uint16
}

// AttachMulticast attaches the queue pair to a group. On Ethernet the host joins the group's IP address, too, as the
// kernel's RDMA CM does (drivers/infiniband/core/cma.c, cma_igmp_send): switches that watch IGMP and MLD forward the
// group then, and software RoCE is handed its packets by the IP layer.
func (q *queuePair) AttachMulticast(group verbs.GID, lid uint16) error {
	return q.inside(fmt.Sprintf("attach queue pair to multicast group %v", group), func() error {
		switch {
		case q.transport != verbs.UD:
			return fmt.Errorf("a %v queue pair: only UD has multicast", q.transport)
		case !group.IsMulticast():
			return errors.New("that is no multicast address: want ff00::/8, or 224.0.0.0/4 as ::ffff:A.B.C.D")
		}
		to := attachment{group, lid}
		if q.groups[to] != nil {
			return nil
		}
		membership, err := q.joinGroup(group)
		if err != nil {
			return err
		}
		if err := q.Use("multicast group"); err != nil {
			return errors.Join(err, membership.Close())
		}
		if err := errnoError(C.vb_attach_mcast(q.d.v, q.qp, unsafe.Pointer(&group[0]), C.uint16_t(lid))); err != nil {
			q.Release("multicast group")
			return errors.Join(fmt.Errorf("%w: the device has %d multicast groups", err, q.d.info.Limits.MaxMulticastGroup),
				membership.Close())
		}
		if q.groups == nil {
			q.groups = make(map[attachment]io.Closer)
		}
		q.groups[to] = membership
		return nil
	})
}

// DetachMulticast takes the queue pair out of a group.
func (q *queuePair) DetachMulticast(group verbs.GID, lid uint16) error {
	return q.inside(fmt.Sprintf("detach queue pair from multicast group %v", group), func() error {
		from := attachment{group, lid}
		membership := q.groups[from]
		if membership == nil {
			return fmt.Errorf("it is not attached to it: %w", syscall.EINVAL)
		}
		if err := errnoError(C.vb_detach_mcast(q.d.v, q.qp, unsafe.Pointer(&group[0]), C.uint16_t(lid))); err != nil {
			return err
		}
		q.Release("multicast group")
		delete(q.groups, from)
		return membership.Close()
	})
}

// joinGroup makes the host a member of an IP group on the interface of the queue pair's port, until closed. On
// InfiniBand, and where no interface is known, nothing is joined.
func (q *queuePair) joinGroup(group verbs.GID) (io.Closer, error) {
	port := 1
	if a, err := q.Query(); err == nil {
		port = max(a.Port, 1)
	}
	p, err := q.d.Port(port)
	if err != nil || p.LinkLayer != verbs.LinkEthernet || p.NetInterface == "" {
		return io.NopCloser(nil), nil //nolint:nilerr // attaching says what is wrong with the device
	}
	on, err := net.InterfaceByName(p.NetInterface)
	if err != nil {
		return nil, err
	}
	network := "udp6"
	if group.Addr().Is4() {
		network = "udp4"
	}
	// on any free port: nothing is received by it
	member, err := net.ListenMulticastUDP(network, on, &net.UDPAddr{IP: group.Addr().AsSlice()})
	if err != nil {
		return nil, fmt.Errorf("join it on %s: %w", p.NetInterface, err)
	}
	return member, nil
}
