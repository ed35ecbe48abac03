package roce

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/gobw/gobw/verbs"
)

// AttachMulticast attaches a UD queue pair to a group (IBTA 10.5.2): the device joins the IP group on the interface of
// its default GID. A socket that is bound to an address of ours hears no group, so each group has its own.
func (q *queuePair) AttachMulticast(group verbs.GID, _ uint16) error {
	e := q.e
	list, _, noTable := e.device.table("join multicast group")
	return q.locked(fmt.Sprintf("attach queue pair to multicast group %v", group), func() error {
		switch {
		case q.transport != verbs.UD:
			return fmt.Errorf("a %v queue pair: only UD has multicast", q.transport)
		case !group.IsMulticast():
			return errors.New("that is no multicast address: want ff00::/8, or 224.0.0.0/4 as ::ffff:A.B.C.D")
		case noTable != nil:
			return noTable
		}
		s := e.socketAt(group.Addr())
		if s == nil {
			var err error
			if s, err = e.openGroup(group, list); err != nil {
				return err
			}
		}
		if !slices.Contains(s.members, q) {
			s.members = append(s.members, q)
			_ = q.Use(kindGroup) // it was open above: Close waits for the lock
		}
		return nil
	})
}

// DetachMulticast takes the queue pair out of a group, which the device leaves with its last one.
func (q *queuePair) DetachMulticast(group verbs.GID, _ uint16) error {
	return q.locked(fmt.Sprintf("detach queue pair from multicast group %v", group), func() error {
		e := q.e
		s := e.socketAt(group.Addr())
		if s == nil || !slices.Contains(s.members, q) {
			return fmt.Errorf("it is not attached to it: %w", syscall.EINVAL)
		}
		q.Release(kindGroup)
		if len(s.members) > 1 {
			s.members = slices.DeleteFunc(s.members, func(x *queuePair) bool { return x == q })
			return nil
		}
		s.members = nil
		e.sockets = slices.DeleteFunc(slices.Clone(e.sockets), func(x *socket) bool { return x == s })
		e.wakeSleepers()
		return s.Close()
	})
}

func (e *engine) openGroup(group verbs.GID, list []gid) (*socket, error) {
	open := 0
	for _, s := range e.sockets {
		if s.members != nil {
			open++
		}
	}
	if open >= maxGroups {
		return nil, fmt.Errorf("%d multicast groups are the most", maxGroups)
	}
	for i := range list {
		if g := list[i]; g.addr == e.device.home {
			g.addr = group.Addr()
			s, err := e.addSocket(&g)
			if err != nil {
				return nil, fmt.Errorf("join it on %s: %w", g.name, err)
			}
			return s, nil
		}
	}
	return nil, fmt.Errorf("%v is not an address of this machine any more", e.device.home)
}
