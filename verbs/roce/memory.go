package roce

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/gobw/gobw/verbs"
)

// protectionDomain is a verbs.ProtectionDomain.
type protectionDomain struct {
	e        *engine
	children int
	closed   bool
}

func (d *device) AllocPD() (verbs.ProtectionDomain, error) {
	e := d.e
	e.lock()
	defer e.unlock()
	if e.closed {
		return nil, e.fail("allocate protection domain", 0, verbs.ErrClosed)
	}
	if e.pds >= maxPD {
		return nil, e.fail("allocate protection domain", 0, fmt.Errorf("%d protection domains are the most", maxPD))
	}
	e.pds++
	return &protectionDomain{e: e}, nil
}

func (pd *protectionDomain) Close() error {
	pd.e.lock()
	defer pd.e.unlock()
	if pd.closed {
		return nil
	}
	if pd.children > 0 {
		return pd.e.fail("close protection domain", 0, fmt.Errorf("%w: %d handles open", verbs.ErrBusy, pd.children))
	}
	pd.closed = true
	pd.e.pds--
	return nil
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
	region
	e       *engine
	addr    uint64
	length  int
	windows int
	closed  bool
}

const remoteAccess = verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic

func (pd *protectionDomain) RegisterMemory(b []byte, access verbs.Access) (verbs.MemoryRegion, error) {
	e := pd.e
	e.lock()
	defer e.unlock()
	const verb = "register memory"
	known := remoteAccess | verbs.AccessLocalWrite | verbs.AccessMWBind | verbs.AccessZeroBased | verbs.AccessOnDemand | verbs.AccessRelaxedOrdering
	switch {
	case pd.closed || e.closed:
		return nil, e.fail(verb, 0, verbs.ErrClosed)
	case len(b) == 0:
		return nil, e.fail(verb, 0, errors.New("empty: want at least 1 byte"))
	case access&^known != 0:
		return nil, e.fail(verb, 0, fmt.Errorf("access %v: %w", access&^known, verbs.ErrUnsupported))
	case access&(verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic) != 0 && access&verbs.AccessLocalWrite == 0:
		return nil, e.fail(verb, 0, fmt.Errorf("access %v: REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE", access))
	case e.mrs >= maxMR:
		return nil, e.fail(verb, 0, fmt.Errorf("%d memory regions are the most", maxMR))
	}
	m := &memoryRegion{e: e, length: len(b)}
	m.at = unsafe.Pointer(unsafe.SliceData(b))
	m.addr = uint64(uintptr(m.at))
	m.pd, m.base, m.size, m.access = pd, m.addr, uint64(len(b)), access
	if access&verbs.AccessZeroBased != 0 {
		m.base = 0
	}
	e.keys.add(&m.region)
	e.mrs++
	pd.children++
	return m, nil
}

func (m *memoryRegion) Close() error {
	m.e.lock()
	defer m.e.unlock()
	if m.closed {
		return nil
	}
	if m.windows > 0 {
		return m.e.fail("deregister memory", 0, fmt.Errorf("%w: %d memory windows bound", verbs.ErrBusy, m.windows))
	}
	m.closed = true
	m.e.keys.remove(&m.region)
	m.e.mrs--
	m.pd.children--
	return nil
}

func (m *memoryRegion) Addr() uint64 { return m.base }
func (m *memoryRegion) Len() int     { return m.length }
func (m *memoryRegion) LKey() uint32 { return m.key }
func (m *memoryRegion) RKey() uint32 { return m.key }

// memoryWindow is a type 2 memory window (IBTA 10.6.7.2.2).
type memoryWindow struct {
	region
	e      *engine
	closed bool
}

func (pd *protectionDomain) AllocMW() (verbs.MemoryWindow, error) {
	e := pd.e
	e.lock()
	defer e.unlock()
	if pd.closed || e.closed {
		return nil, e.fail("allocate memory window", 0, verbs.ErrClosed)
	}
	if e.mws >= maxMW {
		return nil, e.fail("allocate memory window", 0, fmt.Errorf("%d memory windows are the most", maxMW))
	}
	w := &memoryWindow{e: e}
	w.pd, w.window = pd, true
	e.keys.add(&w.region)
	e.mws++
	pd.children++
	return w, nil
}

func (w *memoryWindow) RKey() uint32 {
	w.e.lock()
	defer w.e.unlock()
	return w.key
}

func (w *memoryWindow) Close() error {
	w.e.lock()
	defer w.e.unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	w.unbind()
	w.e.keys.remove(&w.region)
	w.e.mws--
	w.pd.children--
	return nil
}

// unbind takes away the window's memory; its key stays its own.
func (r *region) unbind() {
	if r.mr != nil {
		r.mr.windows--
	}
	r.mr, r.qp, r.access, r.base, r.size, r.at = nil, nil, 0, 0, 0, nil
}

// bind executes a BIND_MW work request and reports whether it was legal.
func (q *queuePair) bind(b *boundWindow) bool {
	w, m := b.window, b.region
	if w.closed || w.pd != q.pd || b.rkey>>8 != w.key>>8 {
		return false
	}
	if b.length == 0 { // unbind
		w.unbind()
		w.key = b.rkey
		return true
	}
	const allowed = remoteAccess | verbs.AccessZeroBased
	switch {
	case m == nil || m.closed || m.pd != q.pd || m.access&verbs.AccessMWBind == 0 || !m.covers(b.addr, b.length),
		b.access&^allowed != 0,
		b.access&(verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic) != 0 && m.access&verbs.AccessLocalWrite == 0,
		w.mr != nil: // a bound type 2 window is invalidated first
		return false
	}
	w.mr, w.qp, w.access, w.size = m, q, b.access, b.length
	w.at = unsafe.Add(m.at, b.addr-m.base)
	w.base = b.addr
	if b.access&verbs.AccessZeroBased != 0 {
		w.base = 0
	}
	w.key = b.rkey
	m.windows++
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
