//go:build linux && cgo

package ibv

// #include "shim.h"
import "C"

import (
	"cmp"
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

// memoryRegion is registered memory.
type memoryRegion struct {
	object
	mr     *C.struct_vb_mr
	addr   uint64
	length int
	lkey   uint32
	rkey   uint32
}

// optionalAccess are the flags that a device may ignore (IBV_ACCESS_OPTIONAL_RANGE).
const optionalAccess = verbs.Access(0x3ff00000)

// RegisterMemory makes n bytes of b from offset on known to the device.
func (p *protectionDomain) RegisterMemory(b *verbs.Buffer, offset, n int,
	access verbs.Access,
) (verbs.MemoryRegion, error) {
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
	m.after = b.Release
	return m, nil
}

// RegisterDMABuf makes part of a dma-buf known to the device.
func (p *protectionDomain) RegisterDMABuf(fd int, offset uint64, length int, iova uint64,
	access verbs.Access,
) (verbs.MemoryRegion, error) {
	if fd < 0 {
		return nil, p.fail("register dma-buf", fmt.Errorf("descriptor %d", fd))
	}
	m, err := p.register(fd, offset, length, iova, access)
	return made[verbs.MemoryRegion](m, err)
}

// register makes length bytes at addr, or at that place of a dma-buf, known to the device by addresses from iova on.
func (p *protectionDomain) register(fd int, addr uint64, length int, iova uint64,
	access verbs.Access,
) (*memoryRegion, error) {
	verb := fmt.Sprintf("register %d bytes of memory (%v)", length, access)
	if length < 1 {
		return nil, p.fail(verb, fmt.Errorf("want at least 1 byte"))
	}
	if remote := access & (verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic); remote != 0 &&
		access&verbs.AccessLocalWrite == 0 {
		return nil, p.failure(verb, fmt.Errorf("%v without LOCAL_WRITE (IBTA 10.6.3.1)", remote), "add LOCAL_WRITE")
	}
	v := p.d.v
	if v.reg_mr_iova2 == nil {
		access &^= optionalAccess
	}
	if access&verbs.AccessZeroBased != 0 {
		iova = 0
	}
	m := &memoryRegion{object: object{d: p.d}, addr: iova, length: length}
	m.kind, m.destroy = "memory region", func() C.int { return C.vb_dereg_mr(v, m.mr) }
	err := m.Open(m.kind, func() (err error) {
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
		return nil, explain(p.failure(verb, err, ""), length)
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

// memoryWindow is a type 2 window.
type memoryWindow struct {
	object
	mw   *C.struct_vb_mw
	rkey atomic.Uint32
}

// AllocMW makes a type 2 memory window.
func (p *protectionDomain) AllocMW() (verbs.MemoryWindow, error) {
	w := &memoryWindow{object: object{d: p.d}}
	return made[verbs.MemoryWindow](w, w.open("allocate memory window", "memory window", func() (err error) {
		w.mw, err = C.vb_alloc_mw(p.pd)
		if err = refusal(w.mw, err); err == nil {
			w.rkey.Store(uint32(w.mw.rkey))
		}
		return err
	}, func() C.int { return C.vb_dealloc_mw(w.mw) }, &p.Handle))
}

func (w *memoryWindow) RKey() uint32 { return w.rkey.Load() }

// addressHandle is a destination for UD sends.
type addressHandle struct {
	object
	ah *C.struct_vb_ah
}

// CreateAH makes an address handle.
func (p *protectionDomain) CreateAH(a verbs.AddressVector) (verbs.AddressHandle, error) {
	h := &addressHandle{object: object{d: p.d}}
	verb := fmt.Sprintf("create address handle for %v", a.DGID)
	return made[verbs.AddressHandle](h, h.open(verb, "address handle", func() error {
		attr, err := cAddressVector(a)
		if err != nil {
			return err
		}
		h.ah, err = C.vb_create_ah(p.d.v, p.pd, &attr)
		return refusal(h.ah, err)
	}, func() C.int { return C.vb_destroy_ah(h.d.v, h.ah) }, &p.Handle))
}

// defaultHopLimit is what a zero hop limit means.
const defaultHopLimit = 64

func cAddressVector(a verbs.AddressVector) (c C.struct_vb_ah_attr, err error) {
	if a.SGIDIndex < 0 || a.SGIDIndex > 255 {
		return c, fmt.Errorf("GID index %d: libibverbs has room for 0 to 255", a.SGIDIndex)
	}
	a.Port, a.HopLimit = max(a.Port, 1), cmp.Or(a.HopLimit, defaultHopLimit)
	c.is_global = C.uint8_t(flag(a.UseGID))
	addressFields(true, &c, &a)
	return c, nil
}

func goAddressVector(c *C.struct_vb_ah_attr) (a verbs.AddressVector) {
	a.UseGID = c.is_global != 0
	addressFields(false, c, &a)
	return a
}

// addressFields copies the fields of an address vector, to C or from there.
func addressFields(toC bool, c *C.struct_vb_ah_attr, a *verbs.AddressVector) {
	field(toC, &c.dlid, &a.DLID)
	field(toC, &c.sl, &a.SL)
	field(toC, &c.port_num, &a.Port)
	if !a.UseGID {
		return
	}
	field(toC, &c.grh.sgid_index, &a.SGIDIndex)
	field(toC, &c.grh.flow_label, &a.FlowLabel)
	field(toC, &c.grh.traffic_class, &a.TrafficClass)
	field(toC, &c.grh.hop_limit, &a.HopLimit)
	for i := range a.DGID {
		field(toC, &c.grh.dgid[i], &a.DGID[i])
	}
}

// field copies a number between a field of C and one of Go.
func field[F, T ~int | ~int32 | ~uint8 | ~uint16 | ~uint32](toC bool, c *F, g *T) {
	if toC {
		*c = F(*g)
	} else {
		*g = T(*c)
	}
}
