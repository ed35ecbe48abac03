package roce

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/internal/handle"
)

// protectionDomain is a verbs.ProtectionDomain.
type protectionDomain struct {
	handle.Handle
	e *engine
}

func (d *device) AllocPD() (verbs.ProtectionDomain, error) {
	pd := &protectionDomain{e: d.e}
	return made[verbs.ProtectionDomain](d.e, pd, "allocate protection domain", d.open(&pd.Handle, kindPD, maxPD))
}

func (pd *protectionDomain) Close() error {
	return pd.e.close(&pd.Handle, "close protection domain", 0, func() {})
}

// region is what a key stands for: a memory region or a bound memory window.
type region struct {
	key    uint32
	pd     *protectionDomain
	base   uint64 // first address in work requests
	size   uint64
	at     unsafe.Pointer
	access verbs.Access
	mr     *memoryRegion // a window's parent; nil: not bound
	window bool
	qp     *queuePair // a bound window belongs to one queue pair
}

// keyTable maps keys to regions: the index is in the upper 24 bits, the consumer's part in the low 8.
type keyTable struct {
	regions []*region
	free    []uint32
	low     uint8
}

func (t *keyTable) add(r *region) {
	var i uint32
	if n := len(t.free); n > 0 {
		i = t.free[0]
		t.free = t.free[1:]
	} else {
		if len(t.regions) == 0 {
			t.regions = append(t.regions, nil) // key 0 names nothing
		}
		i = uint32(len(t.regions))
		t.regions = append(t.regions, nil)
	}
	t.low = t.low*37 + 101 // so that a stale key does not name its successor
	r.key = i<<8 | uint32(t.low)
	t.regions[i] = r
}

func (t *keyTable) remove(r *region) {
	i := r.key >> 8
	t.regions[i] = nil
	t.free = append(t.free, i)
}

func (t *keyTable) find(key uint32) *region {
	i := key >> 8
	if i >= uint32(len(t.regions)) {
		return nil
	}
	if r := t.regions[i]; r != nil && r.key == key {
		return r
	}
	return nil
}

// covers tells whether [addr, addr+n) lies in the region, without overflow.
func (r *region) covers(addr, n uint64) bool {
	return addr >= r.base && n <= r.size && addr-r.base <= r.size-n
}

// local resolves a scatter/gather entry of ours. need is 0 for reading.
func (e *engine) local(pd *protectionDomain, addr uint64, n uint32, lkey uint32, need verbs.Access) unsafe.Pointer {
	r := e.keys.find(lkey)
	if r == nil || r.pd != pd || r.window || r.access&need != need || !r.covers(addr, uint64(n)) {
		return nil
	}
	return unsafe.Add(r.at, addr-r.base)
}

// remote resolves what a peer names.
func (e *engine) remote(q *queuePair, addr uint64, n uint64, rkey uint32, need verbs.Access) unsafe.Pointer {
	r := e.keys.find(rkey)
	if r == nil || r.pd != q.pd || r.access&need == 0 || !r.covers(addr, n) || r.window && (r.mr == nil || r.qp != q) {
		return nil
	}
	return unsafe.Add(r.at, addr-r.base)
}

// memoryRegion is a verbs.MemoryRegion.
type memoryRegion struct {
	handle.Handle
	region
	e *engine
}

const remoteAccess = verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic

func (pd *protectionDomain) RegisterMemory(b []byte, access verbs.Access) (verbs.MemoryRegion, error) {
	e := pd.e
	e.lock()
	defer e.unlock()
	const verb = "register memory"
	known := remoteAccess | verbs.AccessLocalWrite | verbs.AccessMWBind | verbs.AccessOnDemand | verbs.AccessRelaxedOrdering
	switch {
	case len(b) == 0:
		return nil, e.fail(verb, 0, errors.New("empty: want at least 1 byte"))
	case access&^known != 0:
		return nil, e.fail(verb, 0, fmt.Errorf("access %v: %w", access&^known, verbs.ErrUnsupported))
	case access&(verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic) != 0 && access&verbs.AccessLocalWrite == 0:
		return nil, e.fail(verb, 0, fmt.Errorf("access %v: REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE", access))
	}
	m := &memoryRegion{e: e}
	m.at = unsafe.Pointer(unsafe.SliceData(b))
	m.pd, m.base, m.size, m.access = pd, uint64(uintptr(m.at)), uint64(len(b)), access
	if err := e.device.open(&m.Handle, kindMR, maxMR, &pd.Handle); err != nil {
		return nil, e.fail(verb, 0, err)
	}
	e.keys.add(&m.region)
	return m, nil
}

func (m *memoryRegion) Close() error {
	return m.e.close(&m.Handle, "deregister memory", 0, func() { m.e.keys.remove(&m.region) })
}

func (m *memoryRegion) Addr() uint64 { return m.base }
func (m *memoryRegion) Len() int     { return int(m.size) }
func (m *memoryRegion) LKey() uint32 { return m.key }
func (m *memoryRegion) RKey() uint32 { return m.key }

func (m *memoryRegion) SGE(offset, n int) verbs.SGE {
	return verbs.SGE{Addr: m.base + uint64(offset), Length: uint32(n), LKey: m.key}
}

// memoryWindow is a type 2 memory window (IBTA 10.6.7.2.2).
type memoryWindow struct {
	handle.Handle
	region
	e *engine
}

func (pd *protectionDomain) AllocMW() (verbs.MemoryWindow, error) {
	e := pd.e
	e.lock()
	defer e.unlock()
	w := &memoryWindow{e: e}
	w.pd, w.window = pd, true
	if err := e.device.open(&w.Handle, kindMW, maxMW, &pd.Handle); err != nil {
		return nil, e.fail("allocate memory window", 0, err)
	}
	e.keys.add(&w.region)
	return w, nil
}

func (w *memoryWindow) RKey() uint32 {
	w.e.lock()
	defer w.e.unlock()
	return w.key
}

func (w *memoryWindow) Close() error {
	return w.e.close(&w.Handle, "free memory window", 0, func() {
		w.unbind()
		w.e.keys.remove(&w.region)
	})
}

// unbind takes away the window's memory; its key stays its own.
func (r *region) unbind() {
	if r.mr != nil {
		r.mr.Release("bound " + kindMW)
	}
	r.mr, r.qp, r.access, r.base, r.size, r.at = nil, nil, 0, 0, 0, nil
}

// bind executes a BIND_MW work request and reports whether it was legal.
func (q *queuePair) bind(b *verbs.MemoryWindowBind) bool {
	w := b.Window.(*memoryWindow)
	m, _ := b.Region.(*memoryRegion)
	if w.Closed() || w.pd != q.pd || b.RKey>>8 != w.key>>8 {
		return false
	}
	if b.Length == 0 { // unbind
		w.unbind()
		w.key = b.RKey
		return true
	}
	switch {
	case m == nil || m.pd != q.pd || m.access&verbs.AccessMWBind == 0 || !m.covers(b.Addr, b.Length),
		b.Access&^remoteAccess != 0,
		b.Access&(verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic) != 0 && m.access&verbs.AccessLocalWrite == 0,
		w.mr != nil, // a bound type 2 window is invalidated first
		m.Use("bound "+kindMW) != nil:
		return false
	}
	w.mr, w.qp, w.access, w.size = m, q, b.Access, b.Length
	w.at = unsafe.Add(m.at, b.Addr-m.base)
	w.base = b.Addr
	w.key = b.RKey
	return true
}

// invalidate takes away what a window's key stands for. Other keys cannot be invalidated (IBTA 10.6.5).
func (q *queuePair) invalidate(rkey uint32) bool {
	r := q.e.keys.find(rkey)
	if r == nil || !r.window || r.mr == nil || r.qp != q {
		return false
	}
	r.unbind()
	return true
}
