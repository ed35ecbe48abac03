//go:build linux && cgo

package ibv

// #include "rdmacm.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"syscall"
	"unsafe"

	"github.com/gobw/gobw/verbs"
)

// cmHandle is an identifier of RDMA CM on an event channel of its own. Events are copied and acknowledged at
// once, so that destroying the identifier never waits.
type cmHandle struct {
	object
	cm *C.struct_vb_cm
	id *C.struct_vb_cm_id
	ch *C.struct_vb_cm_channel
	watcher
	quit chan struct{}
}

// identifier makes the identifier of a handle on its channel.
type identifier func(*cmHandle) (*C.struct_vb_cm_id, error)

// open opens the channel, and has identify make the identifier on it.
func (h *cmHandle) open(verb, kind string, identify identifier) error {
	return h.object.open(verb, kind, func() (err error) {
		if err = h.openChannel(); err != nil {
			return err
		}
		if h.id, err = identify(h); err != nil {
			h.stop()
			C.vb_cm_destroy_event_channel(h.cm, h.ch)
		}
		return err
	}, nil, &h.d.Handle)
}

func (h *cmHandle) openChannel() (err error) {
	if err := h.d.cm.load(); err != nil {
		return err
	}
	h.cm, h.quit = (*C.struct_vb_cm)(h.d.cm.calls), make(chan struct{})
	if h.ch, err = C.vb_cm_create_event_channel(h.cm); h.ch == nil {
		const verb = "open RDMA CM's event channel"
		if err == nil || errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENODEV) {
			err = fmt.Errorf("%w: this kernel's RDMA CM is not there for programs", errors.Join(verbs.ErrUnsupported, err))
			return h.failure(verb, err,
				"load its module (modprobe rdma_ucm), which makes /dev/infiniband/rdma_cm; in Docker add --device=/dev/infiniband")
		}
		return h.fail(verb, err)
	}
	if err = h.watch(h.ch.fd, "rdma_cm"); err != nil {
		C.vb_cm_destroy_event_channel(h.cm, h.ch)
		return h.fail("watch RDMA CM's events", err)
	}
	return nil
}

// stop ends the reading.
func (h *cmHandle) stop() {
	close(h.quit)
	h.watcher.stop()
}

// newID makes an identifier where RDMA CM keeps the ports of a transport.
func newID(t verbs.Transport) identifier {
	return func(h *cmHandle) (id *C.struct_vb_cm_id, err error) {
		space := C.int(C.VB_CM_PS_TCP)
		switch t {
		case 0, verbs.RC:
		case verbs.UD:
			space = C.VB_CM_PS_UDP
		default:
			return nil, fmt.Errorf("%v by RDMA CM: %w: it connects RC and UD", t, verbs.ErrUnsupported)
		}
		err = errnoError(C.vb_cm_create_id(h.cm, h.ch, &id, nil, space))
		return id, err
	}
}

// Close ends the connection or the listening. The peer of a connection is told.
func (h *cmHandle) Close() error {
	verb := "close " + h.kind
	var failed error
	err := h.Handle.Close(h.stop, func() error {
		failed = h.fail(verb, errnoError(C.vb_cm_destroy_id(h.cm, h.id))) // it is gone for us all the same
		C.vb_cm_destroy_event_channel(h.cm, h.ch)
		return nil
	})
	return errors.Join(h.fail(verb, err), failed)
}

// sockaddr makes a C address; an invalid one becomes "none".
func sockaddr(a netip.AddrPort) (s C.struct_sockaddr_storage) {
	port := networkPort(a.Port())
	switch ip := a.Addr().Unmap(); {
	case ip.Is4():
		*(*syscall.RawSockaddrInet4)(unsafe.Pointer(&s)) = syscall.RawSockaddrInet4{
			Family: syscall.AF_INET, Port: port, Addr: ip.As4(),
		}
	case ip.Is6():
		*(*syscall.RawSockaddrInet6)(unsafe.Pointer(&s)) = syscall.RawSockaddrInet6{
			Family: syscall.AF_INET6, Port: port, Addr: ip.As16(), Scope_id: scopeOf(ip.Zone()),
		}
	}
	return s
}

func addrPort(s *C.struct_sockaddr_storage) netip.AddrPort {
	switch s.ss_family {
	case syscall.AF_INET:
		a := (*syscall.RawSockaddrInet4)(unsafe.Pointer(s))
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), networkPort(a.Port))
	case syscall.AF_INET6:
		a := (*syscall.RawSockaddrInet6)(unsafe.Pointer(s))
		ip := netip.AddrFrom16(a.Addr)
		if a.Scope_id != 0 {
			ip = ip.WithZone(interfaceName(int(a.Scope_id)))
		}
		return netip.AddrPortFrom(ip, networkPort(a.Port))
	}
	return netip.AddrPort{}
}

// networkPort turns a port into network order and back.
func networkPort(p uint16) uint16 {
	return bits.ReverseBytes16(p)
}

// cmListener takes requests on its channel; each connection moves to another.
type cmListener struct {
	cmHandle
	addr netip.AddrPort
}

// cmBacklog is how many requests wait for Accept; the kernel refuses others, and those
// that wait when the listener is closed.
const cmBacklog = 64

// ListenCM takes requests for an address and port.
func (d *device) ListenCM(at netip.AddrPort, o verbs.CMOptions) (verbs.CMListener, error) {
	verb := fmt.Sprintf("listen on %v by RDMA CM", at)
	l := &cmListener{cmHandle: cmHandle{object: object{d: d}}}
	if err := l.open(verb, "listener by RDMA CM", newID(o.Transport)); err != nil {
		return nil, err
	}
	local := sockaddr(at)
	rc := C.vb_cm_bind_addr(l.cm, l.id, &local)
	if rc == 0 {
		rc = C.vb_cm_listen(l.cm, l.id, cmBacklog)
	}
	if rc != 0 {
		f := d.failure(verb, errnoError(rc), "")
		switch {
		case errors.Is(f.Err, syscall.EADDRINUSE):
			f.Fix = "another program listens there by RDMA CM ('rdma resource show cm_id' lists them): stop it, " +
				"or choose another port"
		case errors.Is(f.Err, syscall.ENODEV), errors.Is(f.Err, syscall.EADDRNOTAVAIL):
			f.Fix = "the address must belong to the network interface of an RDMA device: see 'rdma link' and 'ip address'"
		}
		return nil, errors.Join(explain(f, 0), l.Close())
	}
	l.addr = addrPort(&l.id.route.src)
	return l, nil
}

func (l *cmListener) refuse(id *C.struct_vb_cm_id) {
	C.vb_cm_reject(l.cm, id, nil, 0)
	C.vb_cm_destroy_id(l.cm, id)
}

// Addr is where the listener listens.
func (l *cmListener) Addr() netip.AddrPort { return l.addr }

// Accept waits for a request.
func (l *cmListener) Accept(ctx context.Context) (verbs.CMConnection, error) {
	verb := "accept by RDMA CM"
	if err := l.Enter(); err != nil {
		return nil, l.fail(verb, err)
	}
	defer l.Leave()
	var e C.struct_vb_cm_event
	err := l.wait(ctx, verb, &l.watcher, func() bool {
		for C.vb_cm_next_event(l.cm, l.ch, &e) == 0 {
			if e.event == C.VB_CM_CONNECT_REQUEST {
				return true
			}
		}
		return false
	})
	if err != nil {
		return nil, err
	}
	verb = fmt.Sprintf("accept %v by RDMA CM", addrPort(&e.id.route.dst))
	if name := deviceOf(e.id); name != l.d.info.Name {
		l.refuse(e.id)
		return nil, l.failure(verb, fmt.Errorf("%w, %s", verbs.ErrForeignRequest, name),
			"use "+name+" at this end, or an address of "+l.d.info.Name+" at the other")
	}
	c, err := newCMConnection(l.d, verb, &e, func(h *cmHandle) (*C.struct_vb_cm_id, error) {
		return e.id, errnoError(C.vb_cm_migrate_id(h.cm, e.id, h.ch))
	})
	if err != nil {
		l.refuse(e.id)
		return nil, err
	}
	return c, nil
}

// deviceOf names the device that an identifier is bound to, or is empty.
func deviceOf(id *C.struct_vb_cm_id) string {
	if id.verbs == nil {
		return ""
	}
	return C.GoString(&id.verbs.device.name[0])
}
