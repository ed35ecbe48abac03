//go:build linux && cgo

package ibv

/*
#cgo CFLAGS: -std=gnu11 -O3 -Wall -Wextra -fno-plt
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"github.com/gobw/gobw/verbs"
)

// soname is the file asked of the dynamic loader, which honours LD_LIBRARY_PATH.
const soname = "libibverbs.so.1"

// Provider finds the devices of libibverbs. It may be used by several goroutines.
type Provider struct {
	name  string // of the library
	sysfs string // "/sys"

	once    sync.Once
	lib     *C.struct_vb_library // C memory, never freed: the library stays loaded
	loadErr error

	cm connectionManager
}

// New returns the provider. Nothing is loaded before the first question.
func New() *Provider {
	return &Provider{name: soname, sysfs: "/sys", cm: connectionManager{name: cmSoname}}
}

// Name is "ibv".
func (*Provider) Name() string { return "ibv" }

// Library tells which libibverbs was found and what it lacks.
func (p *Provider) Library() (Library, error) {
	if err := p.load(); err != nil {
		return Library{}, err
	}
	l := Library{Path: C.GoString(&p.lib.loaded.path[0])}
	if _, v, ok := strings.Cut(filepath.Base(l.Path), ".so."); ok {
		l.Version = v
	}
	for i, s := range symbols() {
		if p.lib.loaded.missing&(1<<i) != 0 {
			l.Missing = append(l.Missing, s.MissingSymbol)
		}
	}
	return l, nil
}

// symbol is a row of the table of what we call.
type symbol struct {
	MissingSymbol
	required bool
}

// symbols is the whole table, which lies in C.
func symbols() []symbol {
	table := make([]symbol, int(C.vb_symbol_count()))
	for i := range table {
		s := C.vb_symbol_at(C.int(i))
		table[i] = symbol{MissingSymbol{C.GoString(s.name), C.GoString(s.version), C.GoString(s.without)}, s.required != 0}
	}
	return table
}

// load opens the library once and remembers the answer.
func (p *Provider) load() error {
	p.once.Do(func() {
		p.lib = (*C.struct_vb_library)(C.calloc(1, C.sizeof_struct_vb_library))
		name := C.CString(p.name)
		defer C.free(unsafe.Pointer(name))
		switch C.vb_load(p.lib, name) {
		case 0:
		case -1:
			p.loadErr = &verbs.Error{
				Verb: "load " + p.name, Err: errors.New(C.GoString(&p.lib.loaded.error[0])),
				Fix: "install it: apt install libibverbs1 ibverbs-providers (Debian, Ubuntu), dnf install libibverbs (Fedora, RHEL), " +
					"zypper install libibverbs (SUSE); without RDMA hardware use the software device (roce0)",
			}
		default:
			var missing []string
			for i, s := range symbols() {
				if p.lib.loaded.missing&(1<<i) != 0 && s.required {
					missing = append(missing, s.Name+"@"+s.Version)
				}
			}
			p.loadErr = &verbs.Error{
				Verb: "load " + p.name, Err: fmt.Errorf("%s lacks %s", C.GoString(&p.lib.loaded.path[0]), strings.Join(missing, ", ")),
				Fix: "this is not the libibverbs of rdma-core: look at LD_LIBRARY_PATH and 'ldconfig -p | grep libibverbs'",
			}
		}
	})
	return p.loadErr
}

// Devices lists the devices. A kernel without RDMA has none, which is no error.
func (p *Provider) Devices() ([]verbs.DeviceName, error) {
	names := []verbs.DeviceName{}
	err := p.each(func(d *C.struct_vb_device) bool {
		names = append(names, verbs.DeviceName{
			Name: C.GoString(&d.name[0]), Provider: p.Name(),
			GUID: verbs.GUID(C.vb_get_device_guid(&p.lib.verbs, d)), Path: C.GoString(&d.ibdev_path[0]),
		})
		return true
	})
	return names, err
}

// each calls f for every device in the library's list until f returns false. The devices live until each returns, or for
// as long as one is open.
func (p *Provider) each(f func(d *C.struct_vb_device) bool) error {
	if err := p.load(); err != nil {
		return err
	}
	var n C.int
	list, err := C.vb_get_device_list(&p.lib.verbs, &n)
	if list == nil {
		if errors.Is(err, syscall.ENOSYS) { // no RDMA in this kernel
			return nil
		}
		return explain(failure{verb: "list RDMA devices", err: err})
	}
	defer C.vb_free_device_list(&p.lib.verbs, list)
	for _, d := range unsafe.Slice(list, int(n)) {
		if !f(d) {
			break
		}
	}
	return nil
}

// Open opens the device of that name.
func (p *Provider) Open(name string) (verbs.Device, error) {
	var opened *device
	var openErr error
	var known []string
	err := p.each(func(d *C.struct_vb_device) bool {
		n := C.GoString(&d.name[0])
		known = append(known, n)
		if n != name {
			return true
		}
		opened, openErr = p.open(d)
		return false
	})
	switch {
	case err != nil:
		return nil, err
	case openErr != nil:
		return nil, openErr
	case opened != nil:
		return opened, nil
	case len(known) == 0:
		return nil, &verbs.Error{
			Verb: "open device", Device: name, Err: errors.New("no such device: libibverbs finds none on this machine"),
			Fix: "load the device's driver ('rdma link' lists what the kernel has), set up Soft-RoCE (scripts/setup-rxe), or use the software device (roce0)",
		}
	default:
		return nil, &verbs.Error{
			Verb: "open device", Device: name, Err: fmt.Errorf("no such device: there is %s", strings.Join(known, ", ")),
			Fix: "choose one of these",
		}
	}
}
