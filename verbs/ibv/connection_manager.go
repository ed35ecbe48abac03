//go:build linux && cgo

package ibv

// #include "rdmacm.h"
import "C"

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"github.com/gobw/gobw/verbs"
)

// cmChannel is an event channel and the goroutine that reads it. Events are copied and acknowledged at once, so that
// destroying an identifier never waits.
type cmChannel struct {
	cm   *C.struct_vb_cm
	ch   *C.struct_vb_cm_channel
	file *os.File // a duplicate of the channel's descriptor, in Go's poller
	quit chan struct{}
	done sync.WaitGroup
}

func openCMChannel(l *sharedLibrary) (*cmChannel, error) {
	if err := l.load(); err != nil {
		return nil, err
	}
	c := &cmChannel{cm: (*C.struct_vb_cm)(l.calls), quit: make(chan struct{})}
	ch, err := C.vb_cm_create_event_channel(c.cm)
	if ch == nil {
		const verb = "open RDMA CM's event channel"
		if err == nil || errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENODEV) {
			return nil, &verbs.Error{
				Verb: verb, Err: fmt.Errorf("%w: this kernel's RDMA CM is not there for programs", errors.Join(verbs.ErrUnsupported, err)),
				Fix: "load its module (modprobe rdma_ucm), which makes /dev/infiniband/rdma_cm; in Docker add --device=/dev/infiniband",
			}
		}
		return nil, explain(failure{verb: verb, err: err})
	}
	c.ch = ch
	if c.file, err = pollable(ch.fd, "rdma_cm"); err != nil {
		C.vb_cm_destroy_event_channel(c.cm, ch)
		return nil, explain(failure{verb: "watch RDMA CM's events", err: err})
	}
	return c, nil
}

// read passes events to take until the channel is closed.
func (c *cmChannel) read(take func(*C.struct_vb_cm_event)) {
	c.done.Go(func() {
		whenReadable(c.file, func() bool {
			var e C.struct_vb_cm_event
			if C.vb_cm_next_event(c.cm, c.ch, &e) != 0 {
				return false
			}
			take(&e)
			return true
		})
	})
}

// stop ends the reading. Identifiers on the channel are destroyed between stop and destroy.
func (c *cmChannel) stop() {
	close(c.quit)
	_ = c.file.Close()
	c.done.Wait()
}

func (c *cmChannel) destroy() { C.vb_cm_destroy_event_channel(c.cm, c.ch) }

// cmHandle is an identifier of RDMA CM on a channel of its own.
type cmHandle struct {
	object
	channel *cmChannel
	id      *C.struct_vb_cm_id
}

// open opens the channel, and has identify make the identifier on it.
func (h *cmHandle) open(kind string, identify func(*cmChannel) (*C.struct_vb_cm_id, error)) error {
	return h.Open(kind, func() (err error) {
		if h.channel, err = openCMChannel(h.d.cm); err != nil {
			return err
		}
		if h.id, err = identify(h.channel); err != nil {
			h.channel.stop()
			h.channel.destroy()
		}
		return err
	}, &h.d.Handle)
}

// identifier makes an identifier in a port space.
func identifier(space C.int) func(*cmChannel) (*C.struct_vb_cm_id, error) {
	return func(c *cmChannel) (id *C.struct_vb_cm_id, err error) {
		err = errnoError(C.vb_cm_create_id(c.cm, c.ch, &id, nil, space))
		return id, err
	}
}

// shut closes the handle with its identifier and channel; rest is what else there is to do once nobody reads the channel.
func (h *cmHandle) shut(verb string, rest func()) error {
	var failed error
	err := h.Close(h.channel.stop, func() error {
		rest()
		failed = h.fail(verb, errnoError(C.vb_cm_destroy_id(h.channel.cm, h.id))) // it is gone for us all the same
		h.channel.destroy()
		return nil
	})
	return errors.Join(err, failed)
}

// portSpace is where RDMA CM keeps the ports of a transport.
func portSpace(t verbs.Transport) (C.int, error) {
	switch t {
	case 0, verbs.RC:
		return C.VB_CM_PS_TCP, nil
	case verbs.UD:
		return C.VB_CM_PS_UDP, nil
	default:
		return 0, fmt.Errorf("%v by RDMA CM: %w: it connects RC and UD", t, verbs.ErrUnsupported)
	}
}

// sockaddr makes a C address; an invalid one becomes "none".
func sockaddr(a netip.AddrPort) (s C.struct_sockaddr_storage) {
	port := networkPort(a.Port())
	switch ip := a.Addr().Unmap(); {
	case ip.Is4():
		*(*syscall.RawSockaddrInet4)(unsafe.Pointer(&s)) = syscall.RawSockaddrInet4{Family: syscall.AF_INET, Port: port, Addr: ip.As4()}
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
func networkPort(p uint16) (n uint16) {
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&n))[:], p)
	return n
}

// cmListener takes requests on its channel; each connection moves to another.
type cmListener struct {
	cmHandle
	addr     netip.AddrPort
	requests chan *C.struct_vb_cm_event
}

// cmBacklog is how many requests wait for Accept.
const cmBacklog = 64

// ListenCM takes requests for an address and port.
func (d *device) ListenCM(at netip.AddrPort, o verbs.CMOptions) (verbs.CMListener, error) {
	verb := fmt.Sprintf("listen on %v by RDMA CM", at)
	l := &cmListener{cmHandle: cmHandle{object: object{d: d}}, requests: make(chan *C.struct_vb_cm_event, cmBacklog)}
	space, err := portSpace(o.Transport)
	if err == nil {
		err = l.open("listener by RDMA CM", identifier(space))
	}
	if err != nil {
		return nil, d.fail(verb, err)
	}
	l.channel.read(l.take)
	local := sockaddr(at)
	rc := C.vb_cm_bind_addr(l.channel.cm, l.id, &local)
	if rc == 0 {
		rc = C.vb_cm_listen(l.channel.cm, l.id, cmBacklog)
	}
	if rc != 0 {
		f := failure{verb: verb, device: d.info.Name, err: syscall.Errno(rc)}
		switch syscall.Errno(rc) {
		case syscall.EADDRINUSE:
			f.hint = "another program listens there by RDMA CM ('rdma resource show cm_id' lists them): stop it, or choose another port"
		case syscall.ENODEV, syscall.EADDRNOTAVAIL:
			f.hint = "the address must belong to the network interface of an RDMA device: see 'rdma link' and 'ip address'"
		default:
		}
		return nil, errors.Join(explain(f), l.Close())
	}
	l.addr = addrPort(&l.id.route.src)
	return l, nil
}

// take queues a request; where too many wait, it is refused.
func (l *cmListener) take(e *C.struct_vb_cm_event) {
	if e.event != C.VB_CM_CONNECT_REQUEST {
		return
	}
	select {
	case l.requests <- e:
	default:
		l.refuse(e.id)
	}
}

func (l *cmListener) refuse(id *C.struct_vb_cm_id) {
	C.vb_cm_reject(l.channel.cm, id, nil, 0)
	C.vb_cm_destroy_id(l.channel.cm, id)
}

// Addr is where the listener listens.
func (l *cmListener) Addr() netip.AddrPort { return l.addr }

// Accept waits for a request.
func (l *cmListener) Accept(ctx context.Context) (verbs.CMConnection, error) {
	const verb = "accept by RDMA CM"
	if err := l.Enter(); err != nil {
		return nil, l.fail(verb, err)
	}
	defer l.Leave()
	var e *C.struct_vb_cm_event
	select {
	case e = <-l.requests:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-l.channel.quit:
		return nil, l.fail(verb, verbs.ErrClosed)
	}
	remote := addrPort(&e.id.route.dst)
	if name := deviceOf(e.id); name != l.d.info.Name {
		l.refuse(e.id)
		return nil, &verbs.Error{
			Verb: fmt.Sprintf("accept %v by RDMA CM", remote), Device: l.d.info.Name, Err: fmt.Errorf("%w, %s", verbs.ErrForeignRequest, name),
			Fix: "use " + name + " at this end, or an address of " + l.d.info.Name + " at the other",
		}
	}
	c, err := newCMConnection(l.d, e, func(channel *cmChannel) (*C.struct_vb_cm_id, error) {
		return e.id, errnoError(C.vb_cm_migrate_id(channel.cm, e.id, channel.ch))
	})
	if err != nil {
		l.refuse(e.id)
		return nil, l.fail(fmt.Sprintf("accept %v by RDMA CM", remote), err)
	}
	return c, nil
}

// Close stops listening; requests that nobody accepted are refused.
func (l *cmListener) Close() error {
	return l.shut("stop listening by RDMA CM", func() {
		for {
			select {
			case e := <-l.requests:
				l.refuse(e.id)
			default:
				return
			}
		}
	})
}

// deviceOf names the device that an identifier is bound to, or is empty.
func deviceOf(id *C.struct_vb_cm_id) string {
	if id.verbs == nil {
		return ""
	}
	return C.GoString(&id.verbs.device.name[0])
}
