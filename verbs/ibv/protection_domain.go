//go:build linux && cgo

package ibv

// #include "shim.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/gobw/gobw/verbs"
)

// protectionDomain may be used by several goroutines.
type protectionDomain struct {
	d        *device
	pd       *C.struct_vb_pd
	children children
}

// adopt counts a child of the domain, makes it, and forgets it again when make fails. make returns the errno's error and
// whether the handle is there.
func (p *protectionDomain) adopt(kind, verb string, make func() (bool, error)) error {
	if err := p.children.add(kind); err != nil {
		return p.d.fail(verb, err)
	}
	ok, err := make()
	if ok {
		return nil
	}
	p.children.drop(kind)
	return p.d.fail(verb, err)
}

// Close frees the domain, unless handles of it are open.
func (p *protectionDomain) Close() error {
	err := p.children.close(func() error {
		if rc := C.vb_dealloc_pd(p.d.v, p.pd); rc != 0 {
			return errnoError(int(rc))
		}
		p.d.children.drop("protection domain")
		return nil
	})
	if err != nil {
		return p.d.fail("free protection domain", err)
	}
	return nil
}

// memoryRegion is registered memory.
type memoryRegion struct {
	p        *protectionDomain
	mr       *C.struct_vb_mr
	addr     uint64
	length   int
	lkey     uint32
	rkey     uint32
	children children
}

// optionalAccess are the flags that a device may ignore (IBV_ACCESS_OPTIONAL_RANGE).
const optionalAccess = verbs.Access(0x3ff00000)

// RegisterMemory makes b known to the device.
func (p *protectionDomain) RegisterMemory(b []byte, access verbs.Access) (verbs.MemoryRegion, error) {
	verb := fmt.Sprintf("register %d bytes of memory (%v)", len(b), access)
	if len(b) == 0 {
		return nil, p.d.fail(verb, fmt.Errorf("want at least 1 byte"))
	}
	if remote := access & (verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic); remote != 0 && access&verbs.AccessLocalWrite == 0 {
		return nil, &verbs.Error{
			Verb: verb, Device: p.d.info.Name, Err: fmt.Errorf("%v without LOCAL_WRITE (IBTA 10.6.3.1)", remote),
			Fix: "add LOCAL_WRITE",
		}
	}
	if !p.d.optional {
		access &^= optionalAccess
	}
	if err := p.children.add("memory region"); err != nil {
		return nil, p.d.fail(verb, err)
	}
	addr := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	mr, err := C.vb_reg_mr(p.d.v, p.pd, C.uintptr_t(addr), C.size_t(len(b)), C.uint(access))
	if mr == nil {
		p.children.drop("memory region")
		return nil, explain(failure{verb: verb, device: p.d.info.Name, err: err, pinned: len(b)})
	}
	return &memoryRegion{p: p, mr: mr, addr: uint64(addr), length: len(b), lkey: uint32(mr.lkey), rkey: uint32(mr.rkey)}, nil
}

func (m *memoryRegion) Addr() uint64 { return m.addr }
func (m *memoryRegion) Len() int     { return m.length }
func (m *memoryRegion) LKey() uint32 { return m.lkey }
func (m *memoryRegion) RKey() uint32 { return m.rkey }

// Close deregisters the memory.
func (m *memoryRegion) Close() error {
	err := m.children.close(func() error {
		if rc := C.vb_dereg_mr(m.p.d.v, m.mr); rc != 0 {
			return errnoError(int(rc))
		}
		m.p.children.drop("memory region")
		return nil
	})
	if err != nil {
		return explain(failure{verb: "deregister memory", device: m.p.d.info.Name, err: err, hint: "a memory window may still be bound to the region"})
	}
	return nil
}

// memoryWindow is a type 2 window.
type memoryWindow struct {
	p        *protectionDomain
	mw       *C.struct_vb_mw
	children children
}

// AllocMW makes a type 2 memory window.
func (p *protectionDomain) AllocMW() (verbs.MemoryWindow, error) {
	w := &memoryWindow{p: p}
	err := p.adopt("memory window", "allocate memory window", func() (bool, error) {
		var err error
		w.mw, err = C.vb_alloc_mw(p.pd)
		return w.mw != nil, err
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

func (w *memoryWindow) RKey() uint32 { return uint32(w.mw.rkey) }

// Close frees the window.
func (w *memoryWindow) Close() error {
	err := w.children.close(func() error {
		if rc := C.vb_dealloc_mw(w.mw); rc != 0 {
			return errnoError(int(rc))
		}
		w.p.children.drop("memory window")
		return nil
	})
	if err != nil {
		return w.p.d.fail("free memory window", err)
	}
	return nil
}

// addressHandle is a destination for UD sends.
type addressHandle struct {
	p        *protectionDomain
	ah       *C.struct_vb_ah
	children children
}

// CreateAH makes an address handle.
func (p *protectionDomain) CreateAH(a verbs.AddressVector) (verbs.AddressHandle, error) {
	attr, err := cAddressVector(a)
	if err != nil {
		return nil, p.d.fail("create address handle", err)
	}
	h := &addressHandle{p: p}
	err = p.adopt("address handle", fmt.Sprintf("create address handle for %v", a.DGID), func() (bool, error) {
		var err error
		h.ah, err = C.vb_create_ah(p.d.v, p.pd, &attr)
		return h.ah != nil, err
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Close destroys the handle.
func (h *addressHandle) Close() error {
	err := h.children.close(func() error {
		if rc := C.vb_destroy_ah(h.p.d.v, h.ah); rc != 0 {
			return errnoError(int(rc))
		}
		h.p.children.drop("address handle")
		return nil
	})
	if err != nil {
		return h.p.d.fail("destroy address handle", err)
	}
	return nil
}

// defaultHopLimit is what a zero hop limit means.
const defaultHopLimit = 64

func cAddressVector(a verbs.AddressVector) (C.struct_vb_ah_attr, error) {
	var c C.struct_vb_ah_attr
	if a.SGIDIndex < 0 || a.SGIDIndex > 255 {
		return c, fmt.Errorf("GID index %d: libibverbs has room for 0 to 255", a.SGIDIndex)
	}
	c.dlid, c.sl, c.port_num = C.uint16_t(a.DLID), C.uint8_t(a.SL), C.uint8_t(max(a.Port, 1))
	if a.UseGID {
		c.is_global = 1
		for i, b := range a.DGID {
			c.grh.dgid[i] = C.uint8_t(b)
		}
		c.grh.sgid_index, c.grh.flow_label, c.grh.traffic_class = C.uint8_t(a.SGIDIndex), C.uint32_t(a.FlowLabel), C.uint8_t(a.TrafficClass)
		c.grh.hop_limit = C.uint8_t(a.HopLimit)
		if a.HopLimit == 0 {
			c.grh.hop_limit = defaultHopLimit
		}
	}
	return c, nil
}

func goAddressVector(c *C.struct_vb_ah_attr) verbs.AddressVector {
	a := verbs.AddressVector{DLID: uint16(c.dlid), SL: uint8(c.sl), Port: int(c.port_num), UseGID: c.is_global != 0}
	if a.UseGID {
		for i := range a.DGID {
			a.DGID[i] = byte(c.grh.dgid[i])
		}
		a.SGIDIndex, a.FlowLabel, a.TrafficClass = int(c.grh.sgid_index), uint32(c.grh.flow_label), uint8(c.grh.traffic_class)
		a.HopLimit = uint8(c.grh.hop_limit)
	}
	return a
}
