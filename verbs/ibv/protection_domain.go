//go:build linux && cgo

package ibv

// #include "shim.h"
import "C"

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/gobw/gobw/verbs"
)

// protectionDomain may be used by several goroutines.
type protectionDomain struct {
	object
	pd *C.struct_vb_pd
}

// Close frees the domain, unless handles of it are open.
func (p *protectionDomain) Close() error {
	return p.destroy("free protection domain", func() C.int { return C.vb_dealloc_pd(p.d.v, p.pd) })
}

// memoryRegion is registered memory.
type memoryRegion struct {
	object
	mr     *C.struct_vb_mr
	addr   uint64
	length int
	lkey   uint32
	rkey   uint32

	release func() // of the buffer
}

// optionalAccess are the flags that a device may ignore (IBV_ACCESS_OPTIONAL_RANGE).
const optionalAccess = verbs.Access(0x3ff00000)

// RegisterMemory makes n bytes of b from offset on known to the device.
func (p *protectionDomain) RegisterMemory(b *verbs.Buffer, offset, n int, access verbs.Access) (verbs.MemoryRegion, error) {
	return p.RegisterMemoryAt(b, offset, n, b.Addr()+uint64(offset), access)
}

// RegisterMemoryAt is RegisterMemory under other addresses.
func (p *protectionDomain) RegisterMemoryAt(
	b *verbs.Buffer, offset, n int, iova uint64, access verbs.Access,
) (verbs.MemoryRegion, error) {
	part, err := b.Hold(offset, n)
	if err != nil {
		return nil, p.fail("register memory", err)
	}
	m, err := p.register(-1, uint64(uintptr(unsafe.Pointer(unsafe.SliceData(part)))), n, iova, access)
	if err != nil {
		b.Release()
		return nil, err
	}
	m.release = b.Release
	return m, nil
}

// RegisterDMABuf makes part of a dma-buf known to the device.
func (p *protectionDomain) RegisterDMABuf(fd int, offset uint64, length int, iova uint64, access verbs.Access) (verbs.MemoryRegion, error) {
	if fd < 0 {
		return nil, p.fail("register dma-buf", fmt.Errorf("descriptor %d", fd))
	}
	m, err := p.register(fd, offset, length, iova, access)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// register makes length bytes at addr, or at that place of a dma-buf, known to the device by addresses from iova on.
func (p *protectionDomain) register(fd int, addr uint64, length int, iova uint64, access verbs.Access) (*memoryRegion, error) {
	verb := fmt.Sprintf("register %d bytes of memory (%v)", length, access)
	if length < 1 {
		return nil, p.fail(verb, fmt.Errorf("want at least 1 byte"))
	}
	if remote := access & (verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic); remote != 0 && access&verbs.AccessLocalWrite == 0 {
		return nil, &verbs.Error{
			Verb: verb, Device: p.d.info.Name, Err: fmt.Errorf("%v without LOCAL_WRITE (IBTA 10.6.3.1)", remote),
			Fix: "add LOCAL_WRITE",
		}
	}
	v := p.d.v
	if v.reg_mr_iova2 == nil {
		access &^= optionalAccess
	}
	m := &memoryRegion{object: object{d: p.d}, addr: iova, length: length, release: func() {}}
	err := m.Open("memory region", func() (err error) {
		start, bytes := C.uint64_t(addr), C.size_t(length)
		switch {
		case fd >= 0:
			m.mr, err = C.vb_reg_dmabuf_mr(v, p.pd, start, bytes, C.uint64_t(iova), C.int(fd), C.int(access))
		case v.reg_mr_iova2 != nil:
			m.mr, err = C.vb_reg_mr_iova2(v, p.pd, start, bytes, C.uint64_t(iova), C.uint(access))
		case iova == addr:
			m.mr, err = C.vb_reg_mr(v, p.pd, start, bytes, C.int(access))
		default:
			err = syscall.EOPNOTSUPP
		}
		return refusal(m.mr, err)
	}, &p.Handle)
	if err != nil {
		return nil, explain(verbs.Error{Verb: verb, Device: p.d.info.Name, Err: err}, length)
	}
	m.lkey, m.rkey = uint32(m.mr.lkey), uint32(m.mr.rkey)
	return m, nil
}

func (m *memoryRegion) Addr() uint64 { return m.addr }
func (m *memoryRegion) Len() int     { return m.length }
func (m *memoryRegion) LKey() uint32 { return m.lkey }
func (m *memoryRegion) RKey() uint32 { return m.rkey }

func (m *memoryRegion) SGE(offset, n int) verbs.SGE {
	return verbs.SGE{Addr: m.addr + uint64(offset), Length: uint32(n), LKey: m.lkey}
}

// Close deregisters the memory.
func (m *memoryRegion) Close() error {
	return m.destroy("deregister memory", func() C.int { return C.vb_dereg_mr(m.d.v, m.mr) }, m.release)
}

// memoryWindow is a type 2 window.
type memoryWindow struct {
	object
	mw   *C.struct_vb_mw
	rkey atomic.Uint32
}

// AllocMW makes a type 2 memory window.
func (p *protectionDomain) AllocMW() (verbs.MemoryWindow, error) {
	w := &memoryWindow{object: object{d: p.d}}
	err := w.Open("memory window", func() (err error) {
		w.mw, err = C.vb_alloc_mw(p.pd)
		return refusal(w.mw, err)
	}, &p.Handle)
	if err != nil {
		return nil, p.fail("allocate memory window", err)
	}
	w.rkey.Store(uint32(w.mw.rkey))
	return w, nil
}

func (w *memoryWindow) RKey() uint32 { return w.rkey.Load() }

// Close frees the window.
func (w *memoryWindow) Close() error {
	return w.destroy("free memory window", func() C.int { return C.vb_dealloc_mw(w.mw) })
}

// addressHandle is a destination for UD sends.
type addressHandle struct {
	object
	ah *C.struct_vb_ah
}

// CreateAH makes an address handle.
func (p *protectionDomain) CreateAH(a verbs.AddressVector) (verbs.AddressHandle, error) {
	h := &addressHandle{object: object{d: p.d}}
	err := h.Open("address handle", func() error {
		attr, err := cAddressVector(a)
		if err != nil {
			return err
		}
		h.ah, err = C.vb_create_ah(p.d.v, p.pd, &attr)
		return refusal(h.ah, err)
	}, &p.Handle)
	if err != nil {
		return nil, p.fail(fmt.Sprintf("create address handle for %v", a.DGID), err)
	}
	return h, nil
}

// Close destroys the handle.
func (h *addressHandle) Close() error {
	return h.destroy("destroy address handle", func() C.int { return C.vb_destroy_ah(h.d.v, h.ah) })
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
