//go:build linux && cgo

package ibv

// #include <stdlib.h>
// #include "rdmacm.h"
import "C"

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/internal/handle"
)

// cmSoname is the file asked of the dynamic loader.
const cmSoname = "librdmacm.so.1"

// connectionManager is librdmacm, loaded when a connection is first asked for. It may be used by several goroutines.
type connectionManager struct {
	name string

	once    sync.Once
	lib     *C.struct_vb_cm_library // C memory, never freed: the library stays loaded
	loadErr error
}

func (m *connectionManager) load() error {
	m.once.Do(func() {
		m.lib = (*C.struct_vb_cm_library)(C.calloc(1, C.sizeof_struct_vb_cm_library))
		name := C.CString(m.name)
		defer C.free(unsafe.Pointer(name))
		switch C.vb_cm_load(m.lib, name) {
		case 0:
		case -1:
			m.loadErr = &verbs.Error{
				Verb: "load " + m.name + " for connections by RDMA CM", Err: errors.New(C.GoString(&m.lib.loaded.error[0])),
				Fix: "install it: apt install librdmacm1 (Debian, Ubuntu), dnf install librdmacm (Fedora, RHEL), zypper install librdmacm1 (SUSE); " +
					"or connect without RDMA CM",
			}
		default:
			var missing []string
			for i := range int(C.vb_cm_symbol_count()) {
				if s := C.vb_cm_symbol_at(C.int(i)); m.lib.loaded.missing&(1<<i) != 0 {
					missing = append(missing, C.GoString(s.name)+"@"+C.GoString(s.version))
				}
			}
			m.loadErr = &verbs.Error{
				Verb: "load " + m.name + " for connections by RDMA CM",
				Err:  fmt.Errorf("%s lacks %s", C.GoString(&m.lib.loaded.path[0]), strings.Join(missing, ", ")),
				Fix:  "librdmacm of rdma-core 22 or newer has them: upgrade it, or look at LD_LIBRARY_PATH; or connect without RDMA CM",
			}
		}
	})
	return m.loadErr
}

// cmChannel is an event channel and the goroutine that reads it. Events are copied and acknowledged at once, so that
// destroying an identifier never waits.
type cmChannel struct {
	cm   *C.struct_vb_cm
	ch   *C.struct_vb_cm_channel
	file *os.File // a duplicate of the channel's descriptor, in Go's poller
	quit chan struct{}
	done sync.WaitGroup
}

func openCMChannel(m *connectionManager) (*cmChannel, error) {
	if err := m.load(); err != nil {
		return nil, err
	}
	c := &cmChannel{cm: &m.lib.cm, quit: make(chan struct{})}
	ch, err := C.vb_cm_create_channel(c.cm)
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
	if c.file, err = pollable(int(ch.fd), "rdma_cm"); err != nil {
		C.vb_cm_destroy_channel(c.cm, ch)
		return nil, explain(failure{verb: "watch RDMA CM's events", err: err})
	}
	return c, nil
}

// read passes events to take until the channel is closed.
func (c *cmChannel) read(take func(*C.struct_vb_cm_event)) {
	c.done.Go(func() {
		raw, err := c.file.SyscallConn()
		if err != nil {
			return
		}
		_ = raw.Read(func(uintptr) bool { // ends when the file is closed
			for {
				var e C.struct_vb_cm_event
				if C.vb_cm_next_event(c.cm, c.ch, &e) != 0 {
					return false
				}
				take(&e)
			}
		})
	})
}

// stop ends the reading. Identifiers on the channel are destroyed between stop and destroy.
func (c *cmChannel) stop() {
	close(c.quit)
	_ = c.file.Close()
	c.done.Wait()
}

func (c *cmChannel) destroy() { C.vb_cm_destroy_channel(c.cm, c.ch) }

// closeCM closes a handle with its identifier and channel; rest is what else there is to do once nobody reads the channel.
func closeCM(h *handle.Handle, d *device, c *cmChannel, id *C.struct_vb_cm_id, verb string, rest func()) error {
	var failed error
	err := h.Close(c.stop, func() error {
		rest()
		if rc := C.vb_cm_destroy_id(c.cm, id); rc != 0 { // it is gone for us all the same
			failed = d.fail(verb, syscall.Errno(rc))
		}
		c.destroy()
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

// cmListener takes requests on a channel of its own; each connection moves to another.
type cmListener struct {
	handle.Handle
	d        *device
	channel  *cmChannel
	id       *C.struct_vb_cm_id
	addr     netip.AddrPort
	requests chan *C.struct_vb_cm_event
}

// cmBacklog is how many requests wait for Accept.
const cmBacklog = 64

// ListenCM takes requests for an address and port.
func (d *device) ListenCM(at netip.AddrPort, o verbs.CMOptions) (verbs.CMListener, error) {
	verb := fmt.Sprintf("listen on %v by RDMA CM", at)
	space, err := portSpace(o.Transport)
	if err != nil {
		return nil, d.fail(verb, err)
	}
	l := &cmListener{d: d, requests: make(chan *C.struct_vb_cm_event, cmBacklog)}
	err = l.Open("listener by RDMA CM", func() (err error) {
		if l.channel, err = openCMChannel(d.cm); err != nil {
			return err
		}
		if rc := C.vb_cm_create_id(l.channel.cm, l.channel.ch, space, &l.id); rc != 0 {
			l.channel.stop()
			l.channel.destroy()
			return d.fail(verb, syscall.Errno(rc))
		}
		return nil
	}, &d.Handle)
	if err != nil {
		return nil, err
	}
	l.channel.read(l.take)
	local := sockaddr(at)
	rc := C.vb_cm_bind(l.channel.cm, l.id, &local)
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
	C.vb_cm_reject(l.channel.cm, id)
	C.vb_cm_destroy_id(l.channel.cm, id)
}

// Addr is where the listener listens.
func (l *cmListener) Addr() netip.AddrPort { return l.addr }

// Accept waits for a request.
func (l *cmListener) Accept(ctx context.Context) (verbs.CMConnection, error) {
	if err := l.Enter(); err != nil {
		return nil, l.d.fail("accept by RDMA CM", err)
	}
	defer l.Leave()
	var e *C.struct_vb_cm_event
	select {
	case e = <-l.requests:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-l.channel.quit:
		return nil, l.d.fail("accept by RDMA CM", verbs.ErrClosed)
	}
	remote := addrPort(&e.id.route.dst)
	if name := deviceOf(e.id); name != l.d.info.Name {
		l.refuse(e.id)
		return nil, &verbs.ForeignRequestError{Device: name, Wanted: l.d.info.Name, Remote: remote}
	}
	c, err := newCMConnection(l.d, e, func(channel *cmChannel) (*C.struct_vb_cm_id, error) {
		if rc := C.vb_cm_migrate_id(channel.cm, e.id, channel.ch); rc != 0 {
			return nil, l.d.fail(fmt.Sprintf("accept %v by RDMA CM", remote), syscall.Errno(rc))
		}
		return e.id, nil
	})
	if err != nil {
		l.refuse(e.id)
		return nil, err
	}
	return c, nil
}

// Close stops listening; requests that nobody accepted are refused.
func (l *cmListener) Close() error {
	return closeCM(&l.Handle, l.d, l.channel, l.id, "stop listening by RDMA CM", func() {
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
