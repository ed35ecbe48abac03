//go:build linux && cgo

package ibv

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"github.com/gobw/gobw/verbs"
)

// Provider finds the devices of libibverbs. It may be used by several goroutines.
type Provider struct {
	lib, cm sharedLibrary
	sysfs   string // in place of "/sys"; empty: where the library finds its devices
}

// New returns the provider. Nothing is loaded before the first question.
func New() *Provider { return &Provider{lib: libibverbs(), cm: librdmacm()} }

func (p *Provider) verbs() *C.struct_vb_verbs { return (*C.struct_vb_verbs)(p.lib.calls) }

// Name is "ibv".
func (*Provider) Name() string { return "ibv" }

// Library tells which libibverbs was found and what it lacks.
func (p *Provider) Library() (Library, error) {
	if err := p.lib.load(); err != nil {
		return Library{}, err
	}
	l := Library{Path: C.GoString(&p.lib.loaded.path[0]), Missing: p.lib.missing()}
	_, l.Version, _ = strings.Cut(filepath.Base(l.Path), ".so.")
	return l, nil
}

// Devices lists the devices. A kernel without RDMA has none, which is no error.
func (p *Provider) Devices() ([]verbs.DeviceName, error) {
	names := []verbs.DeviceName{}
	_, err := p.find(func(d *C.struct_vb_device) (verbs.Device, error) {
		names = append(names, verbs.DeviceName{
			Name: text(d.name[:]), Provider: p.Name(),
			GUID: hostGUID(C.vb_get_device_guid(p.verbs(), d)), Path: text(d.ibdev_path[:]),
		})
		return nil, nil
	})
	return names, err
}

// find calls f for the devices in the library's list until it returns one or an error. The list lives until find
// returns, its devices for as long as one is open. A null pointer ends the list.
func (p *Provider) find(f func(d *C.struct_vb_device) (verbs.Device, error)) (verbs.Device, error) {
	if err := p.lib.load(); err != nil {
		return nil, err
	}
	var n C.int
	refused := func(err error) error { return explain(&verbs.Error{Verb: "list RDMA devices", Err: err}, 0) }
	list, err := C.vb_get_device_list(p.verbs(), &n)
	if list == nil {
		if errors.Is(err, syscall.ENOSYS) { // no RDMA in this kernel
			return nil, nil
		}
		return nil, refused(err)
	}
	defer C.vb_free_device_list(p.verbs(), list)
	if n < 0 {
		return nil, refused(fmt.Errorf("%w: it counts %d devices", errLie, n))
	}
	for i, d := range unsafe.Slice(list, int(n)) {
		if d == nil {
			return nil, refused(fmt.Errorf("%w: it counts %d devices and lists %d", errLie, n, i))
		}
		if found, err := f(d); found != nil || err != nil {
			return found, err
		}
	}
	return nil, nil
}

// Open opens the device of that name.
func (p *Provider) Open(name string) (verbs.Device, error) {
	var known []string
	d, err := p.find(func(d *C.struct_vb_device) (verbs.Device, error) {
		n := text(d.name[:])
		known = append(known, n)
		if n != name {
			return nil, nil
		}
		return p.open(d)
	})
	if d != nil || err != nil {
		return d, err
	}
	e := &verbs.Error{
		Verb: "open device", Device: name, Err: fmt.Errorf("no such device: there is %s", strings.Join(known, ", ")),
		Fix: "choose one of these",
	}
	if len(known) == 0 {
		e.Err = errors.New("no such device: libibverbs finds none on this machine")
		e.Fix = "load the device's driver ('rdma link' lists what the kernel has), set up Soft-RoCE (scripts/setup-rxe), " +
			"or use the software device (roce0)"
	}
	return nil, e
}
